// Workers of one model after another at a manager that lives on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/protocol.h"
#include "services/cache/inspector.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/worker_registry.h"
#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::ModelLayout OtherLayout() {
  v1::ModelLayout layout = SmallLayout();
  layout.set_model("other");
  layout.set_fingerprint("aa");
  layout.set_num_layers(3);
  return layout;
}

// A worker in a process of its own, which does nothing but live.
class Worker {
 public:
  Worker(manager::WorkerRegistry& registry, const v1::ModelLayout& layout) : registry_(registry) {
    v1::AttachRequest request;
    request.set_protocol_version(kProtocolVersion);
    *request.mutable_layout() = layout;
    auto attached = registry_.Attach(request);
    status_ = attached.status();
    if (attached.ok()) attached_ = *std::move(attached);
  }
  ~Worker() {
    if (session_ != nullptr) registry_.EndSession(session_->worker);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const absl::Status& status() const { return status_; }
  absl::Status Fetch() { return FetchAs(std::make_shared<ChildProcess>(kSleep)); }
  absl::Status FetchAs(std::shared_ptr<ChildProcess> process) {
    process_ = std::move(process);
    UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process_->pid(), 0)));
    return registry_
        .RedeemExportToken(attached_.export_token(),
                           {process_->pid(), std::move(pidfd), UniqueFd()})
        .status();
  }
  void Begin() {
    ASSERT_EQ(Fetch(), absl::OkStatus());
    v1::SessionHello hello;
    hello.set_worker_id(attached_.worker_id());
    hello.set_session_token(attached_.session_token());
    auto session = registry_.BeginSession(hello, [] {});
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = std::make_unique<manager::BegunSession>(*std::move(session));
  }
  SequenceId Open(const std::string& resume_token = "") {
    cache::OpenRequest open;
    open.worker = session_->worker;
    open.prompt = {TokenId(1), TokenId(2)};
    open.max_new_tokens = TokenCount(4);
    open.metadata.resume_token = resume_token;
    return session_->pool->coordinator().Open(open)->sequence;
  }
  void EndSession() {
    registry_.EndSession(session_->worker);
    session_.reset();
  }
  std::shared_ptr<ChildProcess> process() { return process_; }
  void Die() { process_.reset(); }
  const v1::AttachResponse& attached() const { return attached_; }
  const std::shared_ptr<const manager::Pool>& pool() const { return session_->pool; }

 private:
  inline static const std::vector<std::string> kSleep = {"/bin/sleep", "60"};
  manager::WorkerRegistry& registry_;
  absl::Status status_;
  v1::AttachResponse attached_;
  std::shared_ptr<ChildProcess> process_;
  std::unique_ptr<manager::BegunSession> session_;
};

class ModelExchangeTest : public ::testing::Test {
 protected:
  std::string Model() const { return registry_.pool()->layout().model(); }
  absl::Status Try(const v1::ModelLayout& layout) { return Worker(registry_, layout).status(); }
  // Attaches with it until that succeeds, as a worker does.
  bool Attaches(const v1::ModelLayout& layout) {
    return Eventually([&] { return Try(layout).ok(); });
  }

  const RealClock clock_;
  const manager::HostMemory memory_;
  manager::WorkerRegistry registry_{
      {.pages = &memory_,
       .pool_size = {.bytes = 128 * kSmallPageBytes},
       .rules = {.lease_ttl = absl::Seconds(60), .orphan_ttl = absl::Milliseconds(300)},
       .export_socket = "none",
       .clock = &clock_}};
};

TEST_F(ModelExchangeTest, ALayoutThatNobodyFetchesKeepsNobodyOut) {
  Worker bogus(registry_, OtherLayout());
  ASSERT_EQ(bogus.status(), absl::OkStatus());
  Worker real(registry_, SmallLayout());
  ASSERT_EQ(real.status(), absl::OkStatus());
  EXPECT_EQ(Model(), "small");
  EXPECT_NE(real.attached().worker_id(), bogus.attached().worker_id());
  EXPECT_EQ(bogus.Fetch().code(), absl::StatusCode::kNotFound);
  real.Begin();
  EXPECT_EQ(cache::Inspector(real.pool()->coordinator()).pool().workers.size(), 1U);
}

