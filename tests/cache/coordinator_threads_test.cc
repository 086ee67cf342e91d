// Several workers at once, a reaper that kills some of them, and an observer: what ThreadSanitizer
// looks at, and whether every page comes home.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

constexpr int kWorkers = 4;

policy::CacheConfig RandomCache(std::mt19937& random) {
  const auto mode =
      random() % 2 == 0 ? policy::EvictionMode::kPipelined : policy::EvictionMode::kSynchronous;
  switch (random() % 3) {
    case 0:
      return FullCache();
    case 1:
      return Cache(policy::PagedEvictionSpec(), 8 + 4 * (random() % 3), 4, 4, mode);
    default:
      return Cache(policy::StreamingLlmSpec(), 8 + 4 * (random() % 3), 4, 4, mode);
  }
}

// Writes scores where the coming tokens go, commits them, and obeys the plans, until the sequence
// is done or the worker was fenced.
void Live(Harness& harness, WorkerId worker, std::mt19937& random) {
  const uint32_t prompt = 1 + random() % 30;
  const uint32_t max_new = random() % 30;
  const OpenRequest request = Request(worker, prompt, max_new, RandomCache(random));
  absl::StatusOr<Opened> opened = harness.coordinator->Open(request);
  if (!opened.ok()) {
    ASSERT_FALSE(absl::IsInvalidArgument(opened.status())) << opened.status();
    return;
  }
  WorkerSequence s(*harness.coordinator, request, *opened);
  while (s.logical < prompt + max_new) {
    const bool waits =
        s.plan.has_value() && (s.Room() == 0 || s.logical == prompt ||
                               request.cache.mode == policy::EvictionMode::kSynchronous);
    absl::StatusOr<Outcome> outcome = absl::InternalError("");
    if (waits || (s.plan.has_value() && random() % 3 == 0)) {
      outcome = s.Ack();
    } else {
      const uint32_t tokens = s.logical < prompt ? 1 + random() % (prompt - s.logical) : 1;
      for (size_t layer = 0; layer < s.tables.size(); ++layer) {
        for (uint32_t t = s.resident[layer]; t < s.resident[layer] + tokens; ++t) {
          harness.Score(s.tables[layer][t / 4], t % 4, static_cast<float>(random() % 100));
        }
      }
      outcome = s.Commit(tokens);
    }
    if (!outcome.ok()) {
      // Only being fenced ends an obedient worker's sequence early.
      ASSERT_TRUE(absl::IsFailedPrecondition(outcome.status()) ||
                  absl::IsNotFound(outcome.status()))
          << outcome.status();
      ASSERT_FALSE(harness.coordinator->Renew(worker).ok()) << outcome.status();
      return;
    }
    if (random() % 64 == 0) break;  // cancelled
  }
  const absl::Status closed = s.Close();
  ASSERT_TRUE(closed.ok() || !harness.coordinator->Renew(worker).ok()) << closed;
}

TEST(CoordinatorThreads, PagesComeHomeWhateverHappens) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  Harness harness({.pages = 96});
  std::atomic<bool> done = false;
  std::atomic<uint64_t> names[kWorkers] = {};
  std::vector<std::thread> workers;
  workers.reserve(kWorkers);
  for (int i = 0; i < kWorkers; ++i) {
    workers.emplace_back([&, i] {
      std::mt19937 random(seed + i);
      WorkerId id = harness.coordinator->AddWorker("w");
      names[i] = id.value();
      for (int round = 0; round < 1000; ++round) {
        Live(harness, id, random);
        if (!harness.coordinator->Renew(id).ok()) {
          // This process is gone; another one takes its place.
          harness.coordinator->ConfirmExited(id);
          id = harness.coordinator->AddWorker("w");
          names[i] = id.value();
        }
      }
      harness.coordinator->FenceWorker(id, /*quiesced=*/true);
    });
  }
  std::thread reaper([&] {
    std::mt19937 random(seed + 100);
    while (!done) {
      harness.coordinator->FenceWorker(WorkerId(names[random() % kWorkers]), false);
      harness.clock.Advance(absl::Seconds(random() % 3));
      harness.coordinator->FenceExpired();
      absl::SleepFor(absl::Microseconds(500));
    }
  });
  std::thread observer([&] {
    while (!done) {
      const absl::Status status = harness.inspector().CheckInvariants();
      ASSERT_TRUE(status.ok()) << status;
      for (const SequenceInfo& info : harness.inspector().sequences()) {
        const auto detail = harness.inspector().sequence(info.id);
        ASSERT_TRUE(detail.ok() || absl::IsNotFound(detail.status()));
      }
      const PoolInfo pool = harness.inspector().pool();
      ASSERT_EQ(pool.free + pool.held + pool.quarantined, pool.total);
      absl::SleepFor(absl::Microseconds(100));
    }
  });
  for (std::thread& worker : workers) worker.join();
  done = true;
  reaper.join();
  observer.join();
  const PoolInfo pool = harness.inspector().pool();
  EXPECT_EQ(pool.free, pool.total);
  EXPECT_EQ(pool.sequences, 0U);
  EXPECT_EQ(harness.inspector().CheckInvariants(), absl::OkStatus());
}

}  // namespace
}  // namespace folio::cache
