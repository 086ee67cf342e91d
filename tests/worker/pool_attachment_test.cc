#include "services/worker/pool/pool_attachment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/common/temp_dir.h"

namespace folio::worker {
namespace {

TEST(AttachWithRetry, HearsASignalThatComesOnce) {
  const testing::TempDir dir;
  const auto channel =
      grpc::CreateChannel("unix:" + (dir / "nobody.sock"), grpc::InsecureChannelCredentials());
  const v1::ModelLayout layout;
  // As a signal: only the first who asks is told. Mostly that is between two attempts.
  for (const int when : {1, 2, 3, 4}) {
    int asked = 0;
    const absl::Time start = absl::Now();
    const auto attached = AttachWithRetry(channel, {"w"}, {&layout}, absl::Seconds(20),
                                          [&] { return ++asked == when; });
    EXPECT_TRUE(absl::IsCancelled(attached.status())) << attached.status();
    EXPECT_EQ(asked, when);
    EXPECT_LT(absl::Now() - start, absl::Seconds(15));
  }
}

// Pages of 512 bytes, four of them.
v1::ModelLayout SmallLayout() {
  v1::ModelLayout layout;
  layout.set_num_layers(1);
  layout.set_num_kv_heads(1);
  layout.set_head_dim(8);
  layout.set_page_tokens(16);
  return layout;
}

v1::AttachResponse SmallPool(const std::string& uuid, uint64_t bytes) {
  v1::AttachResponse response;
  v1::PoolLayout* pool = response.mutable_pool();
  pool->set_num_pages(4);
  pool->set_page_bytes(512);
  pool->set_pool_bytes(4 * 512);
  pool->set_score_board_bytes(2 * 4 * 16 * sizeof(float));
  response.set_export_socket("/nonexistent/export.sock");
  v1::PageMemory* memory = pool->add_rank_memory();
  memory->set_device_uuid(uuid);
  memory->set_bytes(bytes);
  return response;
}

// One that nothing is asked of but what it is.
class NamedGpu final : public Gpu {
 public:
  explicit NamedGpu(std::string uuid) : info_{1, std::move(uuid), "Some GPU"} {}
  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<std::unique_ptr<GpuModel>> Load(const model::ModelSource&, kernels::cuda::DataType,
                                                 model::HeldWeights, int,
                                                 const model::LoadProgress&) override {
    return absl::UnimplementedError("a name only");
  }
  absl::StatusOr<std::unique_ptr<GpuPages>> Import(int, size_t, absl::Span<std::byte>,
                                                   absl::Span<std::byte>) override {
    return absl::UnimplementedError("a name only");
  }

 private:
  const DeviceInfo info_;
};

absl::Status Fetch(const v1::AttachResponse& response, Gpu* gpu) {
  const v1::ModelLayout layout = SmallLayout();
  return PoolAttachment::Fetch(response, {.layout = &layout, .gpu = gpu}).status();
}

void ExpectRefused(const absl::Status& status, const std::vector<std::string>& words) {
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  for (const std::string& word : words) {
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(word));
  }
}

TEST(PoolAttachment, MemoryOfAGpuIsNotForTheCpu) {
  // Host memory is fetched, which fails here because no manager listens.
  EXPECT_TRUE(absl::IsUnavailable(Fetch(SmallPool("", 2048), nullptr)));
  ExpectRefused(Fetch(SmallPool("GPU-1234", 2048), nullptr),
                {"memory of GPU-1234", "start the manager with --device=cpu"});
}

TEST(PoolAttachment, AGpuUsesItsOwnMemory) {
  NamedGpu gpu("GPU-1234");
  EXPECT_TRUE(absl::IsUnavailable(Fetch(SmallPool("GPU-1234", 2048), &gpu)));
  ExpectRefused(Fetch(SmallPool("", 2048), &gpu),
                {"in host memory", "computes on cuda:1 Some GPU", "--device=cuda:N"});
  ExpectRefused(Fetch(SmallPool("GPU-5678", 2048), &gpu),
                {"memory of GPU-5678", "cuda:1 Some GPU, which is GPU-1234", "--device=cuda,"});
  ExpectRefused(Fetch(SmallPool("GPU-1234", 2047), &gpu), {"rank_memory.bytes 2047", "2048"});
  v1::AttachResponse silent = SmallPool("", 2048);
  silent.mutable_pool()->clear_rank_memory();
  ExpectRefused(Fetch(silent, &gpu), {"what memory rank 0's pages are in"});
}

}  // namespace
}  // namespace folio::worker
