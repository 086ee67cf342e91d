#include "services/worker/rpc/tokenizer_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace folio::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A pool of one thread, which a task occupies until `go`.
struct BusyPool {
  explicit BusyPool(TokenizerPoolLimits limits) {
    limits.threads = 1;
    pool = std::make_unique<TokenizerPool>(limits);
    EXPECT_TRUE(pool->Run(0,
                          [this] {
                            begun.Notify();
                            go.WaitForNotification();
                          })
                    .ok());
    begun.WaitForNotification();
  }

  absl::Notification begun, go;
  std::unique_ptr<TokenizerPool> pool;
};

TEST(TokenizerPool, RunsTasksInOrder) {
  std::vector<int> ran;
  {
    BusyPool busy({});
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(busy.pool->Run(1, [&ran, i] { ran.push_back(i); }).ok());
    }
    EXPECT_TRUE(ran.empty());
    busy.go.Notify();
    busy.pool.reset();
  }
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3, 4));
}

TEST(TokenizerPool, RefusesATaskWhenTooManyWait) {
  std::atomic<int> ran = 0;
  const auto task = [&ran] { ++ran; };
  BusyPool busy({.tasks = 3});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(busy.pool->Run(10, task).ok());
  const absl::Status refused = busy.pool->Run(10, task);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("3 with 30 bytes; try again later"));
  busy.go.Notify();
  busy.pool.reset();
  EXPECT_EQ(ran, 3);
}

TEST(TokenizerPool, RefusesATaskWhenTooManyBytesWait) {
  std::atomic<int> ran = 0;
  const auto task = [&ran] { ++ran; };
  BusyPool busy({.bytes = 100});
  EXPECT_TRUE(busy.pool->Run(60, task).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(busy.pool->Run(50, task)));
  EXPECT_TRUE(busy.pool->Run(40, task).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(busy.pool->Run(1, task)));
  busy.go.Notify();
  busy.pool.reset();
  EXPECT_EQ(ran, 2);
}

TEST(TokenizerPool, TakesOneTaskOfAnySizeAndGivesRoomBack) {
  std::atomic<int> ran = 0;
  BusyPool busy({.bytes = 100});
  absl::Notification done;
  EXPECT_TRUE(busy.pool
                  ->Run(1000,
                        [&] {
                          ++ran;
                          done.Notify();
                        })
                  .ok());
  EXPECT_TRUE(absl::IsResourceExhausted(busy.pool->Run(1, [&ran] { ++ran; })));
  busy.go.Notify();
  done.WaitForNotification();
  EXPECT_TRUE(busy.pool->Run(100, [&ran] { ++ran; }).ok());
  busy.pool.reset();
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace folio::worker
