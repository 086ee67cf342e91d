// SessionTranslator over a real coordinator, without gRPC: what a sequence goes through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "services/cache/inspector.h"
#include "services/runtime/logging.h"
#include "tests/manager/session_translator_harness.h"

namespace folio::manager {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(SessionTranslatorTest, CarriesASequenceFromOpenToClose) {
  const v1::OpenResult opened = OpenOne(EvictingOpen(80, 64));
  ASSERT_EQ(opened.code(), 0) << opened.message();
  // Defaults are filled in, and each layer has the prompt's pages and one ahead.
  EXPECT_EQ(opened.cache().sink_tokens(), 16U);
  EXPECT_EQ(opened.cache().recent_tokens(), 16U);
  EXPECT_EQ(opened.cache().eviction_mode(), v1::EVICTION_MODE_PIPELINED);
  ASSERT_EQ(opened.layers_size(), 2);
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> table(2);
  for (int layer = 0; layer < 2; ++layer) {
    ASSERT_EQ(opened.layers(layer).pages_size(), 6);
    ASSERT_EQ(opened.layers(layer).generations_size(), 6);
    for (int i = 0; i < 6; ++i) {
      table[layer].emplace_back(opened.layers(layer).pages(i), opened.layers(layer).generations(i));
    }
  }
  // The second page of layer 1 is the best one after sinks and recent tokens.
  for (int token = 0; token < 16; ++token) board_[table[1][1].first * 16 + token] = 9.0F;
  for (int token = 0; token < 16; ++token) board_[table[0][3].first * 16 + token] = 9.0F;

  EXPECT_EQ(CommitOne(Commit(opened, 40, 0)).plans_size(), 0);
  const v1::SessionReply compact = CommitOne(Commit(opened, 80, 1));
  ASSERT_EQ(compact.failed_size(), 0) << compact.ShortDebugString();
  ASSERT_EQ(compact.plans_size(), 1);
  const v1::EvictionPlan& plan = compact.plans(0);
  ASSERT_TRUE(plan.has_compact());
  EXPECT_EQ(plan.compact().layers(0).spare_pages(), 2U);
  const auto expect_kept = [&](int layer, uint32_t middle) {
    ASSERT_EQ(plan.compact().layers(layer).keep_size(), 48);
    for (uint32_t i = 0; i < 16; ++i) {
      EXPECT_EQ(plan.compact().layers(layer).keep(i), i);
      EXPECT_EQ(plan.compact().layers(layer).keep(16 + i), middle + i);
      EXPECT_EQ(plan.compact().layers(layer).keep(32 + i), 64 + i);
    }
  };
  expect_kept(0, 48);
  expect_kept(1, 16);

  // Acknowledged and decoded on in one request: the plan comes first.
  v1::SessionRequest request;
  v1::AckPlan* ack = request.add_ack();
  ack->set_sequence_id(opened.sequence_id());
  ack->set_lease_epoch(opened.lease_epoch());
  ack->set_plan_epoch(plan.plan_epoch());
  *request.add_commit() = Commit(opened, 81, 1);
  const v1::SessionReply after = Must(request);
  EXPECT_EQ(after.failed_size(), 0) << after.ShortDebugString();
  EXPECT_EQ(free_pages(), kPages - 2 * 5);

  for (uint32_t length = 82; length < 96; ++length) {
    const v1::SessionReply step = CommitOne(Commit(opened, length, 1));
    ASSERT_EQ(step.failed_size(), 0) << step.ShortDebugString();
    ASSERT_EQ(step.plans_size(), 0);
  }
  // The sixteenth token fills the page: the survivors of the prompt fill blocks 0 to 2.
  v1::CommitTokens filled = Commit(opened, 96, 1);
  for (int layer = 0; layer < 2; ++layer) {
    v1::PageRef* ref = filled.add_filled();
    ref->set_page(table[layer][3].first);
    ref->set_generation(table[layer][3].second);
  }
  const v1::SessionReply drop = CommitOne(filled);
  ASSERT_EQ(drop.failed_size(), 0) << drop.ShortDebugString();
  ASSERT_EQ(drop.plans_size(), 1);
  EXPECT_EQ(drop.plans(0).drop_page().block_index_size(), 2);

