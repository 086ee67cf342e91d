// The Session stream: hello, order, endings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "services/cache/inspector.h"
#include "services/wire/session_limits.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::HasSubstr;

TEST(Session, AHelloThatIsNotRightOpensNothing) {
  using absl::StatusCode;
  const struct {
    const char* name;
    std::function<void(TestWorker&, v1::SessionRequest&)> prepare;
    StatusCode code;
    const char* words;
  } kCases[] = {
      {"no hello", [](auto& w, auto& r) { r.clear_hello(); }, StatusCode::kInvalidArgument,
       "hello"},
      {"empty hello", [](auto& w, auto& r) { r.mutable_hello()->Clear(); }, StatusCode::kNotFound,
       "hello.worker_id"},
      {"unknown worker", [](auto& w, auto& r) { r.mutable_hello()->set_worker_id("w999"); },
       StatusCode::kNotFound, "\"w999\" is not attached"},
      {"odd worker", [](auto& w, auto& r) { r.mutable_hello()->set_worker_id("w1x"); },
       StatusCode::kNotFound, "hello.worker_id"},
      {"wrong token", [](auto& w, auto& r) { r.mutable_hello()->set_session_token("guess"); },
       StatusCode::kPermissionDenied, "hello.session_token"},
      {"no token", [](auto& w, auto& r) { r.mutable_hello()->clear_session_token(); },
       StatusCode::kPermissionDenied, "hello.session_token"},
      {"export token",
       [](auto& w, auto& r) { r.mutable_hello()->set_session_token(w.attached().export_token()); },
       StatusCode::kPermissionDenied, "hello.session_token"},
  };
  ManagerHarness harness;
  for (const auto& c : kCases) {
    TestWorker worker(harness.address());
    ASSERT_TRUE(worker.Attach().ok());
    ASSERT_TRUE(worker.Fetch().ok());
    v1::SessionRequest hello;
    hello.mutable_hello()->set_worker_id(worker.attached().worker_id());
    hello.mutable_hello()->set_session_token(worker.attached().session_token());
    c.prepare(worker, hello);
    auto refused = worker.Call(hello);
    EXPECT_EQ(refused.status().code(), c.code) << c.name << ": " << refused.status();
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(c.words)) << c.name;
    // The right hello is not spoilt by it.
    EXPECT_TRUE(worker.Begin().ok()) << c.name;
  }
}

TEST(Session, ASecondHelloEndsIt) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  worker.Join();
  v1::SessionRequest request;
  request.mutable_hello();
  const auto refused = worker.Call(request);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("hello: only the first"));
}

// One that is too large ends its session alone.
TEST(Session, ARequestIsBounded) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  worker.Join();
  v1::OpenSequence open = SmallOpen(0, 1);
  open.mutable_prompt_tokens()->Resize(static_cast<int>(wire::kMaxPromptTokens), (1 << 24) - 1);
  const auto longest = worker.Open(open);
  EXPECT_EQ(longest.status().code(), absl::StatusCode::kResourceExhausted) << longest.status();
  EXPECT_THAT(std::string(longest.status().message()), HasSubstr("pages"));
  EXPECT_TRUE(worker.Open(SmallOpen(16, 16)).ok()) << "the session goes on";

  TestWorker other(harness.address());
  other.Join();
  open.set_label(std::string(wire::kMaxSessionRequestBytes, 'l'));
  const auto refused = other.Open(open);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("larger than max"));
  EXPECT_TRUE(worker.Open(SmallOpen(16, 16)).ok());
}

TEST(Session, NeedsTheDescriptorsFirst) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  ASSERT_TRUE(worker.Attach().ok());
  auto refused = worker.Begin();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has not fetched the pool's descriptors"));
  ASSERT_TRUE(worker.Fetch().ok());
  EXPECT_TRUE(worker.Begin().ok());
}

TEST(Session, AWorkerHasOne) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  worker.Join();
  TestWorker copy(harness.address());
  copy.attached() = worker.attached();
  auto refused = copy.Begin();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has a session already"));
  EXPECT_TRUE(worker.Call().ok());
}

