// A worker whose process the manager's kernel cannot show it, because it is in another PID
// namespace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "services/base/protocol.h"
#include "services/cache/inspector.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/worker_registry.h"
#include "services/runtime/unix_socket.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::HasSubstr;

class HiddenPeerTest : public ::testing::Test {
 protected:
  HiddenPeerTest() {
    std::array<int, 2> ends = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    workers_end_.Reset(ends[0]);
    managers_end_.Reset(ends[1]);
  }

  v1::AttachResponse Attach(bool keeps) {
    v1::AttachRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_keeps_export_connection(keeps);
    *request.mutable_layout() = SmallLayout();
    return *registry_.Attach(request);
  }
  absl::Status Redeem(const v1::AttachResponse& attached) {
    return registry_
        .RedeemExportToken(attached.export_token(),
                           {0, absl::FailedPreconditionError("hidden"), std::move(managers_end_)})
        .status();
  }
  cache::PoolInfo pool() const { return cache::Inspector(registry_.pool()->coordinator()).pool(); }

  UniqueFd workers_end_, managers_end_;
  const RealClock clock_;
  const manager::HostMemory memory_;
  std::atomic<bool> cancelled_ = false;
  manager::WorkerRegistry registry_{{.pages = &memory_,
                                     .pool_size = {.bytes = 128 * kSmallPageBytes},
                                     .rules = {.lease_ttl = absl::Seconds(60)},
                                     .export_socket = "none",
                                     .clock = &clock_}};
};

// The manager does not see whether such a process has ended, but an operator may.
TEST_F(HiddenPeerTest, ItsQuarantineIsReleasedOnAnOperatorsWord) {
  const v1::AttachResponse attached = Attach(/*keeps=*/true);
  ASSERT_EQ(Redeem(attached), absl::OkStatus());
  v1::SessionHello hello;
  hello.set_worker_id(attached.worker_id());
  hello.set_session_token(attached.session_token());
  const auto worker = registry_.BeginSession(hello, [] {});
  ASSERT_TRUE(worker.ok()) << worker.status();
  cache::OpenRequest open;
  open.worker = worker->worker;
  open.prompt = {TokenId(1), TokenId(2)};
  open.max_new_tokens = TokenCount(4);
  ASSERT_TRUE(registry_.pool()->coordinator().Open(open).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(registry_.ReleaseQuarantine(worker->worker).status()));
  registry_.EndSession(worker->worker);
  const PageCount blocked = pool().quarantined;
  ASSERT_GT(blocked, PageCount(0));
  EXPECT_EQ(registry_.ReleaseQuarantine(worker->worker).value(), blocked);
  EXPECT_EQ(pool().free, pool().total);
  EXPECT_TRUE(absl::IsNotFound(registry_.ReleaseQuarantine(worker->worker).status()));
  EXPECT_TRUE(registry_.Workers().empty());
}

TEST_F(HiddenPeerTest, HasEndedWhenItsConnectionEnds) {
  const v1::AttachResponse attached = Attach(/*keeps=*/true);
  ASSERT_EQ(Redeem(attached), absl::OkStatus());
  v1::SessionHello hello;
  hello.set_worker_id(attached.worker_id());
  hello.set_session_token(attached.session_token());
  const auto worker = registry_.BeginSession(hello, [this] { cancelled_ = true; });
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(PidOf(registry_, worker->worker), 0);
  cache::OpenRequest open;
  open.worker = worker->worker;
  open.prompt = {TokenId(1), TokenId(2)};
  open.max_new_tokens = TokenCount(4);
  ASSERT_TRUE(registry_.pool()->coordinator().Open(open).ok());

  // A message is not the end.
  ASSERT_TRUE(SendMessage(workers_end_.get(), "still here").ok());
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(cancelled_);
  EXPECT_EQ(pool().workers.size(), 1u);

  // A fenced worker's pages wait for its end, as those of a visible process do.
  const uint32_t held = pool().held.value();
  registry_.EndSession(worker->worker);
  EXPECT_EQ(pool().quarantined.value(), held);
  workers_end_.Reset();
  EXPECT_TRUE(Eventually([&] { return pool().free == pool().total; }));
  EXPECT_TRUE(pool().workers.empty());
}

TEST_F(HiddenPeerTest, IsRefusedWithoutThePromiseToKeepItsConnection) {
  const v1::AttachResponse attached = Attach(/*keeps=*/false);
  const absl::Status refused = Redeem(attached);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("hidden"));
  v1::SessionHello hello;
  hello.set_worker_id(attached.worker_id());
  hello.set_session_token(attached.session_token());
  EXPECT_THAT(std::string(registry_.BeginSession(hello, [] {}).status().message()),
              HasSubstr("has not fetched the pool's descriptors"));
}

}  // namespace
}  // namespace folio::testing
