// Events as messages, and the kinds that a request asks for.
#include "services/manager/event_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace folio::manager {
namespace {

using ::testing::HasSubstr;

TEST(EventMessages, FieldsThatDoNotBelongAreUnset) {
  v1::Event out;
  WriteEvent({.kind = EventKind::kDrained, .sequences = 0, .number = 3, .time_us = 5}, &out);
  v1::Event expected;
  expected.set_number(3);
  expected.set_time_us(5);
  expected.set_kind(v1::EVENT_KIND_DRAINED);
  expected.set_sequences(0);
  EXPECT_EQ(out.SerializeAsString(), expected.SerializeAsString()) << out.ShortDebugString();
}

TEST(EventMessages, EveryFieldHasItsPlace) {
  const Event event = {.kind = EventKind::kKillFailed,
                       .worker = WorkerId(4),
                       .worker_name = "name",
                       .rank = Rank(1),
                       .pid = 77,
                       .sequence = SequenceId(9),
                       .label = "label",
                       .sequences = 11,
                       .pages = PageCount(12),
                       .freed_pages = PageCount(13),
                       .tokens = TokenCount(14),
                       .lease_epoch = LeaseEpoch(15),
                       .policy = "full",
                       .code = absl::StatusCode::kPermissionDenied,
                       .text = "text",
                       .workers = 16,
                       .pool = "pool",
                       .number = 1,
                       .time_us = 2};
  v1::Event out;
  WriteEvent(event, &out);
  const auto* fields = v1::Event::descriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    const auto* field = fields->field(i);
    const bool set = field->has_presence() ? out.GetReflection()->HasField(out, field) : true;
    EXPECT_TRUE(set) << field->name();
  }
  EXPECT_EQ(out.worker_id(), "w4");
  EXPECT_EQ(out.code(), "PERMISSION_DENIED");
  EXPECT_EQ(out.kind(), v1::EVENT_KIND_KILL_FAILED);
  EXPECT_EQ(out.sequence_id() + out.sequences() + out.pages() + out.freed_pages() + out.tokens() +
                out.lease_epoch() + out.rank() + static_cast<uint32_t>(out.pid()),
            9U + 11 + 12 + 13 + 14 + 15 + 1 + 77);
}

TEST(EventMessages, WithoutKindsThoseOfRequestsAreLeftOut) {
  const auto kinds = EventKindsFromProto(v1::WatchEventsRequest());
  ASSERT_TRUE(kinds.ok());
  EXPECT_EQ(kinds->count(), kEventKinds - 5);
  for (const EventKind kind :
       {EventKind::kSequenceWaiting, EventKind::kSequenceOpened, EventKind::kSequenceClosed,
        EventKind::kPagesEvicted, EventKind::kSequenceParked}) {
    EXPECT_FALSE(kinds->test(static_cast<size_t>(kind)));
  }
  EXPECT_TRUE(kinds->test(static_cast<size_t>(EventKind::kSequenceRefused)));
}

TEST(EventMessages, KindsAreThoseThatARequestNames) {
  v1::WatchEventsRequest request;
  request.add_kinds(v1::EVENT_KIND_PAGES_EVICTED);
  request.add_kinds(v1::EVENT_KIND_POOL_CREATED);
  const auto kinds = EventKindsFromProto(request);
  ASSERT_TRUE(kinds.ok());
  EXPECT_EQ(kinds->count(), 2);
  EXPECT_TRUE(kinds->test(static_cast<size_t>(EventKind::kPagesEvicted)));
  EXPECT_TRUE(kinds->test(static_cast<size_t>(EventKind::kPoolCreated)));
}

TEST(EventMessages, UnknownKindsAreRefusedByName) {
  for (const int kind : {0, -1, v1::EventKind_MAX + 1}) {
    v1::WatchEventsRequest request;
    request.add_kinds(v1::EVENT_KIND_DRAINED);
    request.add_kinds(static_cast<v1::EventKind>(kind));
    const auto kinds = EventKindsFromProto(request);
    EXPECT_EQ(kinds.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(kinds.status().message()),
                HasSubstr("kinds[1]: " + std::to_string(kind)));
  }
}

}  // namespace
}  // namespace folio::manager
