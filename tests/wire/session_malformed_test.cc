// A malformed item becomes an empty one, and the items beside it are read.
#include <gtest/gtest.h>

#include "services/wire/session.h"

namespace folio::wire {
namespace {

constexpr uint32_t kTwoLayers = 2;

void AddPage(v1::LayerPages* pages, uint32_t page) {
  pages->add_pages(page);
  pages->add_generations(1);
}

v1::SessionReply WithGrant() {
  v1::SessionReply reply;
  v1::PageGrant* grant = reply.add_granted();
  grant->set_sequence_id(7);
  AddPage(grant->add_layers(), 3);
  AddPage(grant->add_layers(), 4);
  return reply;
}

TEST(SessionMalformed, ListsOfDifferentLengthEmptyTheGrantAndNotTheOthers) {
  v1::SessionReply reply = WithGrant();
  *reply.add_granted() = reply.granted(0);
  ASSERT_EQ(FromProto(reply, kTwoLayers).granted[0].pages.size(), kTwoLayers);
  reply.mutable_granted(0)->mutable_layers(1)->add_pages(5);
  const SessionReply read = FromProto(reply, kTwoLayers);
  EXPECT_EQ(read.granted[0].sequence, SequenceId(7));
  EXPECT_TRUE(read.granted[0].pages.empty());
  EXPECT_EQ(read.granted[1].pages.size(), kTwoLayers);
  reply.mutable_granted(0)->mutable_layers(1)->clear_pages();  // one that is shorter
  EXPECT_TRUE(FromProto(reply, kTwoLayers).granted[0].pages.empty());
}

TEST(SessionMalformed, AnotherNumberOfLayersEmptiesTheList) {
  v1::SessionReply reply = WithGrant();
  v1::OpenResult* opened = reply.add_opened();
  *opened->mutable_layers() = reply.granted(0).layers();
  EXPECT_EQ(FromProto(reply, kTwoLayers).opened[0].pages.size(), kTwoLayers);
  for (const uint32_t layers : {0U, 1U, 3U}) {
    EXPECT_TRUE(FromProto(reply, layers).granted[0].pages.empty()) << layers;
    EXPECT_TRUE(FromProto(reply, layers).opened[0].pages.empty()) << layers;
  }
}

TEST(SessionMalformed, AClaimedLayerNeedsPairsOfPositionsAndPagesOfOneLength) {
  v1::SessionReply reply;
  v1::ClaimResult* claimed = reply.add_claimed();
  for (uint32_t layer = 0; layer < kTwoLayers; ++layer) {
    v1::ClaimResult::Layer* table = claimed->add_layers();
    AddPage(table->mutable_pages(), layer);
    table->add_runs(0);
    table->add_runs(4);
  }
  EXPECT_EQ(FromProto(reply, kTwoLayers).claimed[0].layers.size(), kTwoLayers);
  claimed->mutable_layers(0)->add_runs(9);
  EXPECT_TRUE(FromProto(reply, kTwoLayers).claimed[0].layers.empty());
  claimed->mutable_layers(0)->add_runs(10);
  EXPECT_EQ(FromProto(reply, kTwoLayers).claimed[0].layers.size(), kTwoLayers);
  claimed->mutable_layers(1)->mutable_pages()->add_generations(1);
  EXPECT_TRUE(FromProto(reply, kTwoLayers).claimed[0].layers.empty());
}

TEST(SessionMalformed, ACompactionOfAnotherNumberOfLayersIsEmpty) {
  v1::SessionReply reply;
  v1::CompactPlan* compact = reply.add_plans()->mutable_compact();
  compact->add_layers()->add_keep(1);
  compact->add_layers()->set_spare_pages(2);
  const SessionReply read = FromProto(reply, kTwoLayers);
  ASSERT_TRUE(std::holds_alternative<CompactAction>(read.plans[0].action));
  EXPECT_EQ(std::get<CompactAction>(read.plans[0].action).keep.size(), kTwoLayers);
  for (const uint32_t layers : {1U, 3U}) {
    const SessionReply refused = FromProto(reply, layers);
    EXPECT_EQ(std::get<CompactAction>(refused.plans[0].action), CompactAction{});
  }
}

DropAction ReadDrop(const v1::EvictionPlan& plan) {
  v1::SessionReply reply;
  *reply.add_plans() = plan;
  return std::get<DropAction>(FromProto(reply, kTwoLayers).plans[0].action);
}

TEST(SessionMalformed, ADropNamesEachLayerOnceWithOneBlock) {
  v1::EvictionPlan plan;
  v1::DropPagePlan* drop = plan.mutable_drop_page();
  EXPECT_TRUE(ReadDrop(plan).block.empty());  // every layer, and no blocks for them
  drop->add_block_index(3);
  EXPECT_TRUE(ReadDrop(plan).block.empty());
  drop->add_layer(1);
  EXPECT_EQ(ReadDrop(plan).block,
            (std::vector<std::optional<BlockIndex>>{std::nullopt, BlockIndex(3)}));
  drop->set_layer(0, kTwoLayers);  // one too many
  EXPECT_TRUE(ReadDrop(plan).block.empty());
  drop->set_layer(0, 1);
  drop->add_layer(1);  // again
  drop->add_block_index(4);
  EXPECT_TRUE(ReadDrop(plan).block.empty());
  drop->set_layer(1, 0);
  EXPECT_EQ(ReadDrop(plan).block,
            (std::vector<std::optional<BlockIndex>>{BlockIndex(4), BlockIndex(3)}));
}

TEST(SessionMalformed, APlanWithoutAnActionDropsNothing) {
  v1::EvictionPlan plan;
  plan.set_sequence_id(5);
  EXPECT_TRUE(ReadDrop(plan).block.empty());
}

TEST(SessionMalformed, NumbersOfALaterVersionAreNotTakenForOthers) {
  v1::SessionReply reply;
  v1::OpenResult* opened = reply.add_opened();
  for (const int number : {static_cast<int>(kNumScoreKinds), 255, 256, 257, 1 << 20, -1}) {
    opened->mutable_scores()->set_kind(static_cast<v1::ScoreKind>(number));
    opened->mutable_scores()->set_time(static_cast<v1::ScoreTime>(number + 256));
    const ScoreNeed need = FromProto(reply, kTwoLayers).opened[0].scores;
    EXPECT_FALSE(IsKnown(need.kind)) << number;
    EXPECT_GT(static_cast<int>(need.time), static_cast<int>(ScoreTime::kPageFill)) << number;
  }
  v1::SessionRequest request;
  request.add_close()->set_reason(static_cast<v1::CloseReason>(9));
  EXPECT_EQ(FromProto(request).close[0].reason, CloseReason::kUnspecified);
}

TEST(SessionMalformed, AFailedResultCarriesNothingElse) {
  v1::SessionReply reply;
  v1::OpenResult* opened = reply.add_opened();
  opened->set_request_tag(4);
  opened->set_code(8);
  opened->set_message("full");
  opened->set_sequence_id(9);
  const OpenResult read = FromProto(reply, kTwoLayers).opened[0];
  EXPECT_EQ(read.status, absl::ResourceExhaustedError("full"));
  EXPECT_EQ(read.request_tag, 4U);
  EXPECT_EQ(read.sequence, SequenceId(0));
}

}  // namespace
}  // namespace folio::wire
