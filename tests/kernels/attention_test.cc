// Attention of every fast family: parity with the plain family, and batch invariance.
#include <gtest/gtest.h>

#include "tests/kernels/kernel_data.h"

namespace folio::kernels::cpu {
namespace {

constexpr uint32_t kSeed = 11;

struct Sequence {
  std::vector<uint32_t> table;
  uint32_t context;
  uint32_t rows;
  bool prompt;
  uint32_t window = 0;  // the latest slots that a row attends to, itself among them (0: all)
};

class AttentionTest : public testing::TestWithParam<std::string> {
 protected:
  AttentionTest() : fast_(MakeFastOps(GetParam()).value()), plain_(MakePlainOps()) {}

  // Decode sequences first.
  static ActivationBuffer Attend(CpuOps& ops, int threads, const std::vector<Sequence>& sequences,
                                 const AttentionShape& shape, const std::vector<bf16>& q,
                                 RandomPool& pages) {
    RowSplit split;
    std::vector<AttentionItem> runs;
    for (const Sequence& s : sequences) {
      runs.push_back({split.total(), s.rows, s.table.data(), s.context, s.window});
      (s.prompt ? split.prompt_rows : split.decode_rows) += s.rows;
    }
    const uint32_t cols = shape.heads * shape.head_dim;
    ActivationBuffer in(ops, split.total(), cols, q.data());
    ActivationBuffer out(ops, split.total(), cols);
    ThreadPool pool(threads);
    ops.Attention(pool, split, in.view(), runs, shape, pages.view(), out.view());
    return out;
  }

  void ExpectSameBits(uint32_t window);

