// Key differences with the rotation undone: the plain family against the definition in double,
// every fast family against plain, what they must not depend on, and that rotation is undone.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/kernels/score_data.h"

namespace folio::kernels::cpu {
namespace {

using Numbers = std::vector<double>;

// One sequence's tokens to score; positions rise, with gaps.
struct Scored {
  Tokens tokens;
  uint32_t first = 0;
  uint32_t stride = 1;
  std::vector<uint32_t> positions = {};

  UnrotatedItem run() const {
    return {tokens.table.data(), positions.data(), tokens.count, first, stride};
  }
};

constexpr uint32_t kPositions = 3000;

Scored Make(RandomPool& pages, Random& random, uint32_t count, uint32_t first, uint32_t stride) {
  Scored scored{{pages.Table(count), count}, first, stride};
  uint32_t position = 0;
  for (uint32_t i = 0; i < count; ++i, position += 1 + random() % 4) {
    scored.positions.push_back(position);
  }
  return scored;
}

// A key as it was before it was turned, of length 1.
Numbers Before(RandomPool& pages, const Scored& s, const Angles& angles, uint32_t head,
               uint32_t slot) {
  const uint32_t dim = pages.geometry.head_dim;
  const bf16* key = KeyAt(pages, s.tokens, head, slot);
  double squares = 0;
  Numbers x(dim);
  for (uint32_t i = 0; i < dim / 2; ++i) {
    const size_t at = size_t{s.positions[slot]} * (dim / 2) + i;
    const double a = key[i].ToFloat();
    const double b = key[dim / 2 + i].ToFloat();
    squares += a * a + b * b;
    x[i] = a * angles.cos[at] + b * angles.sin[at];
    x[dim / 2 + i] = b * angles.cos[at] - a * angles.sin[at];
  }
  for (double& value : x) value *= squares == 0 ? 0 : 1 / std::sqrt(squares);
  return x;
}

double Dot(const Numbers& a, const Numbers& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double Naive(RandomPool& pages, const Scored& s, const Angles& angles, uint32_t head,
             uint32_t slot) {
  const uint32_t page = pages.geometry.page_tokens;
  Numbers mean(pages.geometry.head_dim);
  for (uint32_t i = 1; page - 1 + i * s.stride < s.tokens.count; ++i) {
    const Numbers x = Before(pages, s, angles, head, page - 1 + i * s.stride);
    for (size_t j = 0; j < x.size(); ++j) mean[j] += x[j];
  }
  const double norm = std::sqrt(Dot(mean, mean));
  return norm == 0 ? 0 : -Dot(Before(pages, s, angles, head, slot), mean) / norm;
}

void Score(const CpuOps& ops, int threads, RandomPool& pages, const std::vector<Scored>& all,
           const Angles& angles) {
  std::vector<UnrotatedItem> runs;
  runs.reserve(all.size());
  for (const Scored& scored : all) runs.push_back(scored.run());
  ThreadPool pool(threads);
  ops.ScoreUnrotated(pool, runs, angles.table(), pages.view());
}

class UnrotatedTest : public ScoresTest {};

TEST_P(UnrotatedTest, IsWhatTheDefinitionSays) {
  for (const ScoreShape& s : kScoreShapes) {
    SCOPED_TRACE(testing::Message()
                 << s.kv_heads << " heads of " << s.head_dim << ", pages of " << s.page_tokens);
    const Angles angles(s.head_dim, kPositions);
    RandomPool pages(random_, 200, s.kv_heads, s.head_dim, s.page_tokens);
    for (bf16& x : pages.values) x = bf16::Round(x.ToFloat() * 3 + 0.5f);  // they point somewhere
    std::vector<Scored> all;
    for (const uint32_t count : {1u, 16u, 17u, 32u, 33u, 130u, 700u}) {
      all.push_back(Make(pages, random_, count, 0, 1));
    }
    for (const uint32_t full : {2u, 3u, 10u}) {
      const uint32_t count = full * s.page_tokens;
      all.push_back(Make(pages, random_, count, count - s.page_tokens, s.page_tokens));
    }
    std::fill_n(KeyAt(pages, all[5].tokens, s.kv_heads - 1, 20), s.head_dim, bf16{});
    RandomPool want = pages;
    Score(*ops_, 2, pages, all, angles);
    Score(*reference_, 2, want, all, angles);
    for (size_t i = 0; i < pages.scores.size(); ++i) {
      ASSERT_NEAR(pages.scores[i], want.scores[i], plain() ? 0 : 5e-6) << i;
    }
    if (!plain()) continue;
    for (const Scored& one : all) {
      for (uint32_t head = 0; head < s.kv_heads; ++head) {
        for (uint32_t slot = 0; slot < one.tokens.table.size() * s.page_tokens; ++slot) {
          const bool scored = slot >= one.first && slot < one.tokens.count;
          const double naive = scored ? Naive(pages, one, angles, head, slot) : kUntouched;
          ASSERT_NEAR(ScoreAt(pages, one.tokens, head, slot), naive, 1e-6)
              << slot << " of " << one.tokens.count;
        }
      }
    }
  }
}

// The same content at other positions scores the same, but for the rounding of stored keys.
TEST_P(UnrotatedTest, PositionsDoNotMatter) {
  const Angles angles(64, kPositions);
  RandomPool pages(random_, 20, 1, 64);
  Scored here = Make(pages, random_, 100, 0, 1);
  Scored there = Make(pages, random_, 100, 0, 1);
  std::iota(here.positions.begin(), here.positions.end(), 0u);
  for (uint32_t slot = 0; slot < 100; ++slot) {
    std::vector<float> content(64);
    for (float& x : content) x = 0.3f + static_cast<float>(random_() % 2001) / 1000.0f - 1;
    for (const Scored* one : {&here, &there}) {
      bf16* key = KeyAt(pages, one->tokens, 0, slot);
      for (uint32_t i = 0; i < 32; ++i) {
        const size_t at = size_t{one->positions[slot]} * 32 + i;
        key[i] = bf16::Round(content[i] * angles.cos[at] - content[32 + i] * angles.sin[at]);
        key[32 + i] = bf16::Round(content[32 + i] * angles.cos[at] + content[i] * angles.sin[at]);
      }
    }
  }
  Score(*ops_, 1, pages, {here, there}, angles);
  for (uint32_t slot = 0; slot < 100; ++slot) {
    EXPECT_NEAR(ScoreAt(pages, here.tokens, 0, slot), ScoreAt(pages, there.tokens, 0, slot), 0.01);
  }
}

TEST_P(UnrotatedTest, KeysThatCancelOrVanishScoreNothing) {
  const Angles angles(64, kPositions);
  RandomPool pages(random_, 10, 2, 64);
  Scored scored = Make(pages, random_, 56, 0, 1);
  scored.positions.assign(56, 7);
  for (uint32_t slot = 0; slot < 56; ++slot) {
    for (uint32_t i = 0; i < 64; ++i) {
      // In head 0 each key of the sample and its opposite; in head 1 keys too small for a
      // direction.
      if (slot >= 36) {
        const float other = KeyAt(pages, scored.tokens, 0, slot - 20)[i].ToFloat();
        KeyAt(pages, scored.tokens, 0, slot)[i] = bf16::Round(-other);
      }
      KeyAt(pages, scored.tokens, 1, slot)[i] = bf16::Round(1e-30f);
    }
  }
  Score(*ops_, 2, pages, {scored}, angles);
  for (uint32_t slot = 0; slot < 56; ++slot) {
    EXPECT_EQ(ScoreAt(pages, scored.tokens, 0, slot), 0) << slot;
    EXPECT_EQ(ScoreAt(pages, scored.tokens, 1, slot), 0) << slot;
  }
}

// Alone by one thread, in a batch by several, with anything behind the tokens: the same bits.
TEST_P(UnrotatedTest, DoesNotDependOnCompanyOrThreads) {
  const Angles angles(64, kPositions);
  RandomPool pages(random_, 200, 3, 64);
  std::vector<Scored> all = {Make(pages, random_, 700, 0, 1), Make(pages, random_, 5, 0, 1),
                             Make(pages, random_, 64, 48, 16), Make(pages, random_, 333, 0, 1),
                             Make(pages, random_, 1000, 0, 1)};
  RandomPool alone = pages;
  for (const Scored& scored : all) {
    Score(*ops_, 1, alone, {scored}, angles);
    SpoilRest(pages, scored.tokens);
  }
  for (const int threads : {1, 2, 3, 5}) {
    RandomPool together = pages;
    Score(*ops_, threads, together, all, angles);
    for (const Scored& one : all) EXPECT_EQ(Board(together, one.tokens), Board(alone, one.tokens));
  }
}

TEST_P(UnrotatedTest, NothingToScoreOrNobodyToReadIt) {
  const Angles angles(64, kPositions);
  RandomPool pages(random_, 4, 2, 64);
  ThreadPool pool(2);
  const Scored scored = Make(pages, random_, 20, 0, 1);
  ops_->ScoreUnrotated(pool, {}, angles.table(), pages.view());
  PoolView unread = pages.view();
  unread.scores = nullptr;
  const UnrotatedItem run = scored.run();
  ops_->ScoreUnrotated(pool, {&run, 1}, angles.table(), unread);
  for (const float score : pages.scores) EXPECT_EQ(score, kUntouched);
}

INSTANTIATE_TEST_SUITE_P(Families, UnrotatedTest, testing::ValuesIn(AllFamilies()), FamilyName);

}  // namespace
}  // namespace folio::kernels::cpu
