// A rank's scores on a board that several ranks share: what every op writes on a board of its own,
// in the rank's columns, and nothing else.
#include <functional>
#include <numeric>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/scores/scores.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

constexpr uint32_t kHeads = 2, kGroup = 3, kDim = 64, kPages = 6, kTokens = 75;
constexpr uint32_t kAllHeads = 5, kFirst = 2;  // the rank has columns 2 and 3 of 5
constexpr float kUntouched = -7;

class GpuSharedBoardTest : public StoredTest {
 protected:
  // Runs `op` on a board of the rank's own and on one that is shared; some scores must be there
  // then. Numbers count up on both before.
  void Check(const std::function<absl::Status(const DevicePool&)>& op) {
    pages_.scores.resize(size_t{CacheGeometry::kScoreChannels} * kPages * 16 * kHeads);
    std::iota(pages_.scores.begin(), pages_.scores.end(), 1.0f);
    const size_t rows = pages_.scores.size() / kHeads;
    std::vector<float> shared(rows * kAllHeads, kUntouched);
    for (size_t row = 0; row < rows; ++row) {
      std::copy_n(&pages_.scores[row * kHeads], kHeads, &shared[row * kAllHeads + kFirst]);
    }
    const PoolOnDevice own(type(), pages_);
    const PoolOnDevice other(type(), pages_);
    const OnDevice<float> board(shared);
    DevicePool on_shared = other.pool();
    on_shared.view.scores = board.data();
    on_shared.view.all_kv_heads = kAllHeads;
    on_shared.view.first_board_head = kFirst;
    ASSERT_TRUE(op(own.pool()).ok());
    ASSERT_TRUE(op(on_shared).ok());

    const std::vector<float> want = own.Scores();
    const std::vector<float> got = board.Read();
    EXPECT_NE(want, pages_.scores);
    for (size_t row = 0; row < rows; ++row) {
      for (uint32_t column = 0; column < kAllHeads; ++column) {
        const bool mine = column >= kFirst && column < kFirst + kHeads;
        ASSERT_EQ(got[row * kAllHeads + column],
                  mine ? want[row * kHeads + column - kFirst] : kUntouched)
            << "row " << row << ", " << column;
      }
    }
    EXPECT_EQ(own.Numbers(), other.Numbers());
  }

  RandomPool pages_{random_, kPages, kHeads, kDim};
  const std::vector<uint32_t> slots_ = pages_.Table(kTokens);
  const OnDevice<uint32_t> table_{slots_};
  const OnDevice<float> angles_{std::vector<float>(kTokens * kDim / 2, 0.6f)};
  const RopeTable rope_ = {angles_.data(), angles_.data(), kTokens};
};

TEST_P(GpuSharedBoardTest, AppendedTokens) {
  constexpr uint32_t kCols = (kHeads * kGroup + 2 * kHeads) * kDim;
  constexpr uint32_t kQCols = kHeads * kGroup * kDim;
  const OnDevice<float> qkv(RandomFloats(random_, size_t{kTokens} * kCols));
  std::vector<AppendSlot> places;
  for (uint32_t i = 0; i < kTokens; ++i) {
    places.push_back({slots_[i / 16], i % 16, i, ScoreKind::kNormRatio});
  }
  const OnDevice<AppendSlot> slots(places);
  const OnDevice<uint16_t> q(Stored(size_t{kTokens} * kQCols));
  Check([&](const DevicePool& pool) {
    return RopeAppendScore(nullptr, {qkv.data(), DataType::kFloat32, kTokens, kCols, kCols},
                           {kHeads * kGroup, kHeads, kDim}, rope_, slots.array(), pool,
                           Dense(q.data(), type(), kTokens, kQCols));
  });
}

TEST_P(GpuSharedBoardTest, KeyDifferences) {
  const OnDevice<ResidentItem> runs({ResidentItem{table_.data(), kTokens}});
  Check([&](const DevicePool& pool) { return ScoreResident(nullptr, runs.array(), pool); });
}

TEST_P(GpuSharedBoardTest, UnrotatedDifferences) {
  std::vector<uint32_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), 0u);
  const OnDevice<uint32_t> at(positions);
  const OnDevice<UnrotatedItem> runs({UnrotatedItem{table_.data(), at.data(), kTokens, 0, 1}});
  Check([&](const DevicePool& pool) { return ScoreUnrotated(nullptr, runs.array(), rope_, pool); });
}

TEST_P(GpuSharedBoardTest, WindowAttentionInTheSecondPlane) {
  constexpr uint32_t kQueries = 9, kQCols = kHeads * kGroup * kDim;
  const AttentionShape shape = {kHeads * kGroup, kHeads, kDim};
  const WindowLimits limits = {kTokens, kQueries};
  const OnDevice<uint16_t> q(RoundAll(type(), RandomFloats(random_, size_t{kQueries} * kQCols)));
  const OnDevice<WindowItem> runs({WindowItem{{0, kQueries, table_.data(), kTokens}, 3, 1}});
  const OnDevice<std::byte> scratch(std::vector<std::byte>(WindowScratchBytes(1, limits, shape)));
  Check([&](const DevicePool& pool) {
    return ScoreWindow(nullptr, Dense(q.data(), type(), kQueries, kQCols), runs.array(), limits,
                       shape, pool, scratch.data());
  });
}

TEST_P(GpuSharedBoardTest, SurvivorsTakeTheirScoresAlong) {
  std::vector<uint32_t> keep;
  for (uint32_t slot = 1; slot < kTokens; slot += 2) keep.push_back(slot);
  const OnDevice<uint32_t> kept(keep);
  const OnDevice<CompactItem> runs(
      {CompactItem{table_.data(), kept.data(), static_cast<uint32_t>(keep.size())}});
  Check([&](const DevicePool& pool) { return Compact(nullptr, runs.array(), pool); });
}

INSTANTIATE_TEST_SUITE_P(Types, GpuSharedBoardTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
