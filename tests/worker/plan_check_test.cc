// Plans of the manager against the block tables that they would change.
#include "services/worker/engine/plan_check.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace folio::worker {
namespace {

constexpr uint32_t kPageTokens = 4;
constexpr CacheGeometry kGeometry = {
    .num_layers = 2, .num_kv_heads = 1, .head_dim = 8, .page_tokens = kPageTokens};

// Four pages and ten resident tokens in each of the two layers.
model::BlockTables TenTokens() {
  model::BlockTables table(kGeometry, /*num_pages=*/16, ScoreKind::kNone);
  LayerPageLists pages(kGeometry.num_layers);
  for (uint32_t page = 0; page < 8; ++page)
    pages[page / 4].push_back({PageId(page), Generation(1)});
  table.Extend(pages);
  table.Advance(Position(0), 10);
  return table;
}

Plan Compaction(std::vector<std::vector<uint32_t>> keep, std::vector<uint32_t> spare) {
  CompactAction action;
  for (const std::vector<uint32_t>& layer : keep) {
    auto& slots = action.keep.emplace_back();
    for (const uint32_t slot : layer) slots.emplace_back(slot);
  }
  for (const uint32_t pages : spare) action.spare.emplace_back(pages);
  return {SequenceId(1), PlanEpoch(1), std::move(action)};
}

Plan Drop(std::vector<std::optional<BlockIndex>> block) {
  return {SequenceId(1), PlanEpoch(1), DropAction{std::move(block)}};
}

bool Valid(const Plan& plan, Phase phase) {
  const absl::Status status = ValidatePlan(plan, phase, TenTokens());
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  }
  return status.ok();
}

TEST(ValidatePlan, ACompactionKeepsAscendingResidentTokens) {
  EXPECT_TRUE(Valid(Compaction({{0, 3, 9}, {1, 2, 3}}, {1, 3}), Phase::kAwaitPlan));
  EXPECT_FALSE(Valid(Compaction({{0, 3, 10}, {1, 2, 3}}, {1, 1}), Phase::kAwaitPlan));
  EXPECT_FALSE(Valid(Compaction({{0, 3, 3}, {1, 2, 3}}, {1, 1}), Phase::kAwaitPlan));
  EXPECT_FALSE(Valid(Compaction({{3, 0, 9}, {1, 2, 3}}, {1, 1}), Phase::kAwaitPlan));
  EXPECT_FALSE(Valid(Compaction({{}, {1, 2, 3}}, {1, 1}), Phase::kAwaitPlan));
}

TEST(ValidatePlan, ACompactionHasEveryLayerAndNoMorePagesThanThereAre) {
  EXPECT_FALSE(Valid(Compaction({{0, 1}}, {1}), Phase::kAwaitPlan));
  EXPECT_FALSE(Valid(Compaction({}, {}), Phase::kAwaitPlan));
  EXPECT_FALSE(Valid(Compaction({{0, 1}, {0, 1}}, {1}), Phase::kAwaitPlan));
  EXPECT_FALSE(Valid(Compaction({{0, 1}, {0, 1}}, {1, 4}), Phase::kAwaitPlan));
  EXPECT_FALSE(Valid(Compaction({{0, 1}, {0, 1}}, {1, 4294967295}), Phase::kAwaitPlan));
}

TEST(ValidatePlan, ADropNamesFullBlocks) {
  EXPECT_TRUE(Valid(Drop({BlockIndex(0), BlockIndex(1)}), Phase::kDecode));
  EXPECT_TRUE(Valid(Drop({std::nullopt, BlockIndex(1)}), Phase::kAwaitReply));
  EXPECT_FALSE(Valid(Drop({BlockIndex(0), BlockIndex(2)}), Phase::kDecode));  // half full
  EXPECT_FALSE(Valid(Drop({BlockIndex(0)}), Phase::kDecode));
  EXPECT_FALSE(Valid(Drop({std::nullopt, std::nullopt}), Phase::kDecode));
  EXPECT_FALSE(Valid(Drop({}), Phase::kDecode));
}

TEST(ValidatePlan, EachActionHasItsPhase) {
  for (const Phase phase : {Phase::kOpening, Phase::kPrefill, Phase::kDecode}) {
    EXPECT_FALSE(Valid(Compaction({{0, 3, 9}, {1, 2, 3}}, {1, 3}), phase));
  }
  for (const Phase phase : {Phase::kOpening, Phase::kPrefill, Phase::kAwaitPlan}) {
    EXPECT_FALSE(Valid(Drop({BlockIndex(0), BlockIndex(1)}), phase));
  }
}

TEST(PagesFit, NeedsEveryLayerAndPagesOfThePool) {
  const PageList inside = {{PageId(15), Generation(1)}};
  const PageList outside = {{PageId(16), Generation(1)}};
  EXPECT_TRUE(PagesFit(LayerPageLists{inside, {}}, 2, 16));
  EXPECT_FALSE(PagesFit(LayerPageLists{inside, outside}, 2, 16));
  EXPECT_FALSE(PagesFit(LayerPageLists{inside}, 2, 16));
  EXPECT_FALSE(PagesFit(LayerPageLists{}, 2, 16));
}

}  // namespace
}  // namespace folio::worker
