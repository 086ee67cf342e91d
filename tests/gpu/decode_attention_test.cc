// Attention of rows that decode, against sums in double precision.
#include "kernels/cuda/ops/decode_attention.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/cuda/ops/ops.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

struct DecodeShape {
  uint32_t group, kv_heads, head_dim, page_tokens;
};
constexpr DecodeShape kShapes[] = {{1, 1, 64, 16},  {3, 3, 64, 16},  {4, 2, 64, 32},
                                   {8, 1, 128, 16}, {7, 2, 128, 48}, {4, 1, 256, 16},
                                   {2, 2, 256, 32}};
// Parts of a piece of 16 tokens, whole ones, and several for each warp of a block.
constexpr uint32_t kContexts[] = {1, 15, 16, 17, 100, 333};
// None, the row's own token, and some that end within a piece, at its edge and in another page.
constexpr uint32_t kWindows[] = {0, 1, 9, 16, 77};

// Rows over pages of a pool in any order, with NaN in all places that no context covers.
class DecodeAttentionTest : public ::testing::Test {
 protected:
  void Make(const DecodeShape& of, const std::vector<uint32_t>& contexts) {
    of_ = of;
    contexts_ = contexts;
    heads_ = of.group * of.kv_heads;
    starts_ = {3};  // the first row's table need not be the first
    for (const uint32_t context : contexts) {
      starts_.push_back(starts_.back() +
                        static_cast<int32_t>((context + of.page_tokens - 1) / of.page_tokens));
      last_.push_back(static_cast<int32_t>((context - 1) % of.page_tokens + 1));
    }
    const auto count = static_cast<uint32_t>(starts_.back());
    table_.resize(count);
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(5));
    numbers_.assign(size_t{count} * 2 * of.kv_heads * of.page_tokens * of.head_dim, 0x7fff);
    for (size_t row = 0; row < contexts.size(); ++row) {
      for (uint32_t token = 0; token < contexts[row]; ++token) {
        for (uint32_t head = 0; head < 2 * of.kv_heads; ++head) {
          const Stored some = RoundAll(DataType::kBf16, RandomFloats(random_, of.head_dim));
          std::copy(some.begin(), some.end(), numbers_.begin() + At(row, head, token));
        }
      }
    }
    queries_ = RoundAll(DataType::kBf16,
                        RandomFloats(random_, contexts.size() * heads_ * of.head_dim, 2.0f));
  }

  // Of keys, or of values for heads from kv_heads on.
  ptrdiff_t At(size_t row, uint32_t head, uint32_t token) const {
    const auto page =
        static_cast<size_t>(table_[static_cast<size_t>(starts_[row]) + token / of_.page_tokens]);
    return static_cast<ptrdiff_t>(
        ((page * 2 * of_.kv_heads + head) * of_.page_tokens + token % of_.page_tokens) *
        of_.head_dim);
  }
  double Number(ptrdiff_t at) const { return Value(DataType::kBf16, numbers_[at]); }

  std::vector<double> Want(size_t row, uint32_t head) const {
    const uint32_t kv_head = head / of_.group;
    const uint32_t context = contexts_[row];
    const uint32_t first = window_ != 0 && context > window_ ? context - window_ : 0;
    std::vector<double> weights(context);
    double most = -std::numeric_limits<double>::infinity();
    for (uint32_t token = first; token < context; ++token) {
      double score = 0;
      for (uint32_t i = 0; i < of_.head_dim; ++i) {
        score += Number(At(row, kv_head, token) + i) *
                 Value(DataType::kBf16, queries_[(row * heads_ + head) * of_.head_dim + i]);
      }
      weights[token] = score / std::sqrt(of_.head_dim);
      most = std::max(most, weights[token]);
    }
    double sum = 0;
    for (uint32_t t = first; t < context; ++t) sum += weights[t] = std::exp(weights[t] - most);
    std::vector<double> values(of_.head_dim);
    for (uint32_t token = first; token < context; ++token) {
      for (uint32_t i = 0; i < of_.head_dim; ++i) {
        values[i] += weights[token] / sum * Number(At(row, of_.kv_heads + kv_head, token) + i);
      }
    }
    return values;
  }

  AttentionShape shape() const { return {heads_, of_.kv_heads, of_.head_dim}; }

  DevicePool PoolOf(const OnDevice<uint16_t>& numbers, float* scores) const {
    DevicePool pool;
    pool.view.pages = reinterpret_cast<std::byte*>(numbers.data());
    pool.view.scores = scores;
    pool.view.num_pages = static_cast<uint32_t>(table_.size());
    pool.view.geometry.num_kv_heads = of_.kv_heads;
    pool.view.geometry.head_dim = of_.head_dim;
    pool.view.geometry.page_tokens = of_.page_tokens;
    return pool;
  }

  // What becomes of rows whose last tokens are not in their pages yet.
  struct Appended {
    Stored out, numbers;
    std::vector<float> scores;
  };
  // The second row is padding. With `at_once` one kernel does all.
  Appended Append(bool at_once, uint32_t processors) {
    constexpr ScoreKind kKinds[] = {ScoreKind::kNormRatio, ScoreKind::kInverseKeyNorm,
                                    ScoreKind::kNone};
    const auto rows = static_cast<uint32_t>(contexts_.size());
    const uint32_t cols = heads_ * of_.head_dim;
    const uint32_t qkv_cols = cols + 2 * of_.kv_heads * of_.head_dim;
    Random random(11);
    std::vector<AppendSlot> slots;
    Stored before = numbers_;
    for (uint32_t row = 0; row < rows; ++row) {
      const uint32_t last = contexts_[row] - 1;
      const int32_t page = table_[static_cast<size_t>(starts_[row]) + last / of_.page_tokens];
      slots.push_back({row == 1 ? kNoPage : static_cast<uint32_t>(page), last % of_.page_tokens,
                       last, kKinds[row % 3]});
      for (uint32_t head = 0; head < 2 * of_.kv_heads && row != 1; ++head) {
        std::fill_n(before.begin() + At(row, head, last), of_.head_dim, 0x7fff);
      }
    }
    constexpr uint32_t kPositions = 400;
    const OnDevice<uint16_t> numbers(before);
    const OnDevice<float> scores(
        std::vector<float>(table_.size() * of_.page_tokens * of_.kv_heads, -1.0f));
    const OnDevice<float> qkv(RandomFloats(random, size_t{rows} * qkv_cols));
    const OnDevice<float> cos(RandomFloats(random, size_t{kPositions} * of_.head_dim / 2));
    const OnDevice<float> sin(RandomFloats(random, size_t{kPositions} * of_.head_dim / 2));
    const OnDevice<AppendSlot> to(slots);
    const OnDevice<int32_t> table(table_), starts(starts_), last(last_);
    const OnDevice<std::byte> space(
        std::vector<std::byte>(DecodeAttentionBytes(shape(), processors)));
    const OnDevice<uint16_t> q(Stored(size_t{rows} * cols));
    const OnDevice<uint16_t> out(Stored(size_t{rows} * cols, 0x7fff));
    const DevicePool pool = PoolOf(numbers, scores.data());
    const DecodeRows in{Dense(qkv.data(), DataType::kFloat32, rows, qkv_cols),
                        {cos.data(), sin.data(), kPositions},
                        to.array()};
    const DecodeTables tables{table.data(), starts.data(), last.data(), window_};
    const DecodeAttentionSpace parts{space.data(), processors};
    const Tensor queries = Dense(q.data(), DataType::kBf16, rows, cols),
                 result = Dense(out.data(), DataType::kBf16, rows, cols);
    absl::Status status;
    if (at_once) {
      status = AppendDecodeAttention(nullptr, in, tables, shape(), pool, parts, result);
    } else {
      status = RopeAppendScore(nullptr, in.qkv, shape(), in.rope, in.slots, pool, queries);
      status.Update(DecodeAttention(nullptr, queries, tables, shape(), pool, parts, result));
    }
    EXPECT_TRUE(status.ok()) << status;
    return {out.Read(), numbers.Read(), scores.Read()};
  }

  // Runs twice with the same counters, which must be as they were.
  Stored Run(uint32_t processors) {
    const OnDevice<uint16_t> numbers(numbers_), queries(queries_);
    const OnDevice<int32_t> table(table_), starts(starts_), last(last_);
    const OnDevice<std::byte> space(
        std::vector<std::byte>(DecodeAttentionBytes(shape(), processors)));
    const DevicePool pool = PoolOf(numbers, nullptr);
    const uint32_t rows = contexts_.size(), cols = heads_ * of_.head_dim;
    const OnDevice<uint16_t> out(Stored(size_t{rows} * cols, 0x7fff));
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = DecodeAttention(
          nullptr, Dense(queries.data(), DataType::kBf16, rows, cols),
          {table.data(), starts.data(), last.data(), window_}, shape(), pool,
          {space.data(), processors}, Dense(out.data(), DataType::kBf16, rows, cols));
      EXPECT_TRUE(status.ok()) << status;
    }
    return out.Read();
  }

  void Expect(uint32_t processors, uint32_t window = 0) {
    window_ = window;
    const Stored got = Run(processors);
    for (size_t row = 0; row < contexts_.size(); ++row) {
      for (uint32_t head = 0; head < heads_; ++head) {
        const std::vector<double> want = Want(row, head);
        for (uint32_t i = 0; i < of_.head_dim; ++i) {
          // Weights and results are rounded to bf16, and values are at most 1.
          ASSERT_NEAR(Value(DataType::kBf16, got[(row * heads_ + head) * of_.head_dim + i]),
                      want[i], 0.008)
              << "row " << row << " of " << contexts_[row] << " tokens, head " << head << ", "
              << processors << " processors, a window of " << window_;
        }
      }
    }
  }

  Random random_{97};
  DecodeShape of_{};
  uint32_t heads_ = 0, window_ = 0;
  std::vector<uint32_t> contexts_;
  std::vector<int32_t> table_, starts_, last_;
  Stored numbers_, queries_;
};

