// Key differences: the plain family against the definition in double, every fast family against
// plain, and batch invariance.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/score_data.h"

namespace folio::kernels::cpu {
namespace {

using Numbers = std::vector<double>;

Numbers KeyOf(RandomPool& pages, const Tokens& tokens, uint32_t head, uint32_t slot) {
  Numbers key;
  for (uint32_t i = 0; i < pages.geometry.head_dim; ++i) {
    key.push_back(KeyAt(pages, tokens, head, slot)[i].ToFloat());
  }
  return key;
}

double Dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double Cosine(const Numbers& a, const Numbers& b) {
  const double norms = std::sqrt(Dot(a, a) * Dot(b, b));
  return norms == 0 ? 0 : Dot(a, b) / norms;
}

Numbers Naive(RandomPool& pages, const Tokens& tokens, uint32_t head) {
  Numbers mean(pages.geometry.head_dim);
  for (uint32_t slot = 0; slot < tokens.count; ++slot) {
    const Numbers key = KeyOf(pages, tokens, head, slot);
    const double norm = std::sqrt(Dot(key, key));
    for (size_t i = 0; i < mean.size() && norm > 0; ++i) mean[i] += key[i] / norm / tokens.count;
  }
  Numbers scores;
  for (uint32_t slot = 0; slot < tokens.count; ++slot) {
    scores.push_back(-Cosine(KeyOf(pages, tokens, head, slot), mean));
  }
  return scores;
}

void Score(const CpuOps& ops, int threads, RandomPool& pages, const std::vector<Tokens>& all) {
  std::vector<ResidentItem> runs;
  runs.reserve(all.size());
  for (const Tokens& tokens : all) runs.push_back({tokens.table.data(), tokens.count});
  ThreadPool pool(threads);
  ops.ScoreResident(pool, runs, pages.view());
}

class KeyDifferenceTest : public ScoresTest {};

TEST_P(KeyDifferenceTest, IsWhatTheDefinitionSays) {
  for (const ScoreShape& s : kScoreShapes) {
    SCOPED_TRACE(testing::Message()
                 << s.kv_heads << " heads of " << s.head_dim << ", pages of " << s.page_tokens);
    RandomPool pages(random_, 160, s.kv_heads, s.head_dim, s.page_tokens);
    for (bf16& x : pages.values) x = bf16::Round(x.ToFloat() * 3 + 0.5f);  // they point somewhere
    std::vector<Tokens> all;
    for (const uint32_t count : {1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 130u, 700u}) {
      all.push_back({pages.Table(count), count});
    }
    const auto clear = [&](const Tokens& tokens, uint32_t slot) {
      std::fill_n(KeyAt(pages, tokens, s.kv_heads - 1, slot), s.head_dim, bf16{});
    };
    clear(all[0], 0);  // no direction at all
    clear(all[4], 16);
    clear(all[6], 0);
    RandomPool want = pages;
    Score(*ops_, 2, pages, all);
    Score(*reference_, 2, want, all);
    for (size_t i = 0; i < pages.scores.size(); ++i) {
      ASSERT_NEAR(pages.scores[i], want.scores[i], plain() ? 0 : 5e-6) << i;
    }
    if (!plain()) continue;
    for (const Tokens& tokens : all) {
      for (uint32_t head = 0; head < s.kv_heads; ++head) {
        const Numbers naive = Naive(pages, tokens, head);
        for (uint32_t slot = 0; slot < tokens.count; ++slot) {
          ASSERT_NEAR(ScoreAt(pages, tokens, head, slot), naive[slot], 1e-7) << slot;
        }
        for (uint32_t slot = tokens.count; slot < tokens.table.size() * s.page_tokens; ++slot) {
          ASSERT_EQ(ScoreAt(pages, tokens, head, slot), kUntouched) << slot;
        }
      }
    }
  }
}

TEST_P(KeyDifferenceTest, KeysThatCancelOrVanishScoreNothing) {
  RandomPool pages(random_, 10, 2, 64);
  const Tokens tokens{pages.Table(40), 40};
  for (uint32_t slot = 0; slot < tokens.count; ++slot) {
    for (uint32_t i = 0; i < 64; ++i) {
      // In head 0 each key and its opposite; in head 1 keys whose squares are no numbers any more.
      if (slot >= 20) {
        const float other = KeyAt(pages, tokens, 0, slot - 20)[i].ToFloat();
        KeyAt(pages, tokens, 0, slot)[i] = bf16::Round(-other);
      }
      KeyAt(pages, tokens, 1, slot)[i] = bf16::Round(1e-30f);
    }
  }
  Score(*ops_, 2, pages, {tokens});
  for (uint32_t slot = 0; slot < tokens.count; ++slot) {
    EXPECT_EQ(ScoreAt(pages, tokens, 0, slot), 0) << slot;
    EXPECT_EQ(ScoreAt(pages, tokens, 1, slot), 0) << slot;
  }
}

// Alone by one thread, in a batch by several, with anything behind the tokens: the same bits.
TEST_P(KeyDifferenceTest, DoesNotDependOnCompanyOrThreads) {
  RandomPool pages(random_, 200, 3, 64);
  std::vector<Tokens> all;
  for (const uint32_t count : {700u, 5u, 64u, 333u, 1000u}) {
    all.push_back({pages.Table(count), count});
  }
  RandomPool alone = pages;
  for (const Tokens& tokens : all) {
    Score(*ops_, 1, alone, {tokens});
    SpoilRest(pages, tokens);
  }
  for (const int threads : {1, 2, 3, 5}) {
    RandomPool together = pages;
    Score(*ops_, threads, together, all);
    for (const Tokens& tokens : all) EXPECT_EQ(Board(together, tokens), Board(alone, tokens));
  }
}

TEST_P(KeyDifferenceTest, NothingToScoreOrNobodyToReadIt) {
  RandomPool pages(random_, 4, 2, 64);
  ThreadPool pool(2);
  const Tokens tokens{pages.Table(20), 20};
  ops_->ScoreResident(pool, {}, pages.view());
  PoolView unread = pages.view();
  unread.scores = nullptr;
  const ResidentItem run{tokens.table.data(), tokens.count};
  ops_->ScoreResident(pool, {&run, 1}, unread);
  for (const float score : pages.scores) EXPECT_EQ(score, kUntouched);
}

INSTANTIATE_TEST_SUITE_P(Families, KeyDifferenceTest, testing::ValuesIn(AllFamilies()), FamilyName);

}  // namespace
}  // namespace folio::kernels::cpu
