// A worker in a process of its own is killed, or stopped and then killed: its pages come back when,
// and only when, the process has ended.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "services/cache/inspector.h"
#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"

namespace folio::testing {
namespace {

TEST(WorkerDeath, AKilledWorkersPagesComeBack) {
  ManagerHarness harness;
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, harness.address(), "64"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  v1::Pool pool = harness.PoolState();
  EXPECT_EQ(pool.held_pages(), 2U * 5U);
  ASSERT_EQ(pool.workers_size(), 1);
  EXPECT_EQ(pool.workers(0).pid(), worker.pid());

  worker.Signal(SIGKILL);
  EXPECT_EQ(worker.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(Eventually([&] { return harness.PoolState().free_pages() == pool.total_pages(); }))
      << Show(harness.PoolState());
  pool = harness.PoolState();
  EXPECT_EQ(pool.workers_size(), 0);
  EXPECT_EQ(pool.sequences(), 0U);
  EXPECT_EQ(pool.reserved_pages(), 0U);
  EXPECT_TRUE(cache::Inspector(harness.coordinator()).CheckInvariants().ok());
}

TEST(WorkerDeath, AHungWorkersPagesStayQuarantinedUntilItsEnd) {
  ManagerHarness harness({.lease_ttl = absl::Milliseconds(500)});
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, harness.address(), "64"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  const uint32_t held = harness.PoolState().held_pages();
  ASSERT_EQ(held, 2U * 5U);
  worker.Signal(SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return harness.PoolState().quarantined_pages() == held; }))
      << Show(harness.PoolState());
  v1::Pool pool = harness.PoolState();
  EXPECT_EQ(pool.workers_size(), 0);
  EXPECT_EQ(pool.free_pages(), pool.total_pages() - held);
  // Another worker comes and goes in order; what is quarantined stays so.
  {
    TestWorker other(harness.address());
    other.Join();
    EXPECT_TRUE(other.End().ok());
  }
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(harness.PoolState().quarantined_pages(), held);

  worker.Signal(SIGKILL);
  EXPECT_EQ(worker.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(Eventually([&] { return harness.PoolState().free_pages() == pool.total_pages(); }))
      << Show(harness.PoolState());
}

TEST(WorkerDeath, AHungWorkerIsKilledWhenItsTimeIsOver) {
  ManagerHarness harness(
      {.lease_ttl = absl::Milliseconds(500), .kill_fenced_after = absl::Milliseconds(100)});
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, harness.address(), "64"});
  ChildProcess lives({FOLIO_TEST_WORKER_BINARY, harness.address(), "32"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  ASSERT_NE(lives.ReadUntil("holding sequence"), "") << lives.output();
  worker.Signal(SIGSTOP);
  EXPECT_EQ(worker.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(Eventually([&] { return harness.PoolState().quarantined_pages() == 0; }));
  const v1::Pool pool = harness.PoolState();
  EXPECT_EQ(pool.held_pages(), 2U * 3U) << Show(pool);
  ASSERT_EQ(pool.workers_size(), 1);
  EXPECT_EQ(pool.workers(0).pid(), lives.pid());
}

TEST(WorkerDeath, TheOthersAreNotConcerned) {
  ManagerHarness harness;
  ChildProcess doomed({FOLIO_TEST_WORKER_BINARY, harness.address(), "64"});
  ChildProcess lives({FOLIO_TEST_WORKER_BINARY, harness.address(), "32"});
  ASSERT_NE(doomed.ReadUntil("holding sequence"), "") << doomed.output();
  ASSERT_NE(lives.ReadUntil("holding sequence"), "") << lives.output();
  EXPECT_EQ(harness.PoolState().sequences(), 2U);
  doomed.Signal(SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    const v1::Pool pool = harness.PoolState();
    return pool.sequences() == 1 && pool.quarantined_pages() == 0;
  })) << Show(harness.PoolState());
  const v1::Pool pool = harness.PoolState();
  EXPECT_EQ(pool.held_pages(), 2U * 3U) << Show(pool);
  ASSERT_EQ(pool.workers_size(), 1);
  EXPECT_EQ(pool.workers(0).pid(), lives.pid());
}

TEST(WorkerDeath, AnOrderlyEndIsNoDeath) {
  ManagerHarness harness;
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, harness.address(), "64", "50"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  EXPECT_EQ(worker.Wait(), 0) << worker.output();
  EXPECT_TRUE(Eventually([&] { return harness.PoolState().workers_size() == 0; }));
  const v1::Pool pool = harness.PoolState();
  EXPECT_EQ(pool.free_pages(), pool.total_pages()) << Show(pool);
}

}  // namespace
}  // namespace folio::testing