class DecodeAttentionShapes : public DecodeAttentionTest,
                              public ::testing::WithParamInterface<DecodeShape> {};

// One block for each row and KV head, and contexts that many blocks share.
TEST_P(DecodeAttentionShapes, EqualsTheDefinition) {
  Make(GetParam(), {std::begin(kContexts), std::end(kContexts)});
  for (const uint32_t processors : {1, 20, 132}) {
    for (const uint32_t window : kWindows) Expect(processors, window);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecodeAttentionShapes, ::testing::ValuesIn(kShapes));

TEST_P(DecodeAttentionShapes, AppendsAtOnceWithTheSameBits) {
  Make(GetParam(), {std::begin(kContexts), std::end(kContexts)});
  for (const uint32_t processors : {1, 20, 132}) {
    window_ = processors == 20 ? 12 : 0;
    const Appended apart = Append(/*at_once=*/false, processors);
    const Appended at_once = Append(/*at_once=*/true, processors);
    EXPECT_EQ(at_once.out, apart.out) << processors << " processors";
    EXPECT_EQ(at_once.numbers, apart.numbers) << processors << " processors";
    EXPECT_EQ(at_once.scores, apart.scores) << processors << " processors";
    EXPECT_NE(at_once.numbers, numbers_);
    EXPECT_NE(*std::max_element(at_once.scores.begin(), at_once.scores.end()), -1.0f);
  }
}

// Pages that no later token attends to leave the front of a table, 64 tokens at a time.
TEST_F(DecodeAttentionTest, PagesBehindTheWindowMakeNoDifference) {
  window_ = 50;
  Make({4, 2, 64, 16}, {200, 190});
  const std::vector<int32_t> table = table_, starts = starts_;
  for (const uint32_t processors : {1, 20, 132}) {
    const Stored whole = Run(processors);
    std::copy_n(table.begin() + starts[1] + 8, 4, table_.begin() + starts[1]);
    starts_ = {starts[0] + 8, starts[1], starts[1] + 4};
    EXPECT_EQ(Run(processors), whole) << processors << " processors";
    table_ = table;
    starts_ = starts;
  }
}

// One row, whose few tokens most of the blocks have no part of.
TEST_F(DecodeAttentionTest, FewTokensForManyBlocks) {
  for (const uint32_t context : {1u, 40u}) {
    contexts_.clear();
    last_.clear();
    Make({4, 1, 64, 16}, {context});
    Expect(132);
  }
}

TEST_F(DecodeAttentionTest, ANumberThatIsNotFiniteShows) {
  Make({2, 1, 64, 16}, {20, 30});
  numbers_[static_cast<size_t>(At(1, 0, 3))] = 0x7fc0;  // a key
  for (const uint32_t processors : {1, 132}) {
    const Stored got = Run(processors);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(std::isfinite(Value(DataType::kBf16, got[i])), i < got.size() / 2) << i;
    }
  }
}

