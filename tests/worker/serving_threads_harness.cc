#include "tests/worker/serving_threads_harness.h"

#include <gmock/gmock.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "services/base/check.h"
#include "services/base/steady_time.h"
#include "services/cache/inspector.h"
#include "services/client/policy_text.h"
#include "services/runtime/logging.h"
#include "services/worker/access_log.h"
#include "services/worker/serving_metrics.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

// Far above everything that should happen, and far below what a hang would take.
constexpr absl::Duration kLong = absl::Seconds(60);

}  // namespace

v1::GenerateRequest Repeatable(const std::string& policy, uint32_t budget, uint32_t prompt,
                               uint32_t max_tokens) {
  v1::GenerateRequest request;
  for (uint32_t i = 0; i < prompt; ++i) {
    request.mutable_input()->mutable_tokens()->add_ids(3 + (i * 7 + prompt) % 40);
  }
  request.set_max_tokens(max_tokens);
  request.set_ignore_eos(true);
  request.mutable_sampling()->set_temperature(0.8F);
  request.mutable_sampling()->set_seed(prompt);
  *request.mutable_cache()->mutable_policy() = *client::ParsePolicy(policy);
  request.mutable_cache()->set_budget_tokens(budget);
  request.mutable_cache()->set_eviction_mode(v1::EVICTION_MODE_SYNCHRONOUS);
  request.set_tenant(prompt < 60 ? "one" : "other");
  return request;
}

void ServingThreadsTest::SetUpTestSuite() {
  static const bool once = [] {
    log::WriteInBackground();
    return true;
  }();
  (void)once;
}

void ServingThreadsTest::SetUp() {
  StartManager();
  ServingOptions options;
  options.manager = Address("manager");
  options.worker_name = "test";
  options.attach_timeout = kLong;
  options.token_budget = {.alone = 64, .beside_decodes = 32};
  options.max_batch = 4;  // fewer than clients, so that requests wait
  options.step_timeout = {kLong};
  serving_ = std::make_unique<Serving>(options, &TinyLoadedModel(), &queue_);
  ASSERT_EQ(serving_->Start([] { return false; }), absl::OkStatus());
  service_ = std::make_unique<InferenceService>(
      TinyLimits(), TinyLoadedModel().description(), &queue_, kSlowClient,
      [this](const AccessRecord& record) { OnEnded(record); });
  GrpcServerOptions server;
  server.listen = {*ParseListenAddress(WorkerAddress())};
  server.services = {service_.get()};
  server.connections = &connections_;
  auto started = GrpcServer::Start(server);
  ASSERT_TRUE(started.ok()) << started.status();
  server_ = *std::move(started);
  AwaitServing();
  for (const v1::GenerateRequest& request :
       {Repeatable("full", 0, 30, 100), Repeatable("paged_eviction", 48, 90, 40),
        Repeatable("streaming_llm", 32, 50, 60), Repeatable("query_diff:window=4", 48, 100, 20)}) {
    const auto answer = Connect()->Complete(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    questions_.push_back({request, answer->tokens});
  }
}

void ServingThreadsTest::StartManager() {
  manager::ServerOptions options;
  options.listen = {*ParseListenAddress(Address("manager"))};
  options.export_socket = scratch_.File("export");
  options.pages = &memory_;
  // 256 tokens, which is less than the clients' requests need together, and as many in swap memory.
  options.pool_size = {.bytes = 64 << 10};
  options.rules.host_swap_bytes = 72 << 10;
  options.rules.admission = cache::Admission::kOptimistic;
  options.rules.lease_ttl = kLong;
  options.clock = &clock_;
  auto started = manager::Server::Start(options);
  ASSERT_TRUE(started.ok()) << started.status();
  absl::MutexLock lock(&manager_mutex_);
  manager_ = *std::move(started);
}

void ServingThreadsTest::LoseManager() {
  absl::MutexLock lock(&manager_mutex_);
  manager_.reset();
}

void ServingThreadsTest::AwaitServing() {
  const auto attached = [this] {
    absl::MutexLock lock(&manager_mutex_);
    const auto pool = manager_->registry().pool();
    return pool != nullptr && !cache::Inspector(pool->coordinator()).pool().workers.empty();
  };
  const SteadyTime deadline = SteadyNow() + kLong;
  while (!attached() || !serving_->serving()) {
    ASSERT_LT(SteadyNow(), deadline);
    absl::SleepFor(absl::Milliseconds(5));
  }
}

void ServingThreadsTest::ExpectAllPagesFree() {
  absl::MutexLock lock(&manager_mutex_);
  const auto held = manager_->registry().pool();
  const cache::PoolInfo pool = cache::Inspector(held->coordinator()).pool();
  EXPECT_EQ(pool.free, pool.total);
  EXPECT_EQ(pool.sequences, 0U);
  EXPECT_EQ(pool.free_swap_slots, held->swap_slots());
}

std::unique_ptr<client::Client> ServingThreadsTest::Connect() const {
  client::ConnectOptions options;
  options.timeout = kLong;
  options.keepalive = absl::ZeroDuration();  // a machine that is very busy may take long
  auto client = client::Client::Connect(WorkerAddress(), options);
  EXPECT_TRUE(client.ok()) << client.status();
  FOLIO_CHECK(client.ok());
  return *std::move(client);
}

void ServingThreadsTest::WithClients(const std::function<void(client::Client&, std::mt19937&)>& act,
                                     const std::function<void()>& meanwhile) {
  std::atomic<bool> stop = false;
  const std::shared_ptr<client::Client> shared = Connect();
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      const std::shared_ptr<client::Client> own = i % 2 == 0 ? shared : Connect();
      for (; !stop; ++acts_) act(*own, random);
    });
  }
  threads.emplace_back([&] {
    while (!stop) Look();
  });
  meanwhile();
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

