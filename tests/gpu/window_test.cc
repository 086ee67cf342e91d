// Window attention against the plain family.
#include "kernels/cuda/scores/scores.h"
#include "tests/gpu/device_runs.h"

namespace folio::kernels::cuda {
namespace {

struct Call {
  AttentionShape shape;
  uint32_t skipped;      // batch rows before the first window's
  std::vector<float> q;  // numbers that either type holds
  std::vector<PromptWindow> windows;

  std::vector<WindowItem> Runs(const std::function<const uint32_t*(const Tokens&)>& table) const {
    std::vector<WindowItem> runs;
    uint32_t row = skipped;
    for (const PromptWindow& w : windows) {
      runs.push_back({{row, w.rows, table(w.tokens), w.tokens.count}, w.neighbours, w.channel});
      row += w.rows;
    }
    return runs;
  }
  WindowLimits Limits() const {
    WindowLimits limits;
    for (const PromptWindow& w : windows) {
      limits.context = std::max(limits.context, w.tokens.count);
      limits.queries = std::max(limits.queries, w.rows);
    }
    return limits;
  }
  uint32_t cols() const { return shape.heads * shape.head_dim; }
};

class GpuWindowTest : public StoredTest {
 protected:
  // Queries whose scores spread over some +-10.
  void MakeQueries(Call& call, float scale = 10) {
    uint32_t rows = call.skipped + 1;
    for (const PromptWindow& w : call.windows) rows += w.rows;
    scale /= std::sqrt(static_cast<float>(call.shape.head_dim));
    call.q = RandomFloats(random_, size_t{rows} * call.cols(), scale);
    for (float& x : call.q) x = std::nearbyint(bf16::Round(x).ToFloat() * 64) / 64;
  }

  std::vector<float> Score(const RandomPool& pool, const Call& call, WindowLimits limits) {
    PoolOnDevice device(type(), pool);
    DeviceTables tables;
    const OnDevice<uint16_t> q(RoundAll(type(), call.q));
    const OnDevice<WindowItem> runs(
        call.Runs([&](const Tokens& tokens) { return tables.Put(tokens.table); }));
    const size_t bytes = WindowScratchBytes(runs.array().size, limits, call.shape);
    const OnDevice<std::byte> scratch((std::vector<std::byte>(bytes, std::byte{0xee})));
    const uint32_t rows = call.q.size() / call.cols();
    const absl::Status status =
        ScoreWindow(nullptr, Dense(q.data(), type(), rows, call.cols()), runs.array(), limits,
                    call.shape, device.pool(), scratch.data());
    EXPECT_TRUE(status.ok()) << status;
    return device.Scores();
  }
  std::vector<float> Score(const RandomPool& pool, const Call& call) {
    return Score(pool, call, call.Limits());
  }

  std::vector<float> Plain(RandomPool pool, Call call) {
    std::vector<WindowItem> runs =
        call.Runs([](const Tokens& tokens) { return tokens.table.data(); });
    std::erase_if(runs, [](const WindowItem& run) { return run.queries.rows == 0; });  // padding
    const uint32_t rows = call.q.size() / call.cols();
    plain_->ScoreWindow(threads_, {call.q.data(), rows, call.cols()}, runs, call.shape,
                        pool.view());
    return pool.scores;
  }

