// A rank's scores on a board that several ranks share: every op writes the same numbers as on a
// board of its own, in the rank's columns, and nothing else.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "tests/kernels/score_data.h"

namespace folio::kernels::cpu {
namespace {

constexpr uint32_t kHeads = 2, kGroup = 3, kDim = 64, kPages = 6, kTokens = 75;
constexpr uint32_t kAllHeads = 5, kFirst = 2;  // the rank has columns 2 and 3 of 5

// The rank's pages, its own board and the shared one.
struct Board {
  explicit Board(Random& random) : pages(random, kPages, kHeads, kDim) {
    tokens = {pages.Table(kTokens), kTokens};
    shared.assign(size_t{CacheGeometry::kScoreChannels} * kPages * 16 * kAllHeads, kUntouched);
  }
  PoolView SharedView() {
    PoolView view = pages.view();
    view.scores = shared.data();
    view.all_kv_heads = kAllHeads;
    view.first_board_head = kFirst;
    return view;
  }
  // Every float of both boards is compared.
  void ExpectSame() {
    const size_t rows = pages.scores.size() / kHeads;
    for (size_t row = 0; row < rows; ++row) {
      for (uint32_t column = 0; column < kAllHeads; ++column) {
        const bool own = column >= kFirst && column < kFirst + kHeads;
        const float want = own ? pages.scores[row * kHeads + column - kFirst] : kUntouched;
        ASSERT_EQ(shared[row * kAllHeads + column], want) << "row " << row << ", " << column;
      }
    }
  }

  RandomPool pages;
  Tokens tokens;
  std::vector<float> shared;
};

class SharedBoardTest : public ScoresTest {
 protected:
  // Runs `op` on both boards; some scores must be there then.
  void Check(const std::function<void(const PoolView&)>& op) {
    op(board_.pages.view());
    op(board_.SharedView());
    board_.ExpectSame();
    size_t written = 0;
    for (const float score : board_.pages.scores) written += score != kUntouched;
    EXPECT_GE(written, size_t{kTokens} * kHeads);
  }

  Board board_{random_};
  ThreadPool pool_{2};
};

TEST_P(SharedBoardTest, AppendedTokens) {
  const std::vector<float> angles(kTokens * kDim / 2, 0.6f);
  const RopeTable rope = {angles.data(), angles.data(), kTokens};
  const uint32_t columns = (kHeads * kGroup + 2 * kHeads) * kDim;
  std::vector<float> qkv = RandomFloats(random_, size_t{kTokens} * columns);
  std::vector<AppendSlot> slots;
  for (uint32_t i = 0; i < kTokens; ++i) {
    slots.push_back({board_.tokens.table[i / 16], i % 16, i, ScoreKind::kNormRatio});
  }
  ActivationBuffer q(*ops_, kTokens, kHeads * kGroup * kDim);
  Check([&](const PoolView& pages) {
    ops_->RopeAppendScore(pool_, AsMatrix<const float>(qkv, kTokens, columns),
                          {kHeads * kGroup, kHeads, kDim}, rope, slots, pages, q.view());
  });
}

TEST_P(SharedBoardTest, KeyDifferences) {
  const ResidentItem run = {board_.tokens.table.data(), kTokens};
  Check([&](const PoolView& pages) { ops_->ScoreResident(pool_, {&run, 1}, pages); });
}

TEST_P(SharedBoardTest, UnrotatedDifferences) {
  std::vector<uint32_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), 0u);
  const std::vector<float> angles(kTokens * kDim / 2, 0.6f);
  const RopeTable rope = {angles.data(), angles.data(), kTokens};
  const UnrotatedItem run = {board_.tokens.table.data(), positions.data(), kTokens, 0, 1};
  Check([&](const PoolView& pages) { ops_->ScoreUnrotated(pool_, {&run, 1}, rope, pages); });
}

TEST_P(SharedBoardTest, WindowAttentionInTheSecondPlane) {
  const std::vector<bf16> values = RandomBf16(random_, size_t{9} * kHeads * kGroup * kDim);
  ActivationBuffer q(*ops_, 9, kHeads * kGroup * kDim, values.data());
  const WindowItem run = {{0, 9, board_.tokens.table.data(), kTokens}, 3, 1};
  Check([&](const PoolView& pages) {
    ops_->ScoreWindow(pool_, q.view(), {&run, 1}, {kHeads * kGroup, kHeads, kDim}, pages);
  });
}

INSTANTIATE_TEST_SUITE_P(Families, SharedBoardTest, testing::ValuesIn(AllFamilies()), FamilyName);

// Each rank moves its own columns; one that writes none moves none.
TEST(SharedBoard, SurvivorsTakeTheirScoresAlong) {
  Random random(7);
  Board board(random);
  std::vector<uint32_t> keep;
  for (uint32_t slot = 1; slot < kTokens; slot += 2) keep.push_back(slot);
  std::iota(board.pages.scores.begin(), board.pages.scores.end(), 1.0f);
  for (size_t row = 0; row < board.pages.scores.size() / kHeads; ++row) {
    std::copy_n(&board.pages.scores[row * kHeads], kHeads, &board.shared[row * kAllHeads + kFirst]);
  }
  const std::vector<float> before = board.shared;
  PoolView silent = board.SharedView();
  silent.scores = nullptr;
  CompactLayer(silent, board.tokens.table, keep);
  EXPECT_EQ(board.shared, before);
  CompactLayer(board.SharedView(), board.tokens.table, keep);
  CompactLayer(board.pages.view(), board.tokens.table, keep);
  board.ExpectSame();
  EXPECT_NE(board.shared, before);
}

}  // namespace
}  // namespace folio::kernels::cpu
