#include "services/base/steady_wait.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <type_traits>

#include "absl/time/clock.h"

namespace folio {
namespace {

// A time of day and a steady moment are neither converted nor compared nor subtracted.
template <typename A, typename B>
concept Mix = requires(A a, B b) { a < b; } || requires(A a, B b) { a - b; } ||
              std::is_convertible_v<A, B> || std::is_convertible_v<B, A>;
static_assert(!Mix<SteadyTime, absl::Time>);
static_assert(!Mix<absl::Time, SteadyTime>);
static_assert(Mix<SteadyTime, SteadyTime>);
// A duration does not become a moment.
static_assert(!std::is_convertible_v<absl::Duration, SteadyTime>);

TEST(SteadyTime, CountsUp) {
  const SteadyTime start = SteadyNow();
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_GE(SteadyNow() - start, absl::Milliseconds(20));
  EXPECT_LT(start, SteadyNow());
  EXPECT_EQ((start + absl::Seconds(3)) - start, absl::Seconds(3));
  EXPECT_EQ(start - absl::Seconds(3) + absl::Seconds(3), start);
  EXPECT_LT(SteadyTime(), start) << "the clock's zero lies behind us";
}

TEST(SteadyTime, InfiniteMomentsStayInfinite) {
  const SteadyTime now = SteadyNow();
  EXPECT_GT(SteadyTime::InfiniteFuture(), now + absl::Hours(1000000));
  EXPECT_LT(SteadyTime::InfinitePast(), now - absl::Hours(1000000));
  EXPECT_EQ(SteadyTime::InfiniteFuture() - now, absl::InfiniteDuration());
  EXPECT_EQ(now - SteadyTime::InfiniteFuture(), -absl::InfiniteDuration());
  EXPECT_EQ(now + absl::InfiniteDuration(), SteadyTime::InfiniteFuture());
  EXPECT_EQ(std::min(now, SteadyTime::InfiniteFuture()), now);
}

// A box that a thread fills and another one waits for.
class Box {
 public:
  void Fill() {
    const absl::MutexLock lock(&mutex_);
    full_ = true;
    changed_.SignalAll();
  }
  void Shake() { changed_.SignalAll(); }
  bool AwaitFull(SteadyTime deadline) {
    const absl::MutexLock lock(&mutex_);
    return changed_.Await(&mutex_, deadline,
                          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return full_; });
  }

 private:
  absl::Mutex mutex_;
  SteadyCondVar changed_;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST(SteadyCondVar, WaitsUntilTheDeadline) {
  Box box;
  const SteadyTime start = SteadyNow();
  EXPECT_FALSE(box.AwaitFull(start + absl::Milliseconds(50)));
  EXPECT_GE(SteadyNow() - start, absl::Milliseconds(50));
  EXPECT_FALSE(box.AwaitFull(start)) << "it has passed";
  EXPECT_FALSE(box.AwaitFull(SteadyTime::InfinitePast()));
  box.Fill();
  EXPECT_TRUE(box.AwaitFull(SteadyTime::InfinitePast())) << "it is full already";
}

TEST(SteadyCondVar, WakesWhenTheConditionIsTrue) {
  for (const SteadyTime deadline : {SteadyTime::InfiniteFuture(), SteadyNow() + absl::Hours(1),
                                    // Beyond what a count of nanoseconds can hold.
                                    SteadyNow() + absl::Hours(24 * 365 * 1000)}) {
    Box box;
    std::thread filling([&box] {
      box.Shake();  // wakes the waiting thread too early, which is harmless
      absl::SleepFor(absl::Milliseconds(10));
      box.Shake();
      box.Fill();
    });
    EXPECT_TRUE(box.AwaitFull(deadline));
    filling.join();
  }
}

TEST(SteadyNotification, IsSeenBeforeAndAfter) {
  SteadyNotification notification;
  EXPECT_FALSE(notification.WaitFor(absl::ZeroDuration()));
  EXPECT_FALSE(notification.WaitFor(absl::Milliseconds(5)));
  std::thread notifying([&notification] { notification.Notify(); });
  EXPECT_TRUE(notification.WaitFor(absl::InfiniteDuration()));
  notifying.join();
  EXPECT_TRUE(notification.WaitFor(absl::ZeroDuration()));
}

}  // namespace
}  // namespace folio