void ServingThreadsTest::AwaitActs(int acts) const {
  const int until = acts_ + acts;
  while (acts_ < until) absl::SleepFor(absl::Milliseconds(5));
}

void ServingThreadsTest::AwaitSwap() const {
  const SteadyTime deadline = SteadyNow() + kLong;
  while (!swapped_) {
    ASSERT_LT(SteadyNow(), deadline);
    absl::SleepFor(absl::Milliseconds(5));
  }
}

void ServingThreadsTest::OnEnded(const AccessRecord& record) {
  WriteAccessLine(record);
  absl::MutexLock lock(&ended_mutex_);
  ended_labels_.push_back(record.label);
}

size_t ServingThreadsTest::ended_calls() {
  absl::MutexLock lock(&ended_mutex_);
  return ended_labels_.size();
}

void ServingThreadsTest::AwaitEnd(const std::string& label) {
  const auto ended = [this, &label] {
    absl::MutexLock lock(&ended_mutex_);
    return std::find(ended_labels_.begin(), ended_labels_.end(), label) != ended_labels_.end();
  };
  while (!ended()) absl::SleepFor(absl::Milliseconds(5));
}

void ServingThreadsTest::Look() {
  absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(ServingMetrics("tiny", serving_.get()).Collect().empty());
  EXPECT_FALSE(service_->metrics().registry()->Collect().empty());
  EXPECT_TRUE(serving_->watchdog().progressing());
  serving_->watchdog().LogStandstill();
  EXPECT_TRUE(log::Flush(kLong));
  absl::MutexLock lock(&manager_mutex_);
  const auto pool = manager_ == nullptr ? nullptr : manager_->registry().pool();
  if (pool == nullptr) return;
  const cache::Inspector inspector(pool->coordinator());
  EXPECT_EQ(inspector.CheckInvariants(), absl::OkStatus());
  if (inspector.pool().free_swap_slots < pool->swap_slots()) swapped_ = true;
  for (const cache::SequenceInfo& info : inspector.sequences()) {
    (void)inspector.sequence(info.id);
  }
}

void ServingThreadsTest::RunWhole(client::Client& client, std::mt19937& random,
                                  const std::vector<absl::StatusCode>& ends,
                                  absl::Duration resume) const {
  const Question& question = Any(random);
  client::CallOptions options;
  options.resume = resume;
  const auto answer = client.Complete(question.request, options);
  if (answer.ok()) {
    EXPECT_EQ(answer->tokens, question.tokens);
  } else {
    EXPECT_THAT(ends, ::testing::Contains(answer.status().code())) << answer.status();
  }
}

}  // namespace folio::worker::testing