  std::unique_ptr<cpu::CpuOps> plain_ = cpu::MakePlainOps();
  ThreadPool threads_{1};
};

TEST_P(GpuWindowTest, EqualsPlain) {
  for (const ScoreShape& s : kScoreShapes) {
    SCOPED_TRACE(testing::Message() << s.kv_heads << " kv heads, group " << s.group << ", dim "
                                    << s.head_dim << ", page " << s.page_tokens);
    RandomPool pool(random_, 130, s.kv_heads, s.head_dim, s.page_tokens);
    pool.values = RoundNumbers(pool.values);
    Call call{{s.kv_heads * s.group, s.kv_heads, s.head_dim}, 3, {}, {}};
    for (const auto& [count, rows] : std::vector<std::pair<uint32_t, uint32_t>>{
             {1, 1}, {4, 4}, {17, 1}, {64, 33}, {65, 8}, {130, 17}, {600, 5}, {0, 0}}) {
      const auto at = static_cast<uint32_t>(call.windows.size());
      call.windows.push_back({{pool.Table(count), count}, rows, at % 3 == 0 ? 3 : 4 * at, at % 2});
    }
    // A zero key is attended as any other.
    std::fill_n(KeyAt(pool, call.windows[5].tokens, 0, 16), s.head_dim, bf16{});
    MakeQueries(call);
    ExpectNear(Score(pool, call), Plain(pool, call), 1e-4f, 1e-9f);
  }
}

TEST_P(GpuWindowTest, LargeScoresStayFinite) {
  RandomPool pool(random_, 40, 1, 64);
  for (bf16& v : pool.values) v = bf16::Round(v.ToFloat() * 100);
  pool.values = RoundNumbers(pool.values);
  Call call{{2, 1, 64}, 0, {}, {{{pool.Table(600), 600}, 3}}};
  MakeQueries(call, 800);
  ExpectNear(Score(pool, call), Plain(pool, call), 0, 0.02f);
}

// Alone and in a batch, within wider limits, with anything behind the tokens: the same bits.
TEST_P(GpuWindowTest, IsBatchInvariant) {
  RandomPool pool(random_, 100, 2, 64);
  pool.values = RoundNumbers(pool.values);
  Call call{{6, 2, 64}, 5, {}, {}};
  for (const auto& [count, rows] :
       std::vector<std::pair<uint32_t, uint32_t>>{{530, 20}, {5, 5}, {133, 12}}) {
    call.windows.push_back({{pool.Table(count), count}, rows, count % 16, count % 2});
  }
  MakeQueries(call);
  RandomPool alone = pool;
  uint32_t row = call.skipped;
  for (const PromptWindow& w : call.windows) {
    alone.scores = Score(alone, {call.shape, row, call.q, {w}});
    row += w.rows;
  }
  for (const PromptWindow& w : call.windows) cpu::SpoilRest(pool, w.tokens);
  EXPECT_EQ(Score(pool, call, {2000, 50}), alone.scores);
}

TEST_P(GpuWindowTest, WhatExceedsTheLimitsIsLeftOut) {
  RandomPool pool(random_, 20, 1, 64);
  pool.values = RoundNumbers(pool.values);
  Call call{{2, 1, 64}, 0, {}, {{{pool.Table(100), 100}, 2}, {{pool.Table(40), 40}, 2}}};
  MakeQueries(call);
  const std::vector<float> want = Plain(pool, {call.shape, 2, call.q, {call.windows[1]}});
  ExpectNear(Score(pool, call, {60, 2}), want, 1e-4f, 1e-9f);
}

// A batch that is replayed has windows without rows, over tables of any length.
TEST_P(GpuWindowTest, AWindowWithoutRowsScoresNothing) {
  RandomPool pool(random_, 60, 1, 64);
  pool.values = RoundNumbers(pool.values);
  Call call{{2, 1, 64}, 0, {}, {{{pool.Table(700), 700}, 0}, {{pool.Table(40), 40}, 2}}};
  MakeQueries(call);
  ExpectNear(Score(pool, call), Plain(pool, call), 1e-4f, 1e-9f);
}

TEST_P(GpuWindowTest, NotServedOrNobodyToReadIt) {
  RandomPool pool(random_, 4, 2, 64);
  PoolOnDevice device(type(), pool);
  DevicePool unread = device.pool();
  unread.view.scores = nullptr;
  const Tensor q = Dense(nullptr, type(), 1, 4 * 64);
  EXPECT_TRUE(ScoreWindow(nullptr, q, {nullptr, 1}, {16, 1}, {4, 2, 64}, unread, nullptr).ok());
  EXPECT_TRUE(ScoreWindow(nullptr, q, {}, {16, 1}, {4, 2, 64}, device.pool(), nullptr).ok());
  EXPECT_EQ(
      ScoreWindow(nullptr, q, {nullptr, 1}, {16, 1}, {3, 2, 64}, device.pool(), nullptr).code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device.Scores(), pool.scores);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuWindowTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
