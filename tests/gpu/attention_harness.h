// This harness runs attention of batches over pages, on the device and by the plain CPU kernels.
#ifndef FOLIO_TESTS_GPU_ATTENTION_HARNESS_H_
#define FOLIO_TESTS_GPU_ATTENTION_HARNESS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "tests/gpu/attention_batch.h"
#include "tests/gpu/device_runs.h"

namespace folio::kernels::cuda {

// For batches whose splits are given as well.
inline constexpr size_t kPartsBytes = size_t{256} << 20;

// By the type of what is stored. Device memory for plans; made once, it is large.
class AttentionTest : public testing::TestWithParam<DataType> {
 protected:
  AttentionTest()
      : parts_(std::vector<std::byte>(kPartsBytes)),
        plan_(std::vector<std::byte>(kAttentionPlanBytes)) {
    FOLIO_CHECK(cudaHostAlloc(&pinned_, kAttentionPlanBytes, cudaHostAllocPortable) == cudaSuccess);
  }
  ~AttentionTest() override { cudaFreeHost(pinned_); }

  AttentionMemory memory() const {
    return {parts_.data(), kPartsBytes, plan_.data(), pinned_, kAttentionPlanBytes};
  }
  AttentionPlan Plan(const Batch& batch, const AttentionOptions& options) {
    const auto plan = PlanAttention(nullptr, {batch.row_starts, batch.contexts}, batch.shape,
                                    batch.pool.geometry.page_tokens, options, memory());
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return plan.ok() ? *plan : AttentionPlan{};
  }
  Stored Attend(const Batch& batch, const AttentionOptions& options) {
    PoolOnDevice pool(GetParam(), batch.pool);
    // A layer's tables lie behind those of others, which name no page here.
    constexpr uint32_t kOthers = 5;
    std::vector<int32_t> all_pages(kOthers, INT32_MAX), starts = batch.page_starts;
    all_pages.insert(all_pages.end(), batch.pages.begin(), batch.pages.end());
    for (int32_t& start : starts) start += kOthers;
    const OnDevice<int32_t> pages(all_pages);
    const OnDevice<int32_t> page_starts(starts);
    const OnDevice<int32_t> last_tokens(batch.last_tokens);
    const OnDevice<int32_t> row_starts(batch.row_starts);
    const OnDevice<uint16_t> q(Restored(GetParam(), batch.q));
    const OnDevice<uint16_t> out(Stored(batch.q.size(), Round(GetParam(), NAN)));
    const AttentionPlan plan = Plan(batch, options);
    const auto tensor = [&](uint16_t* data) {
      return Dense(data, GetParam(), batch.rows(), batch.cols());
    };
    const absl::Status status = RunAttention(
        nullptr, plan, tensor(q.data()),
        {pages.data(), page_starts.data(), last_tokens.data(), row_starts.data(), kOthers},
        pool.pool(), memory(), tensor(out.data()));
    EXPECT_TRUE(status.ok()) << status;
    return out.Read();
  }

  // The plain kernels' result, [rows * cols].
  static std::vector<float> Plain(Batch& batch) {
    const auto plain = cpu::MakePlainOps();
    ThreadPool threads(static_cast<int>(std::max(2u, std::thread::hardware_concurrency())));
    cpu::ActivationBuffer in(*plain, batch.rows(), batch.cols(), batch.q.data());
    cpu::ActivationBuffer out(*plain, batch.rows(), batch.cols());
    plain->Attention(threads, {0, batch.rows()}, in.view(), batch.runs, batch.shape,
                     batch.pool.view(), out.view());
    std::vector<float> values;
    for (size_t i = 0; i < batch.q.size(); ++i) values.push_back(out.at(i));
    return values;
  }
  void Expect(const std::vector<float>& want, const Batch& batch, const AttentionOptions& options) {
    const Stored got = Attend(batch, options);
    ASSERT_EQ(got.size(), want.size());
    // Probabilities and the result are rounded to the type; values are of size 1.
    const float tolerance = 2.56f * Precision(GetParam());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(Value(GetParam(), got[i]), want[i], tolerance) << "element " << i;
    }
  }
  void ExpectPlain(Batch& batch, const AttentionOptions& options) {
    Expect(Plain(batch), batch, options);
  }

  Random random_{11};

 private:
  OnDevice<std::byte> parts_, plan_;
  void* pinned_ = nullptr;
};

// Decode rows on both sides of pages' and tiles' ends.
inline std::vector<Sequence> Decodes() {
  std::vector<Sequence> sequences;
  for (const uint32_t context : {1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 511u, 513u, 700u}) {
    sequences.push_back({context, 1});
  }
  return sequences;
}

}  // namespace folio::kernels::cuda

#endif  // FOLIO_TESTS_GPU_ATTENTION_HARNESS_H_
