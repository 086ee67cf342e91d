// Window attention: the plain family against the definition in double, every fast family against
// plain, and batch invariance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/score_data.h"

namespace folio::kernels::cpu {
namespace {

using Numbers = std::vector<double>;

struct Call {
  AttentionShape shape;
  uint32_t skipped;  // batch rows before the first window's
  std::vector<bf16> q;
  std::vector<PromptWindow> windows;
};

uint32_t RowsOf(const std::vector<PromptWindow>& windows) {
  uint32_t rows = 0;
  for (const PromptWindow& w : windows) rows += w.rows;
  return rows;
}

// Queries whose scores spread over some +-10.
std::vector<bf16> Queries(Random& random, const AttentionShape& shape, uint32_t rows) {
  const float scale = 10.0f / std::sqrt(static_cast<float>(shape.head_dim));
  return RandomBf16(random, size_t{rows} * shape.heads * shape.head_dim, scale);
}

void Score(const CpuOps& ops, int threads, RandomPool& pages, const Call& call) {
  const uint32_t cols = call.shape.heads * call.shape.head_dim;
  ActivationBuffer q(ops, static_cast<uint32_t>(call.q.size()) / cols, cols, call.q.data());
  std::vector<WindowItem> runs;
  uint32_t row = call.skipped;
  for (const PromptWindow& w : call.windows) {
    runs.push_back({{row, w.rows, w.tokens.table.data(), w.tokens.count}, w.neighbours, w.channel});
    row += w.rows;
  }
  ThreadPool pool(threads);
  ops.ScoreWindow(pool, q.view(), runs, call.shape, pages.view());
}

// Shares of one query among slots [0, seen).
Numbers Softmax(RandomPool& pages, const Tokens& tokens, uint32_t head, uint32_t seen,
                const bf16* q) {
  const uint32_t dim = pages.geometry.head_dim;
  Numbers scores;
  for (uint32_t slot = 0; slot < seen; ++slot) {
    double dot = 0;
    const bf16* key = KeyAt(pages, tokens, head, slot);
    for (uint32_t i = 0; i < dim; ++i) dot += double{q[i].ToFloat()} * key[i].ToFloat();
    scores.push_back(dot / std::sqrt(static_cast<double>(dim)));
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - max);
  for (double& s : scores) s /= sum;
  return scores;
}

// Of one KV head; `row` is the window's first in the batch.
Numbers Naive(RandomPool& pages, const Call& call, const PromptWindow& w, uint32_t row,
              uint32_t head) {
  const uint32_t group = call.shape.heads / call.shape.kv_heads;
  Numbers mass(w.tokens.count);
  for (uint32_t i = 0; i < w.rows; ++i) {
    for (uint32_t g = 0; g < group; ++g) {
      const size_t query = size_t{row + i} * call.shape.heads + head * group + g;
      const Numbers shares = Softmax(pages, w.tokens, head, w.tokens.count - w.rows + 1 + i,
                                     &call.q[query * call.shape.head_dim]);
      for (size_t t = 0; t < shares.size(); ++t) mass[t] += shares[t] / (w.rows * group);
    }
  }
  Numbers pooled;
  for (int slot = 0; slot < static_cast<int>(mass.size()); ++slot) {
    double most = 0;
    const int reach = static_cast<int>(w.neighbours);
    for (int other = slot - reach; other <= slot + reach; ++other) {
      if (other >= 0 && other < static_cast<int>(mass.size())) most = std::max(most, mass[other]);
    }
    pooled.push_back(most);
  }
  return pooled;
}

class WindowScoresTest : public ScoresTest {};

void ExpectNaive(RandomPool& pages, const Call& call) {
  uint32_t row = call.skipped;
  for (const PromptWindow& w : call.windows) {
    for (uint32_t head = 0; head < call.shape.kv_heads; ++head) {
      const Numbers naive = Naive(pages, call, w, row, head);
      for (uint32_t slot = 0; slot < w.tokens.count; ++slot) {
        ASSERT_NEAR(ScoreAt(pages, w.tokens, head, slot, w.channel), naive[slot],
                    1e-5 * naive[slot] + 1e-12)
            << "slot " << slot << " of " << w.tokens.count << ", window " << w.rows;
      }
      const size_t slots = w.tokens.table.size() * pages.geometry.page_tokens;
      for (uint32_t slot = w.tokens.count; slot < slots; ++slot) {
        ASSERT_EQ(ScoreAt(pages, w.tokens, head, slot, w.channel), kUntouched) << slot;
      }
      for (const float other : Board(pages, w.tokens, 1 - w.channel)) ASSERT_EQ(other, kUntouched);
    }
    row += w.rows;
  }
}

TEST_P(WindowScoresTest, IsWhatTheDefinitionSays) {
  for (const ScoreShape& s : kScoreShapes) {
    SCOPED_TRACE(testing::Message() << s.kv_heads << " kv heads, group " << s.group << ", dim "
                                    << s.head_dim << ", page " << s.page_tokens);
    RandomPool pages(random_, 300, s.kv_heads, s.head_dim, s.page_tokens);
    Call call{{s.kv_heads * s.group, s.kv_heads, s.head_dim}, 3, {}, {}};
    for (const auto& [count, rows] : std::vector<std::pair<uint32_t, uint32_t>>{
             {1, 1}, {4, 4}, {17, 1}, {64, 64}, {65, 8}, {70, 70}, {130, 17}, {600, 33}}) {
      const auto at = static_cast<uint32_t>(call.windows.size());
      call.windows.push_back({{pages.Table(count), count}, rows, at % 3 == 0 ? 3 : 4 * at, at % 2});
    }
    // A zero key is attended as any other.
    std::fill_n(KeyAt(pages, call.windows[6].tokens, 0, 16), s.head_dim, bf16{});
    call.q = Queries(random_, call.shape, call.skipped + RowsOf(call.windows) + 2);
    RandomPool want = pages;
    Score(*ops_, 2, pages, call);
    Score(*reference_, 2, want, call);
    for (size_t i = 0; i < pages.scores.size(); ++i) {
      const float tolerance = plain() ? 0 : 5e-5f * std::fabs(want.scores[i]) + 1e-12f;
      ASSERT_NEAR(pages.scores[i], want.scores[i], tolerance) << i;
    }
    if (plain()) ExpectNaive(pages, call);
  }
}

// Each query hands out exactly one: before pooling the masses sum to 1. Seen where pooling changes
// nothing, with one slot.
TEST_P(WindowScoresTest, ALoneTokenHasAllTheMass) {
  RandomPool pages(random_, 4, 2, 64);
  Call call{{6, 2, 64}, 0, {}, {{{pages.Table(1), 1}, 1}}};
  call.q = Queries(random_, call.shape, 1);
  Score(*ops_, 1, pages, call);
  for (uint32_t head = 0; head < 2; ++head) {
    EXPECT_NEAR(ScoreAt(pages, call.windows[0].tokens, head, 0), 1, 1e-6);
  }
}

// Alone by one thread, in a batch by several, at another row, with anything behind the tokens: the
// same bits.
TEST_P(WindowScoresTest, DoesNotDependOnCompanyOrThreads) {
  const AttentionShape shape{6, 2, 64};
  const size_t cols = size_t{shape.heads} * shape.head_dim;
  RandomPool pages(random_, 200, shape.kv_heads, shape.head_dim);
  Call call{shape, 5, {}, {}};
  for (const auto& [count, rows] :
       std::vector<std::pair<uint32_t, uint32_t>>{{700, 64}, {5, 5}, {333, 20}, {1000, 37}}) {
    call.windows.push_back({{pages.Table(count), count}, rows, count % 16, count % 2});
  }
  call.q = Queries(random_, shape, call.skipped + RowsOf(call.windows));
  RandomPool alone = pages;
  uint32_t row = call.skipped;
  for (const PromptWindow& w : call.windows) {
    const auto first = call.q.begin() + static_cast<ptrdiff_t>(row * cols);
    Score(*ops_, 1, alone, {shape, 0, {first, first + static_cast<ptrdiff_t>(w.rows * cols)}, {w}});
    row += w.rows;
    SpoilRest(pages, w.tokens);
  }
  for (const int threads : {1, 2, 3, 5}) {
    RandomPool together = pages;
    Score(*ops_, threads, together, call);
    for (const PromptWindow& w : call.windows) {
      EXPECT_EQ(Board(together, w.tokens, w.channel), Board(alone, w.tokens, w.channel));
    }
  }
}

// More query rows than one block of exponentials has room for.
TEST_P(WindowScoresTest, AWindowMayTakeSeveralBlocks) {
  RandomPool pages(random_, 260, 2, 16);
  Call call{{32, 2, 16}, 0, {}, {{{pages.Table(4100), 4100}, 40}}};
  call.q = Queries(random_, call.shape, 40);
  RandomPool want = pages;
  Score(*ops_, 2, pages, call);
  Score(*reference_, 2, want, call);
  for (size_t i = 0; i < pages.scores.size(); ++i) {
    ASSERT_NEAR(pages.scores[i], want.scores[i], 5e-5f * std::fabs(want.scores[i]) + 1e-12f) << i;
  }
}

// Scores far apart: no overflow, no division by zero, all mass somewhere.
TEST_P(WindowScoresTest, LargeScoresStayFinite) {
  RandomPool pages(random_, 40, 1, 64);
  for (bf16& v : pages.values) v = bf16::Round(v.ToFloat() * 100);
  Call call{{2, 1, 64}, 0, {}, {{{pages.Table(600), 600}, 3}}};
  call.q = RandomBf16(random_, 3 * 128, 100.0f);
  RandomPool want = pages;
  Score(*ops_, 2, pages, call);
  Score(*reference_, 2, want, call);
  for (size_t i = 0; i < pages.scores.size(); ++i) {
    ASSERT_NEAR(pages.scores[i], want.scores[i], 0.02) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, WindowScoresTest, testing::ValuesIn(AllFamilies()), FamilyName);

}  // namespace
}  // namespace folio::kernels::cpu
