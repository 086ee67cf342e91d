#include "services/cache/lease.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/base/steady_time.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const SteadyTime kStart{};

TEST(LeaseTable, ExpiresUnlessRenewed) {
  LeaseTable leases(absl::Seconds(10));
  const WorkerId a(1);
  leases.Add(a, "a", kStart);
  const WorkerId b(2);
  leases.Add(b, "b", kStart);
  EXPECT_THAT(leases.Expired(kStart + absl::Seconds(10)), IsEmpty());
  EXPECT_TRUE(leases.Renew(a, kStart + absl::Seconds(8)).ok());
  EXPECT_THAT(leases.Expired(kStart + absl::Seconds(11)), ElementsAre(b));
  EXPECT_THAT(leases.Expired(kStart + absl::Seconds(19)), ElementsAre(a, b));
  // Late, but not fenced.
  EXPECT_TRUE(leases.Renew(b, kStart + absl::Seconds(30)).ok());
  EXPECT_THAT(leases.Expired(kStart + absl::Seconds(31)), ElementsAre(a));
}

TEST(LeaseTable, FencingIsFinal) {
  LeaseTable leases(absl::Seconds(10));
  const WorkerId a(1);
  leases.Add(a, "alpha", kStart);
  EXPECT_TRUE(leases.IsLive(a));
  EXPECT_TRUE(leases.Fence(a));
  EXPECT_FALSE(leases.Fence(a));
  EXPECT_FALSE(leases.IsLive(a));
  EXPECT_TRUE(leases.IsFenced(a));
  EXPECT_THAT(leases.Expired(kStart + absl::Hours(1)), IsEmpty());
  const absl::Status status = leases.Renew(a, kStart);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("alpha"));
}

TEST(LeaseTable, UnknownWorkersAreNotFound) {
  LeaseTable leases(absl::Seconds(10));
  EXPECT_EQ(leases.Renew(WorkerId(4), kStart).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(leases.Fence(WorkerId(4)));
  const WorkerId a(1);
  leases.Add(a, "a", kStart);
  leases.Remove(a);
  EXPECT_EQ(leases.Renew(a, kStart).code(), absl::StatusCode::kNotFound);
}

TEST(LeaseTable, KeepsTheProgressThatAWorkerToldLast) {
  LeaseTable leases(absl::Seconds(10));
  const WorkerId a(1);
  leases.Add(a, "a", kStart);
  EXPECT_EQ(leases.all().at(a).progress, std::nullopt);
  EXPECT_TRUE(leases.Renew(a, kStart, StepProgress{7, 250}).ok());
  EXPECT_TRUE(leases.Renew(a, kStart).ok());
  EXPECT_EQ(leases.all().at(a).progress, (StepProgress{7, 250}));
  EXPECT_TRUE(leases.Renew(a, kStart, StepProgress{8, 0}).ok());
  EXPECT_EQ(leases.all().at(a).progress, (StepProgress{8, 0}));
}

}  // namespace
}  // namespace folio::cache
