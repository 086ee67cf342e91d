#include "services/worker/pool_attachment.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/common/temp_dir.h"

namespace folio::worker {
namespace {

TEST(AttachWithRetry, HearsASignalThatComesOnce) {
  const testing::TempDir dir;
  const auto channel =
      grpc::CreateChannel("unix:" + (dir / "nobody.sock"), grpc::InsecureChannelCredentials());
  // As a signal: only the first who asks is told. Mostly that is between two attempts.
  for (const int when : {1, 2, 3, 4}) {
    int asked = 0;
    const absl::Time start = absl::Now();
    const auto attached = AttachWithRetry(channel, "w", v1::ModelLayout(), absl::Seconds(20),
                                          [&] { return ++asked == when; });
    EXPECT_TRUE(absl::IsCancelled(attached.status())) << attached.status();
    EXPECT_EQ(asked, when);
    EXPECT_LT(absl::Now() - start, absl::Seconds(15));
  }
}

}  // namespace
}  // namespace folio::worker