TEST(Session, StepsMustGrowAndHelloComesOnce) {
  ManagerHarness harness;
  {
    TestWorker worker(harness.address());
    worker.Join();
    v1::SessionRequest again;
    again.set_step(1);
    auto refused = worker.CallRaw(again);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("step: 1 does not follow 1"));
  }
  TestWorker worker(harness.address());
  worker.Join();
  v1::SessionRequest hello;
  hello.mutable_hello()->set_worker_id(worker.attached().worker_id());
  auto refused = worker.Call(hello);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("hello: only the first"));
}

TEST(Session, AnswersEachRequestOnceAndInOrder) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  worker.Join();
  constexpr uint64_t kRequests = 500;
  std::vector<uint64_t> sent;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kRequests; ++i) {
      v1::SessionRequest request;
      request.set_step(worker.NextStep());
      sent.push_back(request.step());
      ASSERT_TRUE(worker.stream().Write(request));
    }
    worker.stream().WritesDone();
  });
  std::vector<uint64_t> answered;
  for (v1::SessionReply reply; worker.stream().Read(&reply);) answered.push_back(reply.step());
  writer.join();
  EXPECT_EQ(answered, sent);
  EXPECT_TRUE(worker.Finish().ok());
}

TEST(Session, AGoodbyeWithNothingOpenLeavesNothingBehind) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  worker.Join();
  auto opened = worker.Open(SmallOpen(32, 32));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(harness.PoolState().workers(0).sequences(), 1U);
  v1::SessionRequest request;
  request.add_close()->set_sequence_id(opened->sequence_id());
  request.mutable_close(0)->set_lease_epoch(opened->lease_epoch());
  ASSERT_TRUE(worker.Call(request).ok());
  EXPECT_TRUE(worker.End().ok());
  EXPECT_TRUE(Eventually([&] { return harness.PoolState().workers_size() == 0; }));
  const v1::Pool pool = harness.PoolState();
  EXPECT_EQ(pool.free_pages(), pool.total_pages()) << Show(pool);
  // The same process may come again, any number of times.
  for (int i = 0; i < 20; ++i) {
    TestWorker again(harness.address());
    again.Join();
    EXPECT_TRUE(again.End().ok());
  }
  EXPECT_TRUE(Eventually([&] { return harness.PoolState().workers_size() == 0; }));
}

