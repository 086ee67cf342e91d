// Which field of a message holds which part of a value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/wire/sequence.h"
#include "services/wire/session.h"

namespace folio::wire {
namespace {

using ::testing::ElementsAre;

TEST(Commit, CarriesEverything) {
  v1::CommitTokens commit;
  commit.set_sequence_id(uint64_t{1} << 40);
  commit.set_lease_epoch(2);
  commit.set_logical_length(33);
  commit.add_sampled_tokens(11);
  commit.add_filled()->set_page(4);
  commit.mutable_filled(0)->set_generation(6);
  v1::SessionRequest message;
  *message.add_commit() = commit;
  const CommitTokens request = FromProto(message).commit[0];
  EXPECT_EQ(request.sequence, SequenceId(uint64_t{1} << 40));
  EXPECT_EQ(request.lease_epoch, LeaseEpoch(2));
  EXPECT_EQ(request.logical_length, TokenCount(33));
  EXPECT_THAT(request.sampled, ElementsAre(TokenId(11)));
  EXPECT_THAT(request.filled, ElementsAre(PageRef{PageId(4), Generation(6)}));
}

TEST(Plan, OfEitherKindIsCarried) {
  Plan plan;
  plan.sequence = SequenceId(8);
  plan.epoch = PlanEpoch(2);
  plan.action =
      CompactAction{{{TokenSlot(0), TokenSlot(9)}, {TokenSlot(1)}}, {PageCount(2), PageCount(1)}};
  const v1::EvictionPlan compact = ToProto(plan);
  EXPECT_EQ(compact.sequence_id(), 8U);
  EXPECT_EQ(compact.plan_epoch(), 2U);
  ASSERT_EQ(compact.compact().layers_size(), 2);
  EXPECT_THAT(compact.compact().layers(0).keep(), ElementsAre(0, 9));
  EXPECT_THAT(compact.compact().layers(1).keep(), ElementsAre(1));
  EXPECT_EQ(compact.compact().layers(0).spare_pages(), 2U);
  EXPECT_EQ(compact.compact().layers(1).spare_pages(), 1U);
  plan.action = DropAction{{BlockIndex(3), BlockIndex(5)}};
  EXPECT_THAT(ToProto(plan).drop_page().block_index(), ElementsAre(3, 5));
  EXPECT_EQ(ToProto(plan).drop_page().layer_size(), 0);
  plan.action = DropAction{{std::nullopt, BlockIndex(5)}};
  EXPECT_THAT(ToProto(plan).drop_page().block_index(), ElementsAre(5));
  EXPECT_THAT(ToProto(plan).drop_page().layer(), ElementsAre(1));
}

}  // namespace
}  // namespace folio::wire