TEST_F(ModelExchangeTest, AnAttachedWorkerKeepsItsLayout) {
  Worker worker(registry_, SmallLayout());
  worker.Begin();
  const absl::Status refused = Try(OtherLayout());
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("layout.model: the pool has \"small\", the worker \"other\""),
                    HasSubstr("end the workers of one model"), HasSubstr("now w1")));
  EXPECT_EQ(Model(), "small");
}

TEST_F(ModelExchangeTest, AnotherModelWaitsForTheEndOfTheProcess) {
  Worker worker(registry_, SmallLayout());
  worker.Begin();
  worker.EndSession();  // in order, so nothing is quarantined
  const absl::Status refused = Try(OtherLayout());
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("process ", worker.process()->pid(), " of worker w1")));
  worker.Die();
  EXPECT_TRUE(Attaches(OtherLayout()));
  EXPECT_EQ(Model(), "other");
  const cache::PoolInfo pool = cache::Inspector(registry_.pool()->coordinator()).pool();
  EXPECT_EQ(pool.workers.size(), 1U);
  EXPECT_EQ(pool.free, pool.total);
}

TEST_F(ModelExchangeTest, AProcessThatAttachedManyTimesIsWaitedForOnce) {
  Worker first(registry_, SmallLayout());
  first.Begin();
  first.EndSession();
  for (int again = 0; again < 3; ++again) {
    Worker next(registry_, SmallLayout());
    ASSERT_EQ(next.FetchAs(first.process()), absl::OkStatus());
  }
  EXPECT_FALSE(Try(OtherLayout()).ok());
  first.Die();
  EXPECT_TRUE(Attaches(OtherLayout()));
}

TEST_F(ModelExchangeTest, AnotherModelWaitsForSequences) {
  Worker worker(registry_, SmallLayout());
  worker.Begin();
  const SequenceId sequence = worker.Open("token");
  worker.EndSession();
  worker.Die();
  ASSERT_TRUE(
      Eventually([&] { return !absl::StrContains(Try(OtherLayout()).message(), "mapped"); }));
  const absl::Status refused = Try(OtherLayout());
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("sequences of lost workers (1)"));
  EXPECT_EQ(Model(), "small");
  absl::SleepFor(absl::Milliseconds(300));
  registry_.ExpireLeases();
  ASSERT_TRUE(Attaches(OtherLayout()));
  // No id comes to mean something else.
  Worker other(registry_, OtherLayout());
  other.Begin();
  EXPECT_GT(other.Open(), sequence);
}

TEST_F(ModelExchangeTest, AReaderKeepsThePoolThatItReads) {
  Worker bogus(registry_, OtherLayout());
  std::shared_ptr<const manager::Pool> reader = registry_.pool();
  EXPECT_EQ(Try(SmallLayout()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(cache::Inspector(reader->coordinator()).pool().free.value(), 128U);
  reader.reset();
  EXPECT_EQ(Try(SmallLayout()), absl::OkStatus());
}

TEST_F(ModelExchangeTest, ALayoutThatNoPoolCanHaveReplacesNone) {
  ASSERT_TRUE(Try(SmallLayout()).ok());
  v1::ModelLayout layout = OtherLayout();
  layout.set_num_layers(0);
  EXPECT_EQ(Try(layout).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Model(), "small");
  // One that is only too large for the pool's bytes costs a pool that nobody used.
  layout.set_num_layers(1000);
  EXPECT_EQ(Try(layout).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(registry_.pool(), nullptr);
  EXPECT_EQ(Try(SmallLayout()), absl::OkStatus());
}

}  // namespace
}  // namespace folio::testing
