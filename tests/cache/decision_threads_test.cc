#include "services/cache/decision_threads.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace folio::cache {
namespace {

TEST(DecisionThreads, EachPartRunsOnce) {
  for (const uint32_t count : {0U, 1U, 2U, 100U}) {
    for (const uint32_t helpers : {0U, 1U, 3U}) {
      DecisionThreads threads(helpers);
      EXPECT_EQ(threads.threads(), helpers);
      std::vector<std::atomic<int>> runs(count);
      threads.Run(count, [&](uint32_t part) { ++runs[part]; });
      for (const auto& one : runs)
        EXPECT_EQ(one, 1) << count << " parts, " << helpers << " threads";
    }
  }
}

// Two parts that wait for each other end only if two threads run them.
TEST(DecisionThreads, PartsRunSideBySide) {
  DecisionThreads threads(1);
  absl::Notification begun[2];
  threads.Run(2, [&](uint32_t part) {
    begun[part].Notify();
    begun[1 - part].WaitForNotification();
  });
}

TEST(DecisionThreads, ACallerDoesNotWaitForThreadsThatAreBusyElsewhere) {
  DecisionThreads threads(1);
  absl::Notification busy, release;
  std::thread other([&] {
    threads.Run(2, [&](uint32_t part) {
      if (part == 0) busy.Notify();
      release.WaitForNotification();
    });
  });
  busy.WaitForNotification();
  std::atomic<int> runs = 0;
  threads.Run(8, [&](uint32_t) { ++runs; });
  EXPECT_EQ(runs, 8);
  release.Notify();
  other.join();
}

TEST(DecisionThreads, ManyCallersShareThem) {
  DecisionThreads threads(2);
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::vector<int> runs(7);  // each part writes its own
        threads.Run(7, [&](uint32_t part) { ++runs[part]; });
        for (const int one : runs) wrong += one == 1 ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace folio::cache