  std::unique_ptr<CpuOps> fast_, plain_;
  Random random_{kSeed};
};

struct Grid {
  uint32_t kv_heads, group, head_dim, page_tokens;
};
const Grid kGrid[] = {{3, 3, 64, 16}, {1, 1, 64, 16}, {2, 4, 128, 16}, {1, 8, 64, 16},
                      {2, 2, 32, 16}, {1, 7, 80, 16}, {1, 5, 16, 8},   {2, 6, 128, 32},
                      {1, 3, 96, 16}, {2, 2, 256, 16}};

TEST_P(AttentionTest, EqualsPlain) {
  for (const Grid& g : kGrid) {
    SCOPED_TRACE(testing::Message() << g.kv_heads << " kv heads, group " << g.group << ", dim "
                                    << g.head_dim << ", page " << g.page_tokens);
    RandomPool pages(random_, 400, g.kv_heads, g.head_dim, g.page_tokens);
    const AttentionShape shape{g.kv_heads * g.group, g.kv_heads, g.head_dim};
    std::vector<Sequence> sequences;
    for (uint32_t context : {1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 511u, 513u, 700u}) {
      sequences.push_back({pages.Table(context), context, 1, false});
    }
    sequences.push_back({pages.Table(1), 1, 1, true});
    sequences.push_back({pages.Table(70), 70, 70, true});
    sequences.push_back({pages.Table(129), 129, 13, true});
    sequences.push_back({pages.Table(200), 200, 65, true});
    sequences.push_back({pages.Table(66), 66, 1, true});
    // The same with windows that begin in a page, in a tile, in a part of a decode row, or before
    // the first slot.
    const uint32_t windows[] = {1, 5, 16, 40, 100, 257, 600};
    const std::vector<Sequence> whole = sequences;
    for (size_t i = 0; i < whole.size(); ++i) {
      Sequence windowed = whole[i];
      windowed.window = windows[i % std::size(windows)];
      sequences.insert(windowed.prompt ? sequences.end() : sequences.begin(), std::move(windowed));
    }
    uint32_t rows = 0;
    for (const Sequence& s : sequences) rows += s.rows;
    // Scores spread over some +-10: the softmax is neither flat nor a choice of one.
    const float scale = 10.0f / std::sqrt(static_cast<float>(g.head_dim));
    const auto q = RandomBf16(random_, size_t{rows} * shape.heads * g.head_dim, scale);
    const ActivationBuffer got = Attend(*fast_, 2, sequences, shape, q, pages);
    const ActivationBuffer want = Attend(*plain_, 2, sequences, shape, q, pages);
    for (size_t i = 0; i < q.size(); ++i) {
      // Probabilities and the result are rounded to bf16; values are of size 1.
      ASSERT_NEAR(got.at(i), want.at(i), 0.02f) << "element " << i;
    }
  }
}

// A prompt in one piece by one thread, then cut into chunks of all sizes, in a batch, with 1 to 3
// threads: the same bits. Likewise for decode rows alone and in batches.
void AttentionTest::ExpectSameBits(uint32_t window) {
  const AttentionShape shape{6, 2, 64};
  const uint32_t cols = shape.heads * shape.head_dim;
  RandomPool pages(random_, 300, shape.kv_heads, shape.head_dim);
  const uint32_t length = 333;
  const std::vector<uint32_t> table = pages.Table(length);
  const auto q = RandomBf16(random_, size_t{length} * cols);
  const ActivationBuffer whole =
      Attend(*fast_, 1, {{table, length, length, true, window}}, shape, q, pages);
  std::vector<Sequence> decodes;
  for (uint32_t context : {40u, 512u, 600u, 1500u}) {
    decodes.push_back({pages.Table(context), context, 1, false, window});
  }
  const auto decode_q = RandomBf16(random_, decodes.size() * cols);
  std::vector<std::vector<uint8_t>> alone;
  for (size_t i = 0; i < decodes.size(); ++i) {
    const std::vector<bf16> mine(decode_q.begin() + i * cols, decode_q.begin() + (i + 1) * cols);
    alone.push_back(Attend(*fast_, 1, {decodes[i]}, shape, mine, pages).row_bytes(0));
  }
  for (uint32_t chunk : {1u, 7u, 16u, 63u, 64u, 65u, 100u, 256u}) {
    for (uint32_t first = 0; first < length; first += chunk) {
      const uint32_t rows = std::min(chunk, length - first);
      const int threads = 1 + static_cast<int>(random_() % 3);
      SCOPED_TRACE(testing::Message() << rows << " rows from " << first << ", " << threads);
      std::vector<Sequence> batch;
      std::vector<bf16> batch_q;
      if (first / chunk % 8 == 0) {
        batch = decodes;
        batch_q = decode_q;
      }
      const size_t others = batch.size();
      batch.push_back({table, first + rows, rows, true, window});
      batch_q.insert(batch_q.end(), q.begin() + first * cols, q.begin() + (first + rows) * cols);
      const ActivationBuffer out = Attend(*fast_, threads, batch, shape, batch_q, pages);
      for (uint32_t r = 0; r < others; ++r) ASSERT_EQ(out.row_bytes(r), alone[r]) << r;
      for (uint32_t r = 0; r < rows; ++r) {
        ASSERT_EQ(out.row_bytes(others + r), whole.row_bytes(first + r)) << r;
      }
    }
  }
}

TEST_P(AttentionTest, RowsDoNotDependOnChunksOrBatch) { ExpectSameBits(0); }

TEST_P(AttentionTest, RowsWithWindowsDoNotDependOnChunksOrBatch) {
  for (const uint32_t window : {1, 30, 64, 130}) ExpectSameBits(window);
}

// Groups of rows of all sizes, which end anywhere in a tile.
TEST_P(AttentionTest, RowsDoNotDependOnTheSizeOfTheirGroup) {
  constexpr uint32_t kLength = 150;
  for (const uint32_t head_dim : {64, 80, 96, 128, 256}) {
    const AttentionShape shape{2, 1, head_dim};
    const uint32_t cols = shape.heads * head_dim;
    RandomPool pages(random_, 10, shape.kv_heads, head_dim);
    const std::vector<uint32_t> table = pages.Table(kLength);
    const auto q = RandomBf16(random_, size_t{kLength} * cols);
    for (const uint32_t window : {0, 45}) {
      const ActivationBuffer whole =
          Attend(*fast_, 1, {{table, kLength, kLength, true, window}}, shape, q, pages);
      for (uint32_t rows = 1; rows <= 40; ++rows) {
        const uint32_t first = rows * 37 % (kLength - rows);
        SCOPED_TRACE(testing::Message() << rows << " rows from " << first << ", dim " << head_dim
                                        << ", window " << window);
        const std::vector<bf16> mine(q.begin() + first * cols, q.begin() + (first + rows) * cols);
        const ActivationBuffer out =
            Attend(*fast_, 1, {{table, first + rows, rows, true, window}}, shape, mine, pages);
        for (uint32_t r = 0; r < rows; ++r) {
          ASSERT_EQ(out.row_bytes(r), whole.row_bytes(first + r)) << r;
        }
      }
    }
  }
}

// What lies in the pages behind a row's context does not reach it, be it infinite or no number.
TEST_P(AttentionTest, SlotsBehindTheContextDoNotMatter) {
  for (const uint32_t head_dim : {64, 128}) {
    for (const uint16_t value : {0x7f80, 0x7fc0}) {
      const AttentionShape shape{4, 2, head_dim};
      const uint32_t cols = shape.heads * shape.head_dim;
      RandomPool pages(random_, 20, shape.kv_heads, shape.head_dim);
      const std::vector<uint32_t> table = pages.Table(64);
      const auto q = RandomBf16(random_, 20 * cols);
      const std::vector<Sequence> batch{{table, 21, 1, false}, {table, 37, 19, true}};
      const ActivationBuffer before = Attend(*fast_, 2, batch, shape, q, pages);
      for (uint32_t slot = 37; slot < 64; ++slot) {
        for (uint32_t head = 0; head < shape.kv_heads; ++head) {
          const size_t at = (head * 16 + slot % 16) * shape.head_dim;
          std::fill_n(pages.view().keys(table[slot / 16]) + at, shape.head_dim, bf16{0x7fc0});
          std::fill_n(pages.view().values(table[slot / 16]) + at, shape.head_dim, bf16{value});
        }
      }
      const ActivationBuffer after = Attend(*fast_, 2, batch, shape, q, pages);
      for (uint32_t r = 0; r < 20; ++r) EXPECT_EQ(before.row_bytes(r), after.row_bytes(r));
    }
  }
}

// Scores far apart or far from zero: no overflow, no division by zero.
TEST_P(AttentionTest, LargeScoresStayFinite) {
  const AttentionShape shape{2, 1, 64};
  RandomPool pages(random_, 40, 1, 64);
  for (bf16& v : pages.values) v = bf16::Round(v.ToFloat() * 100);
  const std::vector<uint32_t> table = pages.Table(600);
  const auto q = RandomBf16(random_, 3 * 128, 100.0f);
  const std::vector<Sequence> batch{{table, 600, 1, false}, {table, 300, 2, true}};
  const ActivationBuffer got = Attend(*fast_, 2, batch, shape, q, pages);
  const ActivationBuffer want = Attend(*plain_, 2, batch, shape, q, pages);
  for (size_t i = 0; i < 3 * 128; ++i) ASSERT_NEAR(got.at(i), want.at(i), 3.0f) << i;
}

INSTANTIATE_TEST_SUITE_P(Families, AttentionTest, testing::ValuesIn(FastFamilies()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace folio::kernels::cpu
