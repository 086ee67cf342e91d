#include "services/worker/pool_attachment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

TEST(PoolAttachment, MemoryOfAGpuIsNotForTheCpu) {
  v1::ModelLayout layout;
  layout.set_num_layers(1);
  layout.set_num_kv_heads(1);
  layout.set_head_dim(8);
  layout.set_page_tokens(16);
  v1::AttachResponse response;
  v1::PoolLayout* pool = response.mutable_pool();
  pool->set_num_pages(4);
  pool->set_page_bytes(512);
  pool->set_pool_bytes(4 * 512);
  pool->set_score_board_bytes(2 * 4 * 16 * sizeof(float));
  response.set_export_socket("/nonexistent/export.sock");
  pool->add_rank_memory();
  // Host memory is fetched, from where nobody is.
  EXPECT_TRUE(absl::IsUnavailable(PoolAttachment::Fetch(response, layout, nullptr).status()));
  pool->mutable_rank_memory(0)->set_device_uuid("GPU-1234");
  const absl::Status refused = PoolAttachment::Fetch(response, layout, nullptr).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              ::testing::AllOf(::testing::HasSubstr("memory of GPU-1234"),
                               ::testing::HasSubstr("start the manager with --device=cpu")));
}

}  // namespace
}  // namespace folio::worker
