// What becomes of a worker's sequences, as events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/manager/session_translator_harness.h"

namespace folio::manager {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class SessionEventsTest : public SessionTranslatorTest {
 protected:
  // The next event, which must be of this kind and of our worker.
  Event Next(EventKind kind) {
    if (next_ == batch_.events.size()) {
      batch_ = watch_->Next(SteadyNow());
      next_ = 0;
    }
    if (next_ == batch_.events.size()) {
      ADD_FAILURE() << "no event";
      return {};
    }
    const Event event = *batch_.events[next_++];
    EXPECT_EQ(static_cast<int>(event.kind), static_cast<int>(kind)) << event.text.value_or("");
    EXPECT_EQ(event.worker, worker_);
    return event;
  }
  void ExpectNoMore() {
    EXPECT_EQ(next_, batch_.events.size());
    EXPECT_EQ(watch_->Next(SteadyNow()).events.size(), 0);
  }

  void CloseOne(const v1::OpenResult& opened, v1::CloseReason reason) {
    v1::SessionRequest request;
    v1::CloseSequence* close = request.add_close();
    close->set_sequence_id(opened.sequence_id());
    close->set_lease_epoch(opened.lease_epoch());
    close->set_reason(reason);
    EXPECT_EQ(Must(request).failed_size(), 0);
  }

  std::unique_ptr<EventWatch> watch_ = *event_log_.Watch(EventKindSet().set(), 0);
  EventBatch batch_;
  size_t next_ = 0;
};

TEST_F(SessionEventsTest, OfASequenceFromOpenToClose) {
  v1::OpenSequence open = EvictingOpen(80, 64);
  open.set_label("look");
  const v1::OpenResult opened = OpenOne(open);
  CommitOne(Commit(opened, 40, 0));
  const v1::SessionReply compact = CommitOne(Commit(opened, 80, 1));
  ASSERT_EQ(compact.plans_size(), 1);
  const uint32_t before = free_pages();
  v1::SessionRequest request;
  v1::AckPlan* ack = request.add_ack();
  ack->set_sequence_id(opened.sequence_id());
  ack->set_lease_epoch(opened.lease_epoch());
  ack->set_plan_epoch(compact.plans(0).plan_epoch());
  Must(request);
  const uint32_t freed = free_pages() - before;
  CloseOne(opened, v1::CLOSE_REASON_DEADLINE);

  const Event first = Next(EventKind::kSequenceOpened);
  EXPECT_EQ(first.sequence, SequenceId(opened.sequence_id()));
  EXPECT_EQ(first.label, "look");
  EXPECT_EQ(first.tokens, TokenCount(80));
  EXPECT_EQ(first.policy, "paged_eviction");
  const Event evicted = Next(EventKind::kPagesEvicted);
  EXPECT_EQ(evicted.sequence, first.sequence);
  EXPECT_EQ(evicted.policy, "paged_eviction");
  ASSERT_TRUE(evicted.pages.has_value());
  EXPECT_GT(evicted.pages->value(), 0U);
  EXPECT_EQ(evicted.pages->value(), freed);
  const Event closed = Next(EventKind::kSequenceClosed);
  EXPECT_EQ(closed.sequence, first.sequence);
  EXPECT_EQ(closed.text, "deadline");
  ExpectNoMore();
}

TEST_F(SessionEventsTest, OfARefusal) {
  v1::OpenSequence open = EvictingOpen(80, 64);
  open.set_label("odd");
  open.mutable_cache()->set_budget_tokens(47);
  OpenOne(open);
  const Event event = Next(EventKind::kSequenceRefused);
  EXPECT_EQ(event.label, "odd");
  EXPECT_EQ(event.code, absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(*event.text, HasSubstr("budget_tokens"));
  EXPECT_FALSE(event.sequence.has_value());
  ExpectNoMore();
}

TEST_F(SessionEventsTest, AFullPoolRefusesOrLetsWait) {
  v1::OpenSequence large;
  for (uint32_t i = 0; i < 300; ++i) large.add_prompt_tokens(i);
  large.set_max_new_tokens(100);
  const v1::OpenResult held = OpenOne(large);
  ASSERT_EQ(held.code(), 0) << held.message();
  Next(EventKind::kSequenceOpened);

  large.set_label("refused");
  EXPECT_NE(OpenOne(large).code(), 0);
  const Event refused = Next(EventKind::kSequenceRefused);
  EXPECT_EQ(refused.code, absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(*refused.text, StartsWith("pool is full for now"));

  // A worker asks again and again, each time with another tag. That is one event.
  large.set_label("waits");
  large.set_resume_token("0123456789abcdef");
  large.set_waits_for_room(true);
  for (uint64_t tag = 100; tag < 105; ++tag) {
    large.set_request_tag(tag);
    EXPECT_NE(OpenOne(large).code(), 0);
  }
  const Event waits = Next(EventKind::kSequenceWaiting);
  EXPECT_EQ(waits.label, "waits");
  EXPECT_THAT(*waits.text, StartsWith("pool is full for now"));
  ExpectNoMore();

  // The next one of the line is another event.
  large.set_resume_token("fedcba9876543210");
  EXPECT_NE(OpenOne(large).code(), 0);
  Next(EventKind::kSequenceWaiting);
  CloseOne(held, v1::CLOSE_REASON_FINISHED);
  EXPECT_EQ(OpenOne(large).code(), 0);
  EXPECT_EQ(Next(EventKind::kSequenceClosed).text, "finished");
  EXPECT_EQ(Next(EventKind::kSequenceOpened).label, "waits");
  ExpectNoMore();
}

TEST_F(SessionEventsTest, OfAClaimThatFails) {
  v1::SessionRequest request;
  v1::ClaimSequence* claim = request.add_claim();
  claim->set_sequence_id(77);
  claim->set_resume_token("0123456789abcdef");
  Must(request);
  const Event event = Next(EventKind::kSequenceRefused);
  EXPECT_EQ(event.sequence, SequenceId(77));
  EXPECT_EQ(event.code, absl::StatusCode::kNotFound);
  ExpectNoMore();
}

}  // namespace
}  // namespace folio::manager
