// Admin.WatchEvents and Admin.ListWorkers of a whole manager, whose workers are lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/grpc/grpc_status.h"
#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A stream of events, which is cancelled when it goes out of scope.
class Watcher {
 public:
  Watcher(ManagerHarness& harness, const v1::WatchEventsRequest& request) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    reader_ = harness.admin().WatchEvents(&context_, request);
  }
  ~Watcher() {
    context_.TryCancel();
    if (!ended_) (void)reader_->Finish();
  }

  std::optional<v1::WatchEventsResponse> Next() {
    v1::WatchEventsResponse response;
    if (!reader_->Read(&response)) return std::nullopt;
    return response;
  }
  // The next event, which must be of this kind.
  v1::Event Next(v1::EventKind kind) {
    const auto response = Next();
    EXPECT_TRUE(response.has_value()) << "the stream has ended before " << v1::EventKind_Name(kind);
    if (!response.has_value()) return {};
    EXPECT_EQ(v1::EventKind_Name(response->event().kind()), v1::EventKind_Name(kind))
        << response->ShortDebugString();
    return response->event();
  }
  absl::Status Finish() {
    ended_ = true;
    return FromGrpcStatus(reader_->Finish());
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchEventsResponse>> reader_;
  bool ended_ = false;
};

v1::WatchEventsRequest Following() {
  v1::WatchEventsRequest request;
  request.set_follow(true);
  return request;
}

v1::ListWorkersResponse Workers(ManagerHarness& harness) {
  grpc::ClientContext context;
  v1::ListWorkersResponse response;
  EXPECT_TRUE(harness.admin().ListWorkers(&context, {}, &response).ok());
  return response;
}

TEST(WatchEvents, AStoppedWorkerIsFencedKilledAndGone) {
  ManagerHarness harness({.lease_ttl = absl::Seconds(1), .kill_fenced_after = absl::Seconds(3)});
  Watcher watcher(harness, Following());
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, harness.address(), "64"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  const uint32_t held = harness.PoolState().held_pages();
  ASSERT_EQ(held, 2U * 5U);
  v1::ListWorkersResponse workers = Workers(harness);
  ASSERT_EQ(workers.workers_size(), 1);
  EXPECT_EQ(workers.lease_ttl_ms(), 1000U);
  EXPECT_EQ(workers.kill_fenced_after_ms(), 3000U);
  EXPECT_EQ(workers.workers(0).sequences(), 1U);
  EXPECT_EQ(workers.workers(0).held_pages(), held);
  EXPECT_EQ(workers.workers(0).highest_lease_epoch(), 1U);
  EXPECT_TRUE(workers.workers(0).has_lease_remaining_ms());
  EXPECT_FALSE(workers.workers(0).has_fence());
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_POOL_CREATED).pages(), harness.PoolState().total_pages());
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_WORKER_ATTACHED).worker_id(), "w1");
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_SESSION_BEGAN).pid(), worker.pid());

  worker.Signal(SIGSTOP);
  const v1::Event fenced = watcher.Next(v1::EVENT_KIND_WORKER_FENCED);
  EXPECT_EQ(fenced.worker_id(), "w1");
  EXPECT_EQ(fenced.pid(), worker.pid());
  EXPECT_EQ(fenced.text(), "lease ran out");
  EXPECT_EQ(fenced.pages(), held);
  workers = Workers(harness);
  ASSERT_EQ(workers.workers_size(), 1);
  const v1::Fence& fence = workers.workers(0).fence();
  EXPECT_EQ(fence.reason(), "lease ran out");
  EXPECT_EQ(fence.blocked_pages(), held);
  EXPECT_LE(fence.kill_in_ms(), 3000U);
  EXPECT_GE(fence.silent_ms(), 1000U);
  EXPECT_FALSE(fence.killed());
  EXPECT_FALSE(workers.workers(0).has_lease_remaining_ms());
  ASSERT_EQ(workers.workers(0).processes_size(), 1);
  EXPECT_EQ(workers.workers(0).processes(0).pid(), worker.pid());
  EXPECT_TRUE(workers.workers(0).processes(0).has_pages());

  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_PROCESS_KILLED).pid(), worker.pid());
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_PROCESS_ENDED).pid(), worker.pid());
  const v1::Event gone = watcher.Next(v1::EVENT_KIND_WORKER_GONE);
  EXPECT_EQ(gone.pages(), held);
  EXPECT_EQ(gone.freed_pages(), held);
  EXPECT_EQ(gone.number(), 8U) << "one of the others is the opened sequence";
  EXPECT_EQ(harness.PoolState().free_pages(), harness.PoolState().total_pages());
  EXPECT_EQ(Workers(harness).workers_size(), 0);
  EXPECT_EQ(worker.Wait(), 128 + SIGKILL);
}