TEST_F(DecodeAttentionTest, WhatIsNotServedIsSaid) {
  DevicePool pool;
  pool.view.geometry.num_kv_heads = 2;
  pool.view.geometry.head_dim = 64;
  pool.view.geometry.page_tokens = 16;
  const auto refusal = [&](const AttentionShape& shape, uint32_t cols, uint32_t processors) {
    std::byte memory{};
    const absl::Status status =
        DecodeAttention(nullptr, Dense(nullptr, DataType::kBf16, 2, cols), {}, shape, pool,
                        {&memory, processors}, Dense(nullptr, DataType::kBf16, 2, cols));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_NE(refusal({18, 2, 64}, 1152, 1).find("up to 8 query heads"), std::string::npos);
  EXPECT_NE(refusal({4, 2, 32}, 128, 1).find("heads of 64, 128 or 256"), std::string::npos);
  EXPECT_NE(refusal({4, 2, 64}, 128, 1).find("another shape"), std::string::npos);
  EXPECT_NE(refusal({4, 2, 64}, 256, 0).find("memory for parts"), std::string::npos);
  std::byte memory{};
  const absl::Status half = AppendDecodeAttention(
      nullptr, {Dense(nullptr, DataType::kBf16, 2, 512), {}, {nullptr, 2}}, {}, {4, 2, 64}, pool,
      {&memory, 1}, Dense(nullptr, DataType::kBf16, 2, 256));
  EXPECT_NE(half.message().find("must be float32"), absl::string_view::npos) << half;
  pool.view.geometry.page_tokens = 8;
  EXPECT_NE(refusal({4, 2, 64}, 256, 1).find("multiple of 16 tokens"), std::string::npos);
  EXPECT_FALSE(ServesDecodeAttention({4, 2, 64}, pool));
  pool.view.geometry.page_tokens = 16;
  EXPECT_TRUE(ServesDecodeAttention({4, 2, 64}, pool));
  pool.type = DataType::kFp16;
  EXPECT_FALSE(ServesDecodeAttention({4, 2, 64}, pool));
}

}  // namespace
}  // namespace folio::kernels::cuda
