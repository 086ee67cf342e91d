// The tenant that opened a sequence is the only one that may claim it.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/orphan_fixture.h"

namespace folio::cache {
namespace {

TEST_F(OrphanTest, OnlyTheTenantThatOpenedItMayClaimIt) {
  OpenRequest request = Resumable(first_, 10, 20, FullCache());
  request.tenant = "alice";
  const WorkerSequence sequence = MustOpen(coordinator_, request);
  const auto claim = [&](const std::optional<std::string>& tenant) {
    return coordinator_.Claim(
        {.worker = second_, .sequence = sequence.id, .resume_token = "secret", .tenant = tenant});
  };
  // This check comes first, so that another tenant does not learn whether the worker lives.
  for (int i = 0; i < 2; ++i) {
    for (const char* other : {"bob", "", "Alice"}) {
      const absl::Status refused = claim(other).status();
      EXPECT_TRUE(absl::IsPermissionDenied(refused)) << other << ": " << refused;
      EXPECT_THAT(refused.message(), ::testing::Not(::testing::HasSubstr("alice")));
    }
    if (i == 0) {
      EXPECT_TRUE(absl::IsUnavailable(claim("alice").status()));
      coordinator_.FenceWorker(first_, true);
    }
  }
  EXPECT_EQ(Pool().orphans(), 1U) << "nothing has changed";
  EXPECT_TRUE(claim("alice").ok());
  coordinator_.FenceWorker(second_, true);
  const WorkerId third = coordinator_.AddWorker("third");
  EXPECT_TRUE(coordinator_.Claim({third, sequence.id, "secret"}).ok()) << "a caller of any tenant";
}

}  // namespace
}  // namespace folio::cache