  request.Clear();
  ack = request.add_ack();
  ack->set_sequence_id(opened.sequence_id());
  ack->set_lease_epoch(opened.lease_epoch());
  ack->set_plan_epoch(drop.plans(0).plan_epoch());
  v1::CloseSequence* close = request.add_close();
  close->set_sequence_id(opened.sequence_id());
  close->set_lease_epoch(opened.lease_epoch());
  const v1::SessionReply closed = Must(request);
  EXPECT_EQ(closed.failed_size(), 0) << closed.ShortDebugString();
  EXPECT_EQ(free_pages(), kPages);
}

TEST_F(SessionTranslatorTest, ACloseMakesRoomForAnOpenOfTheSameRequest) {
  v1::OpenSequence large;
  for (uint32_t i = 0; i < 500; ++i) large.add_prompt_tokens(i);
  const v1::OpenResult first = OpenOne(large);
  ASSERT_EQ(first.code(), 0) << first.message();
  const v1::OpenResult refused = OpenOne(large);
  EXPECT_EQ(refused.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("wanted 64"), HasSubstr("free"), HasSubstr("held")));
  EXPECT_EQ(refused.sequence_id(), 0U);

  v1::SessionRequest request;
  *request.add_open() = large;
  v1::CloseSequence* close = request.add_close();
  close->set_sequence_id(first.sequence_id());
  close->set_lease_epoch(first.lease_epoch());
  const v1::SessionReply reply = Must(request);
  EXPECT_EQ(reply.failed_size(), 0);
  EXPECT_EQ(reply.opened(0).code(), 0) << reply.opened(0).message();
}

TEST_F(SessionTranslatorTest, TheReplyWithASecondTenantsPagesSaysToClearThem) {
  const auto clears = [&](const char* tenant) {
    v1::SessionRequest request;
    *request.add_open() = EvictingOpen(8, 8);
    request.mutable_open(0)->set_tenant(tenant);
    return Must(request).clear_pages();
  };
  EXPECT_FALSE(clears("alice"));
  EXPECT_FALSE(clears("alice"));
  EXPECT_TRUE(clears("bob"));
  EXPECT_TRUE(clears("alice"));
}

TEST_F(SessionTranslatorTest, TheGateRefusesOpensOnly) {
  const v1::OpenResult opened = OpenOne(EvictingOpen(16, 16));
  gate_ = absl::UnavailableError("draining");
  const v1::OpenResult refused = OpenOne(EvictingOpen(16, 16));
  EXPECT_EQ(refused.code(), static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_EQ(refused.message(), "draining");
  EXPECT_EQ(CommitOne(Commit(opened, 16, 1)).failed_size(), 0);
}

TEST_F(SessionTranslatorTest, AFailureOfOneSequenceIsNoConcernOfTheOthers) {
  const v1::OpenResult a = OpenOne(EvictingOpen(16, 16));
  const v1::OpenResult b = OpenOne(EvictingOpen(16, 16));
  v1::SessionRequest request;
  *request.add_commit() = Commit(a, 1000, 0);
  *request.add_commit() = Commit(b, 16, 1);
  const v1::SessionReply reply = Must(request);
  ASSERT_EQ(reply.failed_size(), 1);
  EXPECT_EQ(reply.failed(0).sequence_id(), a.sequence_id());
  EXPECT_EQ(cache::Inspector(coordinator_)
                .sequence(SequenceId(b.sequence_id()))
                ->info.logical_length.value(),
            16U);
}

TEST_F(SessionTranslatorTest, ACloseThatIsAnErrorIsLogged) {
  const auto close_for = [&](v1::CloseReason reason) {
    const v1::OpenResult opened = OpenOne(EvictingOpen(20, 4));
    v1::SessionRequest request;
    v1::CloseSequence* close = request.add_close();
    close->set_sequence_id(opened.sequence_id());
    close->set_lease_epoch(opened.lease_epoch());
    close->set_reason(reason);
    ::testing::internal::CaptureStderr();
    Must(request);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(close_for(v1::CLOSE_REASON_ERROR),
              HasSubstr("INFO sequence closed sequence=1 worker=w1 reason=error\n"));
  // The usual ends are for those who want every detail.
  EXPECT_EQ(close_for(v1::CLOSE_REASON_FINISHED), "");
  log::Configure(log::Format::kText, log::Level::kDebug);
  EXPECT_THAT(close_for(v1::CLOSE_REASON_FINISHED), HasSubstr("sequence=3"));
  EXPECT_THAT(close_for(v1::CLOSE_REASON_CANCELLED), HasSubstr("reason=cancelled"));
  EXPECT_THAT(close_for(v1::CLOSE_REASON_DEADLINE), HasSubstr("reason=deadline"));
  log::Configure(log::Format::kText, log::Level::kInfo);
}

}  // namespace
}  // namespace folio::manager
