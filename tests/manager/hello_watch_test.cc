// Streams that wait for their hello: for how long, and how many.
#include "services/manager/hello_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/manager/manager_harness.h"

namespace folio::manager {
namespace {

using ::testing::HasSubstr;

class HelloWatchTest : public ::testing::Test {
 protected:
  // A stream that waits until it is taken out of `waiting_`.
  void Begin(size_t number) {
    ends_.resize(number + 1);
    waiting_.push_back(
        std::make_unique<HelloWatch::Waiting>(&watch_, [this, number](const absl::Status& why) {
          EXPECT_EQ(ends_[number], absl::OkStatus()) << "it ends once";
          ends_[number] = why;
        }));
  }

  testing::ManualClock clock_;
  HelloWatch watch_{&clock_, {.timeout = absl::Seconds(2), .streams = 3}};
  std::vector<absl::Status> ends_;
  std::vector<std::unique_ptr<HelloWatch::Waiting>> waiting_;
};

TEST_F(HelloWatchTest, EndsThoseWhoseTimeIsOver) {
  Begin(0);
  clock_.Advance(absl::Seconds(1));
  Begin(1);
  watch_.EndLate();
  EXPECT_EQ(ends_[0], absl::OkStatus());
  clock_.Advance(absl::Seconds(1));
  watch_.EndLate();
  watch_.EndLate();
  EXPECT_TRUE(absl::IsDeadlineExceeded(ends_[0])) << ends_[0];
  EXPECT_THAT(std::string(ends_[0].message()), HasSubstr("within 2s"));
  EXPECT_EQ(ends_[1], absl::OkStatus());
}

TEST_F(HelloWatchTest, LeavesThoseThatHaveSaidTheirs) {
  Begin(0);
  waiting_.clear();
  clock_.Advance(absl::Minutes(1));
  watch_.EndLate();
  EXPECT_EQ(ends_[0], absl::OkStatus());
}

TEST_F(HelloWatchTest, EndsTheOldestWhenTooManyWait) {
  for (size_t number = 0; number < 5; ++number) Begin(number);
  for (size_t number = 0; number < 5; ++number) {
    EXPECT_EQ(absl::IsUnavailable(ends_[number]), number < 2) << ends_[number];
  }
  // The ended ones leave later and make no room then.
  waiting_.erase(waiting_.begin(), waiting_.begin() + 2);
  Begin(5);
  EXPECT_TRUE(absl::IsUnavailable(ends_[2])) << ends_[2];
}

}  // namespace
}  // namespace folio::manager
