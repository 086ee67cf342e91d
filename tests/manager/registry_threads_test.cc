// Workers that come, talk and go from several threads, without gRPC in between: what
// ThreadSanitizer looks at in the registry, the process watch, the pool and the session translator.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "services/base/clock.h"
#include "services/base/protocol.h"
#include "services/cache/inspector.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/session_translator.h"
#include "services/manager/worker_registry.h"
#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"
#include "tests/manager/translate_message.h"

namespace folio::manager {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 25;
constexpr uint32_t kPrompt = 20;

// Opens a sequence and decodes some tokens; false once the worker is fenced.
bool Talk(SessionTranslator& session, uint64_t& step, std::mt19937& random) {
  v1::SessionRequest request;
  request.set_step(++step);
  *request.add_open() = testing::SmallOpen(kPrompt, 8);
  absl::StatusOr<v1::SessionReply> reply = testing::TranslateMessage(session, request);
  if (!reply.ok() || reply->opened_size() != 1 || reply->opened(0).code() != 0) return reply.ok();
  const v1::OpenResult opened = reply->opened(0);
  const uint32_t decoded = random() % 8;
  for (uint32_t length = kPrompt; length <= kPrompt + decoded; ++length) {
    request.Clear();
    request.set_step(++step);
    v1::CommitTokens* commit = request.add_commit();
    commit->set_sequence_id(opened.sequence_id());
    commit->set_lease_epoch(opened.lease_epoch());
    commit->set_logical_length(length);
    commit->add_sampled_tokens(7);
    reply = testing::TranslateMessage(session, request);
    if (!reply.ok()) return false;
    EXPECT_EQ(reply->failed_size(), 0) << reply->failed(0).message();
  }
  if (random() % 2 == 0) return true;  // left open: what the end of the session has to cope with
  request.Clear();
  request.set_step(++step);
  v1::CloseSequence* close = request.add_close();
  close->set_sequence_id(opened.sequence_id());
  close->set_lease_epoch(opened.lease_epoch());
  close->set_reason(v1::CLOSE_REASON_FINISHED);
  return testing::TranslateMessage(session, request).ok();
}

// One worker, from its process's start to its end.
void Live(WorkerRegistry& registry, EventLog& events, std::mt19937& random) {
  auto process =
      std::make_unique<testing::ChildProcess>(std::vector<std::string>{"/bin/sleep", "60"});
  v1::AttachRequest request;
  request.set_protocol_version(kProtocolVersion);
  *request.mutable_layout() = testing::SmallLayout();
  const auto attached = registry.Attach(request);
  ASSERT_TRUE(attached.ok()) << attached.status();
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process->pid(), 0)));
  ASSERT_TRUE(pidfd.valid());
  const auto pool = registry.RedeemExportToken(attached->export_token(),
                                               {process->pid(), std::move(pidfd), UniqueFd()});
  if (!pool.ok()) return;  // its lease ran out before
  v1::SessionHello hello;
  hello.set_worker_id(attached->worker_id());
  hello.set_session_token(attached->session_token());
  // Ends before the session's end returns, or a late call would find it gone.
  auto cancelled = std::make_unique<std::atomic<bool>>(false);
  const auto begun = registry.BeginSession(hello, [flag = cancelled.get()] { *flag = true; });
  if (!begun.ok()) return;
  EXPECT_EQ(testing::PidOf(registry, begun->worker), process->pid());

  SessionTranslator session(
      begun->pool->coordinator(), begun->worker, CacheRules{16, 2, {}},
      [&] { return registry.drains().MayOpen(); }, &events);
  uint64_t step = 0;
  const uint32_t sequences = random() % 6;
  for (uint32_t i = 0; i < sequences && Talk(session, step, random); ++i) {
  }
  switch (random() % 3) {
    case 0:  // dies in the middle of its session
      process.reset();
      EXPECT_TRUE(testing::Eventually([&] { return cancelled->load(); }));
      break;
    case 1:  // says nothing until its lease has run out
      EXPECT_TRUE(testing::Eventually([&] { return cancelled->load(); }));
      break;
    default:  // a goodbye
      break;
  }
  registry.EndSession(begun->worker);
}

TEST(RegistryThreads, PagesComeHomeWhateverWorkersDo) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  const RealClock clock;
  const HostMemory memory;
  EventLog events;
  WorkerRegistry registry({.pages = &memory,
                           .pool_size = {.bytes = 128 * testing::kSmallPageBytes},
                           .rules = {.lease_ttl = absl::Milliseconds(100)},
                           .kill_fenced_after = absl::Milliseconds(20),
                           .export_socket = "none",
                           .clock = &clock,
                           .event_log = &events});
  std::atomic<bool> done = false;
  std::vector<std::thread> workers;
  workers.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    workers.emplace_back([&, i] {
      std::mt19937 random(seed + i);
      for (int round = 0; round < kRounds; ++round) Live(registry, events, random);
    });
  }
  std::thread reaper([&] {
    while (!done) {
      registry.ExpireLeases();
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  std::thread observer([&] {
    while (!done) {
      registry.RunningSequences();
      for (const WorkerReport& report : registry.Workers()) EXPECT_EQ(report.ranks.size(), 1U);
      if (const auto pool = registry.pool(); pool != nullptr) {
        EXPECT_EQ(cache::Inspector(pool->coordinator()).CheckInvariants(), absl::OkStatus());
      }
      absl::SleepFor(absl::Microseconds(200));
    }
  });
  uint64_t attached = 0;
  uint64_t gone = 0;
  std::thread operators([&] {
    const auto watch = *events.Watch(EventKindSet().set(), 0);
    for (EventBatch batch; !batch.last;) {
      batch = watch->Next(SteadyTime::InfiniteFuture());
      EXPECT_EQ(batch.lost, 0U);
      for (const auto& event : batch.events) {
        attached += event->kind == EventKind::kWorkerAttached ? 1 : 0;
        gone += event->kind == EventKind::kWorkerGone ? 1 : 0;
      }
    }
  });
  for (std::thread& worker : workers) worker.join();
  const std::shared_ptr<const Pool> pool = registry.pool();
  EXPECT_TRUE(testing::Eventually([&] {
    const cache::PoolInfo now = cache::Inspector(pool->coordinator()).pool();
    return now.free == now.total && now.sequences == 0;
  }));
  done = true;
  reaper.join();
  observer.join();
  events.Close(absl::ZeroDuration());
  operators.join();
  EXPECT_EQ(cache::Inspector(pool->coordinator()).CheckInvariants(), absl::OkStatus());
  EXPECT_EQ(attached, uint64_t{kThreads} * kRounds);
  EXPECT_LE(gone, attached);
  EXPECT_EQ(attached - gone, registry.Workers().size()) << "each is told to be gone, or is there";
}

}  // namespace
}  // namespace folio::manager
