// The choice of a worker by load, key and standby.
#include "services/gateway/workers/worker_choice.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace folio::gateway {
namespace {

std::vector<WorkerLoad> Workers(size_t count) {
  std::vector<WorkerLoad> workers(count);
  for (size_t i = 0; i < count; ++i) workers[i].address = absl::StrCat("worker", i);
  return workers;
}

TEST(ChooseWorker, TakesTheLeastLoad) {
  std::vector<WorkerLoad> workers = Workers(3);
  workers[0].running = 2;
  workers[1].running = 1;
  workers[2].running = 3;
  EXPECT_EQ(ChooseWorker(workers, "", 0), 1);
  workers[1].usable = false;
  EXPECT_EQ(ChooseWorker(workers, "", 0), 0);
  EXPECT_EQ(ChooseWorker({}, "", 0), std::nullopt);
}

TEST(ChooseWorker, TakesTurnsAmongEqualOnes) {
  const std::vector<WorkerLoad> workers = Workers(3);
  for (uint64_t turn = 0; turn < 6; ++turn) EXPECT_EQ(ChooseWorker(workers, "", turn), turn % 3);
}

TEST(ChooseWorker, TakesStandbyOnesOnlyIfNoOtherIsUsable) {
  std::vector<WorkerLoad> workers = Workers(2);
  workers[0].running = 100;
  workers[1].standby = true;
  EXPECT_EQ(ChooseWorker(workers, "", 0), 0);
  EXPECT_EQ(ChooseWorker(workers, "key", 0), 0);
  workers[0].usable = false;
  EXPECT_EQ(ChooseWorker(workers, "", 0), 1);
  workers[1].usable = false;
  EXPECT_EQ(ChooseWorker(workers, "", 0), std::nullopt);
}

TEST(ChooseWorker, KeepsAKeyAtItsWorker) {
  std::vector<WorkerLoad> workers = Workers(4);
  std::map<std::string, size_t> before;
  std::vector<int> counts(4);
  for (int i = 0; i < 1000; ++i) {
    const std::string key = absl::StrCat("key", i);
    before[key] = *ChooseWorker(workers, key, static_cast<uint64_t>(i));
    ++counts[before[key]];
  }
  for (const int count : counts) EXPECT_GT(count, 180);
  workers[2].usable = false;
  for (const auto& [key, worker] : before) {
    if (worker != 2) {
      EXPECT_EQ(*ChooseWorker(workers, key, 0), worker);
    }
  }
}

TEST(ChooseWorker, LeavesAWorkerThatHasTooMuch) {
  std::vector<WorkerLoad> workers = Workers(4);
  const size_t home = *ChooseWorker(workers, "key", 0);
  for (int i = 0; i < 400; ++i) ++workers[*ChooseWorker(workers, "key", 0)].running;
  EXPECT_GT(workers[home].running, 100);
  for (const WorkerLoad& worker : workers) EXPECT_LE(worker.running, 127);
}

}  // namespace
}  // namespace folio::gateway