TEST(WatchEvents, AnOrphanIsClaimed) {
  ManagerHarness harness({.orphan_ttl = absl::Seconds(60)});
  ChildProcess doomed({FOLIO_TEST_WORKER_BINARY, harness.address(), "64"});
  ASSERT_NE(doomed.ReadUntil("holding sequence"), "") << doomed.output();
  TestWorker other(harness.address());
  other.Join();
  v1::WatchEventsRequest request = Following();
  request.add_kinds(v1::EVENT_KIND_WORKER_FENCED);
  request.add_kinds(v1::EVENT_KIND_SEQUENCES_ORPHANED);
  request.add_kinds(v1::EVENT_KIND_WORKER_GONE);
  request.add_kinds(v1::EVENT_KIND_SEQUENCE_CLAIMED);
  request.add_kinds(v1::EVENT_KIND_SEQUENCE_REFUSED);
  Watcher watcher(harness, request);
  doomed.Signal(SIGKILL);
  EXPECT_EQ(doomed.Wait(), 128 + SIGKILL);
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_WORKER_FENCED).pages(), 2U * 5U);
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_SEQUENCES_ORPHANED).sequences(), 1U);
  const v1::Event gone = watcher.Next(v1::EVENT_KIND_WORKER_GONE);
  EXPECT_EQ(gone.pages(), 2U * 5U);
  EXPECT_EQ(gone.freed_pages(), 0U) << "the orphan still holds them";
  EXPECT_EQ(other.Claim(1, "0000000000000000").status().code(),
            absl::StatusCode::kPermissionDenied);
  ASSERT_TRUE(other.Claim(1).ok());
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_SEQUENCE_REFUSED).code(), "PERMISSION_DENIED");
  const v1::Event claimed = watcher.Next(v1::EVENT_KIND_SEQUENCE_CLAIMED);
  EXPECT_EQ(claimed.sequence_id(), 1U);
  EXPECT_EQ(claimed.worker_id(), "w2");
  EXPECT_EQ(claimed.lease_epoch(), 2U);
  const v1::ListWorkersResponse workers = Workers(harness);
  ASSERT_EQ(workers.workers_size(), 1);
  EXPECT_EQ(workers.workers(0).claimed_sequences(), 1U);
  EXPECT_EQ(workers.workers(0).highest_lease_epoch(), 2U);
}

TEST(WatchEvents, AStreamThatDoesNotFollowEnds) {
  ManagerHarness harness;
  EXPECT_EQ(Watcher(harness, {}).Next(), std::nullopt);
  TestWorker worker(harness.address());
  worker.Join();
  v1::WatchEventsRequest request;
  request.set_after(1);
  Watcher watcher(harness, request);
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_WORKER_ATTACHED).number(), 2U);
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_SESSION_BEGAN).number(), 3U);
  EXPECT_EQ(watcher.Next(), std::nullopt);
  EXPECT_EQ(watcher.Finish(), absl::OkStatus());
}

TEST(WatchEvents, MalformedRequestsAreRefused) {
  ManagerHarness harness;
  v1::WatchEventsRequest request;
  request.set_after(9);
  Watcher late(harness, request);
  EXPECT_EQ(late.Next(), std::nullopt);
  const absl::Status beyond = late.Finish();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("after: 9"));
  request.set_after(0);
  request.add_kinds(static_cast<v1::EventKind>(99));
  Watcher odd(harness, request);
  EXPECT_EQ(odd.Next(), std::nullopt);
  EXPECT_THAT(std::string(odd.Finish().message()), HasSubstr("kinds[0]: 99"));
}

TEST(WatchEvents, StreamsAreBoundedAndAPlaceIsFreeAgain) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  worker.Join();
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (int i = 0; i < 16; ++i) {
    watchers.push_back(std::make_unique<Watcher>(harness, Following()));
    watchers.back()->Next(v1::EVENT_KIND_POOL_CREATED);
  }
  Watcher more(harness, Following());
  EXPECT_EQ(more.Next(), std::nullopt);
  const absl::Status refused = more.Finish();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("16 streams of events are open"));
  // Others are served meanwhile.
  EXPECT_TRUE(worker.Call().ok());
  EXPECT_EQ(Workers(harness).workers_size(), 1);
  watchers.pop_back();
  EXPECT_TRUE(Eventually([&] { return Watcher(harness, Following()).Next().has_value(); }));
}

TEST(WatchEvents, ADrainEndsStreamsWithOk) {
  auto harness = std::make_unique<ManagerHarness>();
  Watcher watcher(*harness, Following());
  harness->server().Drain(absl::Seconds(1), [](absl::Duration) { return false; });
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_DRAINING).sequences(), 0U);
  EXPECT_EQ(watcher.Next(v1::EVENT_KIND_DRAINED).sequences(), 0U);
  // The harness is gone before the watcher, which its destructor must not wait for.
  harness.reset();
  EXPECT_EQ(watcher.Next(), std::nullopt);
  EXPECT_EQ(watcher.Finish(), absl::OkStatus());
}

}  // namespace
}  // namespace folio::testing
