// The log of events: what it keeps, and what watchers are told who are late, slow or many.
#include "services/manager/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace folio::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EventKindSet All() { return EventKindSet().set(); }

EventKindSet Only(EventKind kind) { return EventKindSet().set(static_cast<size_t>(kind)); }

Event Fenced(uint64_t worker) {
  return {.kind = EventKind::kWorkerFenced, .worker = WorkerId(worker), .text = "lease ran out"};
}

Event OpenedEvent(uint64_t sequence) {
  return {.kind = EventKind::kSequenceOpened, .sequence = SequenceId(sequence)};
}

std::unique_ptr<EventWatch> MustWatch(EventLog& log, const EventKindSet& kinds,
                                      uint64_t after = 0) {
  auto watch = log.Watch(kinds, after);
  EXPECT_TRUE(watch.ok()) << watch.status();
  return *std::move(watch);
}

// The watcher does not wait.
EventBatch Now(EventWatch& watch) { return watch.Next(SteadyNow()); }

std::vector<uint64_t> Numbers(const EventBatch& batch) {
  std::vector<uint64_t> numbers;
  for (const auto& event : batch.events) numbers.push_back(event->number);
  return numbers;
}

TEST(EventLog, NumbersGrowByOneAndTimesDoNotGoBack) {
  EventLog log;
  EXPECT_EQ(log.newest(), 0);
  for (uint64_t i = 0; i < 5; ++i) log.Append(i % 2 == 0 ? Fenced(i) : OpenedEvent(i));
  EXPECT_EQ(log.newest(), 5);
  const EventBatch batch = Now(*MustWatch(log, All()));
  EXPECT_THAT(Numbers(batch), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(batch.lost, 0);
  EXPECT_FALSE(batch.last);
  EXPECT_EQ(batch.events[1]->sequence, SequenceId(1));
  EXPECT_EQ(batch.events[2]->worker, WorkerId(2));
  EXPECT_GT(batch.events[0]->time_us, 1'600'000'000'000'000) << "microseconds since 1970";
  EXPECT_GE(batch.events[4]->time_us, batch.events[0]->time_us);
}

TEST(EventLog, AWatcherGetsEachEventOnce) {
  EventLog log;
  const auto watch = MustWatch(log, All());
  log.Append(Fenced(1));
  EXPECT_THAT(Numbers(Now(*watch)), ElementsAre(1));
  EXPECT_THAT(Numbers(Now(*watch)), IsEmpty());
  log.Append(Fenced(2));
  log.Append(OpenedEvent(3));
  EXPECT_THAT(Numbers(Now(*watch)), ElementsAre(2, 3));
}

TEST(EventLog, AWatcherSeesItsKindsAlone) {
  EventLog log;
  for (uint64_t i = 1; i <= 6; ++i) log.Append(i % 3 == 0 ? Fenced(i) : OpenedEvent(i));
  EXPECT_THAT(Numbers(Now(*MustWatch(log, Only(EventKind::kWorkerFenced)))), ElementsAre(3, 6));
  EXPECT_THAT(Numbers(Now(*MustWatch(log, Only(EventKind::kSequenceOpened), 3))),
              ElementsAre(4, 5));
  EXPECT_THAT(Numbers(Now(*MustWatch(log, Only(EventKind::kDraining)))), IsEmpty());
}

TEST(EventLog, AfterContinuesBehindAnyEvent) {
  EventLog log;
  for (uint64_t i = 1; i <= 4; ++i) log.Append(Fenced(i));
  EXPECT_THAT(Numbers(Now(*MustWatch(log, All(), 2))), ElementsAre(3, 4));
  EXPECT_THAT(Numbers(Now(*MustWatch(log, All(), 4))), IsEmpty());
  const auto beyond = log.Watch(All(), 5);
  EXPECT_EQ(beyond.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(beyond.status().message(), HasSubstr("after: 5 is beyond the newest event, 4"));
}

TEST(EventLog, AFloodOfOneKindDropsNoOther) {
  EventLog log({.events_of_a_kind = 8, .watches = 4});
  log.Append(Fenced(1));
  for (uint64_t i = 0; i < 1000; ++i) log.Append(OpenedEvent(i));
  EXPECT_THAT(Numbers(Now(*MustWatch(log, Only(EventKind::kWorkerFenced)))), ElementsAre(1));
  const EventBatch all = Now(*MustWatch(log, All()));
  EXPECT_EQ(all.lost, 992);
  EXPECT_THAT(Numbers(all), ElementsAre(1, 994, 995, 996, 997, 998, 999, 1000, 1001));
}

TEST(EventLog, ASlowWatcherIsToldHowManyItLost) {
  EventLog log({.events_of_a_kind = 4, .watches = 4});
  const auto watch = MustWatch(log, Only(EventKind::kSequenceOpened));
  log.Append(OpenedEvent(0));
  EXPECT_THAT(Numbers(Now(*watch)), ElementsAre(1));
  for (uint64_t i = 0; i < 10; ++i) {
    log.Append(OpenedEvent(i));
    log.Append(Fenced(i));  // of no concern to it
  }
  const EventBatch batch = Now(*watch);
  EXPECT_EQ(batch.lost, 6);
  EXPECT_THAT(Numbers(batch), ElementsAre(14, 16, 18, 20));
  const EventBatch next = Now(*watch);
  EXPECT_EQ(next.lost, 0) << "it is told once";
  EXPECT_THAT(Numbers(next), IsEmpty());
}

TEST(EventLog, OneThatAsksForOldEventsIsToldHowManyAreGone) {
  EventLog log({.events_of_a_kind = 4, .watches = 4});
  for (uint64_t i = 0; i < 10; ++i) log.Append(OpenedEvent(i));
  EXPECT_EQ(Now(*MustWatch(log, All(), 0)).lost, 6);
  EXPECT_EQ(Now(*MustWatch(log, All(), 2)).lost, 4);
  EXPECT_EQ(Now(*MustWatch(log, All(), 6)).lost, 0);
  EXPECT_THAT(Numbers(Now(*MustWatch(log, All(), 2))), ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(Numbers(Now(*MustWatch(log, All(), 8))), ElementsAre(9, 10));
}

TEST(EventLog, BatchesAreBoundedAndLoseNothing) {
  EventLog log;
  for (uint64_t i = 0; i < 2 * EventWatch::kMostAtOnce + 5; ++i) log.Append(OpenedEvent(i));
  const auto watch = MustWatch(log, All());
  uint64_t expected = 0;
  for (const size_t size : {EventWatch::kMostAtOnce, EventWatch::kMostAtOnce, size_t{5}}) {
    const EventBatch batch = Now(*watch);
    ASSERT_EQ(batch.events.size(), size);
    for (const uint64_t number : Numbers(batch)) EXPECT_EQ(number, ++expected);
  }
}

TEST(EventLog, NextWaitsForAnEvent) {
  EventLog log;
  const auto watch = MustWatch(log, Only(EventKind::kWorkerFenced));
  std::thread other([&] {
    log.Append(OpenedEvent(1));
    log.Append(Fenced(2));
  });
  EXPECT_THAT(Numbers(watch->Next(SteadyTime::InfiniteFuture())), ElementsAre(2));
  other.join();
}

TEST(EventLog, CloseEndsWatchesOnceTheyHaveSeenAll) {
  EventLog log;
  const auto watch = MustWatch(log, All());
  for (uint64_t i = 0; i < EventWatch::kMostAtOnce; ++i) log.Append(Fenced(i));
  log.Close(absl::ZeroDuration());
  const EventBatch full = watch->Next(SteadyTime::InfiniteFuture());
  EXPECT_EQ(full.events.size(), EventWatch::kMostAtOnce);
  EXPECT_FALSE(full.last);
  EXPECT_TRUE(watch->Next(SteadyTime::InfiniteFuture()).last);
  EXPECT_TRUE(MustWatch(log, Only(EventKind::kDraining))->Next(SteadyTime::InfiniteFuture()).last);
}

TEST(EventLog, CloseWakesAWatchThatWaitsAndAwaitsItsEnd) {
  EventLog log;
  auto watch = MustWatch(log, All());
  std::thread other([&] {
    EXPECT_TRUE(watch->Next(SteadyTime::InfiniteFuture()).last);
    watch.reset();
  });
  const SteadyTime start = SteadyNow();
  log.Close(absl::Minutes(1));
  EXPECT_EQ(watch, nullptr);
  EXPECT_LT(SteadyNow() - start, absl::Minutes(1));
  other.join();
}

TEST(EventLog, CloseDoesNotWaitForeverForAWatch) {
  EventLog log;
  const auto watch = MustWatch(log, All());
  const SteadyTime start = SteadyNow();
  log.Close(absl::Milliseconds(20));
  EXPECT_GE(SteadyNow() - start, absl::Milliseconds(20));
}

TEST(EventLog, WatchesAreBounded) {
  EventLog log({.events_of_a_kind = 4, .watches = 2});
  const auto first = MustWatch(log, All());
  auto second = MustWatch(log, All());
  const auto third = log.Watch(All(), 0);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(third.status().message(), HasSubstr("2 streams of events are open"));
  EXPECT_THAT(third.status().message(), HasSubstr("end one of them"));
  second.reset();
  MustWatch(log, All());
}

TEST(EventLog, TextsThatOthersChooseAreCut) {
  EventLog log;
  // 511 bytes and then characters of two bytes, so that the cut would fall into one.
  std::string text(511, 'x');
  for (int i = 0; i < 1000; ++i) text += "\xC3\xA4";
  log.Append(
      {.kind = EventKind::kAttachRefused, .worker_name = std::string(5000, 'n'), .text = text});
  const EventBatch batch = Now(*MustWatch(log, All()));
  EXPECT_EQ(*batch.events[0]->text, std::string(511, 'x') + "...");
  EXPECT_EQ(batch.events[0]->worker_name->size(), 515);
}

TEST(EventLog, ManyThreadsAppendWhileOthersWatch) {
  constexpr uint64_t kThreads = 3;
  constexpr uint64_t kEach = 3000;
  EventLog log({.events_of_a_kind = 100, .watches = 2});
  uint64_t seen = 0;
  uint64_t lost = 0;
  uint64_t last_number = 0;
  const auto watch = MustWatch(log, Only(EventKind::kSequenceOpened));
  std::thread watcher([&] {
    while (true) {
      const EventBatch batch = watch->Next(SteadyTime::InfiniteFuture());
      lost += batch.lost;
      seen += batch.events.size();
      for (const uint64_t number : Numbers(batch)) {
        EXPECT_GT(number, last_number);
        last_number = number;
      }
      if (batch.last) break;
    }
  });
  std::vector<std::thread> writers;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    writers.emplace_back([&log] {
      for (uint64_t i = 0; i < kEach; ++i) {
        log.Append(OpenedEvent(i));
        if (i % 10 == 0) log.Append(Fenced(i));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  log.Close(absl::ZeroDuration());
  watcher.join();
  EXPECT_EQ(seen + lost, kThreads * kEach) << "each event is seen or said to be lost";
  EXPECT_EQ(log.newest(), kThreads * (kEach + kEach / 10));
}

}  // namespace
}  // namespace folio::manager
