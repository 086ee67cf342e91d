// What happens to a worker whose attachment ends before it can use it, with the real manager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "services/worker/link/grpc_manager_link.h"
#include "services/worker/link/manager_channel.h"
#include "services/worker/pool/pool_attachment.h"
#include "tests/manager/manager_harness.h"

namespace folio::worker {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLease = absl::Seconds(5);
constexpr absl::Duration kLong = absl::Seconds(20);

class AttachRacesTest : public ::testing::Test {
 protected:
  std::unique_ptr<PoolAttachment> Attach() {
    auto attached = AttachWithRetry(channel_, {"w"}, {&layout_}, kLong, [] { return false; });
    EXPECT_TRUE(attached.ok()) << attached.status();
    return attached.ok() ? *std::move(attached) : nullptr;
  }
  void EndTheLeases() {
    clock_.Advance(2 * kLease);
    ASSERT_TRUE(testing::Eventually([&] { return harness_.PoolState().workers_size() == 0; }));
  }
  // How the session goes: the status of its end, or OK if the manager answers.
  absl::Status Session(const PoolAttachment& attachment) {
    GrpcManagerLink link(channel_, attachment.session(), [] { return StepProgress{}; });
    const auto reply = link.Receive(SteadyNow() + kLong);
    return reply.has_value() ? absl::OkStatus() : link.status();
  }

  testing::ManualClock clock_;
  testing::ManagerHarness harness_{{.lease_ttl = kLease, .clock = &clock_}};
  const std::shared_ptr<grpc::Channel> channel_ = MakeManagerChannel(harness_.address());
  const v1::ModelLayout layout_ = testing::SmallLayout();
};

TEST_F(AttachRacesTest, ALeaseThatEndsBeforeTheHelloCallsForAnotherAttachment) {
  const auto late = Attach();
  ASSERT_NE(late, nullptr);
  EndTheLeases();
  const absl::Status end = Session(*late);
  EXPECT_TRUE(absl::IsUnavailable(end)) << "the worker would not attach again: " << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("is not attached, or its lease ran out"));
  const auto in_time = Attach();
  ASSERT_NE(in_time, nullptr);
  EXPECT_EQ(Session(*in_time), absl::OkStatus());
}

TEST_F(AttachRacesTest, ALeaseThatEndsBeforeTheFetchCallsForAnotherAttachment) {
  testing::TestWorker slow(harness_.address());
  ASSERT_TRUE(slow.Attach().ok());
  EndTheLeases();
  const absl::Status end = PoolAttachment::Fetch(slow.attached(), {&layout_}).status();
  EXPECT_TRUE(absl::IsUnavailable(end)) << "the worker would not try again: " << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("export token: unknown or used"));
}

TEST_F(AttachRacesTest, AnAttachmentThatIsReplacedCallsForAnother) {
  testing::TestWorker replaced(harness_.address());
  ASSERT_TRUE(replaced.Attach().ok());
  v1::ModelLayout other = layout_;
  other.set_model("other");
  testing::TestWorker stranger(harness_.address());
  ASSERT_TRUE(stranger.Attach(other).ok());
  const absl::Status end = PoolAttachment::Fetch(replaced.attached(), {&layout_}).status();
  EXPECT_TRUE(absl::IsUnavailable(end)) << "the worker would not try again: " << end;
  const auto again = Attach();
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(Session(*again), absl::OkStatus());
}

}  // namespace
}  // namespace folio::worker
