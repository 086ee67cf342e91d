#include "kernels/threads/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "kernels/threads/cpu_quota.h"

namespace folio::kernels::cpu {
namespace {

TEST(ThreadPool, RunsEachTaskOnceWhateverTheThreads) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.threads(), threads);
    for (int tasks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> runs(tasks);
      std::atomic<bool> bad_thread{false};
      pool.ParallelFor(tasks, [&](int task, int thread) {
        runs[task].fetch_add(1);
        if (thread < 0 || thread >= threads) bad_thread = true;
      });
      EXPECT_FALSE(bad_thread);
      for (int i = 0; i < tasks; ++i) EXPECT_EQ(runs[i].load(), 1) << i << " of " << tasks;
    }
  }
}

// Plain (non-atomic) memory written by tasks is visible after the call, and the next job's tasks
// see what the caller wrote: thousands of jobs back to back, also with more threads than cores.
TEST(ThreadPool, JobsFollowEachOtherWithoutMixing) {
  for (int threads : {2, 5}) {
    ThreadPool pool(threads);
    std::vector<int> cells(37, 0);
    for (int job = 1; job <= 5000; ++job) {
      const int tasks = 1 + job % 37;
      pool.ParallelFor(tasks, [&](int task, int) { cells[task] += job; });
      for (int i = 0; i < tasks; ++i) {
        ASSERT_GE(cells[i], job);
        cells[i] = 0;
      }
    }
  }
}

TEST(ThreadPool, SleepingWorkersWakeForALaterJob) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> sum{0};
    pool.ParallelFor(100, [&](int task, int) { sum += task; });
    EXPECT_EQ(sum.load(), 4950);
  }
}

double ProcessCpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(ThreadPool, IdleThreadsUseNoCpu) {
  ThreadPool pool(4);
  pool.ParallelFor(8, [](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = ProcessCpuSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(ProcessCpuSeconds() - before, 0.03);
}

TEST(AvailableCores, FollowsTheAffinityMask) {
  cpu_set_t old_set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(old_set), &old_set), 0);
  EXPECT_GE(AvailableCores(), 1);
  EXPECT_LE(AvailableCores(), CPU_COUNT(&old_set));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &old_set)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(AvailableCores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(old_set), &old_set), 0);
}

class CgroupTest : public testing::Test {
 protected:
  CgroupTest() {
    char name[] = "/tmp/folio_cgroup_XXXXXX";
    root_ = mkdtemp(name);
  }
  ~CgroupTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string root_;
};

TEST_F(CgroupTest, Version2TakesTheTightestOnTheWayUp) {
  Write("/pods/one/cpu.max", "400000 100000\n");
  Write("/pods/cpu.max", "150000 100000\n");
  Write("/cpu.max", "max 100000\n");
  EXPECT_DOUBLE_EQ(CgroupCores("0::/pods/one\n", root_), 1.5);
  EXPECT_TRUE(std::isinf(CgroupCores("0::/elsewhere\n", root_)));
}

TEST_F(CgroupTest, Version2InsideAContainerReadsTheRoot) {
  Write("/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(CgroupCores("0::/not/visible/here\n", root_), 0.5);
}

TEST_F(CgroupTest, Version1FindsTheCpuController) {
  Write("/cpu,cpuacct/box/cpu.cfs_quota_us", "250000\n");
  Write("/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  Write("/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(CgroupCores("5:devices:/\n4:cpu,cpuacct:/box\n0::/\n", root_), 2.5);
  EXPECT_TRUE(std::isinf(CgroupCores("4:cpuset:/box\n", root_)));
}

TEST_F(CgroupTest, NonsenseLimitsNothing) {
  Write("/cpu.max", "lots\n");
  for (const char* text : {"", "\n", "::", "0:", "x:y", "0::relative", "0::/"}) {
    EXPECT_TRUE(std::isinf(CgroupCores(text, root_))) << text;
  }
}

}  // namespace
}  // namespace folio::kernels::cpu
