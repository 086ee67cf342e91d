#include "services/client/kept_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace folio::client {
namespace {

using ::testing::ElementsAre;

folio::v1::EvictionEvent Compact(const std::vector<std::vector<uint32_t>>& kept) {
  folio::v1::EvictionEvent event;
  event.set_step(-1);
  for (const auto& layer : kept) {
    auto* to = event.add_layers();
    to->mutable_kept()->Add(layer.begin(), layer.end());
    to->set_dropped_block(-1);
  }
  return event;
}

folio::v1::EvictionEvent Drop(int32_t step, const std::vector<int32_t>& blocks) {
  folio::v1::EvictionEvent event;
  event.set_step(step);
  for (const int32_t block : blocks) event.add_layers()->set_dropped_block(block);
  return event;
}

TEST(KeptPositions, WithoutEventsEverythingStays) {
  KeptPositions kept(2, 4, 10);
  kept.Extend(13);
  EXPECT_THAT(kept.layers(), ElementsAre(Ranges{{0, 13}}, Ranges{{0, 13}}));
}

TEST(KeptPositions, ReplaysCompactionAndDrops) {
  // Pages of 4; a prompt of 12 compacted to 8.
  KeptPositions kept(2, 4, 12);
  ASSERT_TRUE(kept.Apply(Compact({{0, 1, 2, 3, 5, 6, 10, 11}, {0, 1, 2, 3, 8, 9, 10, 11}})).ok());
  EXPECT_THAT(kept.layers(),
              ElementsAre(Ranges{{0, 4}, {5, 7}, {10, 12}}, Ranges{{0, 4}, {8, 12}}));
  // Four tokens fill a page: block 1 goes in layer 0, block 2 (just filled) in layer 1.
  ASSERT_TRUE(kept.Apply(Drop(3, {1, 2})).ok());
  EXPECT_THAT(kept.layers(), ElementsAre(Ranges{{0, 4}, {12, 16}}, Ranges{{0, 4}, {8, 12}}));
  kept.Extend(18);
  EXPECT_THAT(kept.layers(),
              ElementsAre(Ranges{{0, 4}, {12, 18}}, Ranges{{0, 4}, {8, 12}, {16, 18}}));
}

TEST(KeptPositions, RefusesEventsThatDoNotFit) {
  KeptPositions kept(2, 4, 12);
  EXPECT_FALSE(kept.Apply(Drop(0, {1})).ok());
  EXPECT_FALSE(kept.Apply(Drop(0, {1, 3})).ok());
  EXPECT_FALSE(kept.Apply(Drop(0, {-2, 1})).ok());
}

TEST(KeptPositions, WhatStreamedCompactionHasNotSeenStays) {
  KeptPositions kept(1, 4, 16);
  auto event = Compact({{0, 1, 6, 7}});
  event.set_prompt_tokens(8);
  ASSERT_TRUE(kept.Apply(event).ok());
  EXPECT_THAT(kept.layers(), ElementsAre(Ranges{{0, 2}, {6, 16}}));
}

TEST(KeptPositions, ADropMayTakePartsOfSeveralRanges) {
  KeptPositions kept(1, 4, 12);
  ASSERT_TRUE(kept.Apply(Compact({{0, 1, 3, 5, 6, 8, 10, 11}})).ok());
  ASSERT_TRUE(kept.Apply(Drop(0, {0})).ok());
  EXPECT_THAT(kept.layers(), ElementsAre(Ranges{{6, 7}, {8, 9}, {10, 13}}));
}

TEST(Ranges, CountTheirPositions) {
  const Ranges ranges = {{0, 10}, {13, 14}, {23, 28}, {31, 40}};
  EXPECT_EQ(CountPositions(ranges), 25U);
  EXPECT_EQ(CountBetween(ranges, 5, 24), 7U);
  EXPECT_EQ(CountBetween(ranges, 40, 50), 0U);
}

}  // namespace
}  // namespace folio::client