TEST(Session, PagesOfABrokenSessionAreQuarantinedWhileItsProcessLives) {
  ManagerHarness harness;
  uint32_t held = 0;
  uint64_t id = 0;
  {
    TestWorker worker(harness.address());
    worker.Join();
    auto opened = worker.Open(SmallOpen(32, 32));
    ASSERT_TRUE(opened.ok()) << opened.status();
    id = opened->sequence_id();
    held = harness.PoolState().held_pages();
    ASSERT_EQ(held, 2U * 3U);
  }  // the stream is cut; the process, this one, lives on
  EXPECT_TRUE(Eventually([&] { return harness.PoolState().quarantined_pages() == held; }))
      << Show(harness.PoolState());
  const v1::Pool pool = harness.PoolState();
  EXPECT_EQ(pool.free_pages() + pool.quarantined_pages(), pool.total_pages()) << Show(pool);
  EXPECT_EQ(pool.held_pages(), 0U);
  EXPECT_EQ(pool.reserved_pages(), 0U);
  EXPECT_EQ(pool.sequences(), 0U);
  grpc::ClientContext context;
  v1::GetSequenceRequest request;
  request.set_sequence_id(id);
  v1::GetSequenceResponse response;
  EXPECT_EQ(harness.admin().GetSequence(&context, request, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  // Others go on with what is left, and an orderly one does not free what is not its own.
  TestWorker next(harness.address());
  next.Join();
  EXPECT_TRUE(next.Open(SmallOpen(32, 32)).ok());
  EXPECT_EQ(harness.PoolState().quarantined_pages(), held);
  EXPECT_TRUE(cache::Inspector(harness.coordinator()).CheckInvariants().ok());
}

TEST(Session, ASilentWorkerLosesItsLease) {
  ManualClock clock;
  ManagerHarness harness({.lease_ttl = absl::Milliseconds(100), .clock = &clock});
  TestWorker silent(harness.address());
  TestWorker lively(harness.address());
  TestWorker unfetched(harness.address());
  silent.Join();
  lively.Join();
  ASSERT_TRUE(unfetched.Attach().ok());
  ASSERT_TRUE(silent.Open(SmallOpen(32, 32)).ok());
  ASSERT_TRUE(lively.Open(SmallOpen(32, 32)).ok());
  EXPECT_EQ(harness.PoolState().workers_size(), 3);
  clock.Advance(absl::Milliseconds(60));
  ASSERT_TRUE(lively.Call().ok());  // a heartbeat
  clock.Advance(absl::Milliseconds(60));
  ASSERT_TRUE(Eventually([&] { return harness.PoolState().workers_size() == 1; }))
      << Show(harness.PoolState());
  EXPECT_EQ(harness.PoolState().workers(0).worker_id(), lively.attached().worker_id());
  EXPECT_EQ(harness.PoolState().quarantined_pages(), 6U);
  EXPECT_EQ(harness.PoolState().held_pages(), 6U);
  EXPECT_TRUE(lively.Call().ok());
  auto late = silent.Call();
  EXPECT_FALSE(late.ok());
  // Neither token of a fenced worker is good for anything.
  EXPECT_EQ(unfetched.Fetch().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(unfetched.Begin().code(), absl::StatusCode::kNotFound);
}

TEST(Admin, ShowsSequencesWithTheirTables) {
  ManagerHarness harness;
  TestWorker worker(harness.address());
  worker.Join();
  v1::OpenSequence open = SmallOpen(40, 100, 48);
  open.set_label("a question");
  auto opened = worker.Open(open);
  ASSERT_TRUE(opened.ok()) << opened.status();
  auto other = worker.Open(SmallOpen(16, 1));
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_EQ(worker.Commit(*opened, 20, 0)->failed_size(), 0);

  grpc::ClientContext context;
  v1::ListSequencesResponse list;
  ASSERT_TRUE(harness.admin().ListSequences(&context, {}, &list).ok());
  ASSERT_EQ(list.sequences_size(), 2);
  EXPECT_LT(list.sequences(0).sequence_id(), list.sequences(1).sequence_id());
  const v1::GetSequenceResponse detail = harness.SequenceState(opened->sequence_id());
  EXPECT_EQ(detail.sequence().label(), "a question");
  EXPECT_EQ(detail.sequence().worker_id(), worker.attached().worker_id());
  EXPECT_EQ(detail.sequence().state(), v1::SEQUENCE_STATE_PREFILL);
  EXPECT_EQ(detail.sequence().logical_length(), 20U);
  EXPECT_EQ(detail.sequence().resident_tokens(), 20U);
  EXPECT_EQ(detail.sequence().held_pages(), 8U);
  EXPECT_EQ(detail.sequence().held_bytes(), 8 * kSmallPageBytes);
  EXPECT_TRUE(detail.sequence().cache().policy().has_paged_eviction());
  ASSERT_EQ(detail.layers_size(), 2);
  for (int layer = 0; layer < 2; ++layer) {
    ASSERT_EQ(detail.layers(layer).pages_size(), opened->layers(layer).pages_size());
    for (int i = 0; i < detail.layers(layer).pages_size(); ++i) {
      EXPECT_EQ(detail.layers(layer).pages(i).page(), opened->layers(layer).pages(i));
      EXPECT_EQ(detail.layers(layer).pages(i).generation(), opened->layers(layer).generations(i));
    }
    ASSERT_EQ(detail.layers(layer).kept_size(), 1);
    EXPECT_EQ(detail.layers(layer).kept(0).end(), 20U);
  }
  EXPECT_EQ(harness.PoolState().sequences(), 2U);
}

}  // namespace
}  // namespace folio::testing
