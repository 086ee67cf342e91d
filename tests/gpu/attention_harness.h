// This harness runs attention of batches over pages, on the device and by the plain CPU kernels.
#ifndef FOLIO_TESTS_GPU_ATTENTION_HARNESS_H_
#define FOLIO_TESTS_GPU_ATTENTION_HARNESS_H_

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "tests/gpu/device_runs.h"

namespace folio::kernels::cuda {

struct Sequence {
  uint32_t context, rows;
};

// Numbers are bf16. fp16 holds them too, except for the smallest.
struct Batch {
  Batch(Random& random, const ScoreShape& s, const std::vector<Sequence>& sequences)
      : shape{s.kv_heads * s.group, s.kv_heads, s.head_dim},
        pool(random, 700, s.kv_heads, s.head_dim, s.page_tokens) {
    for (const auto& [context, rows] : sequences) {
      tables.push_back(pool.Table(context));
      cpu::SpoilRest(pool, {tables.back(), context});
      pages.insert(pages.end(), tables.back().begin(), tables.back().end());
      runs.push_back(
          {static_cast<uint32_t>(row_starts.back()), rows, tables.back().data(), context});
      row_starts.push_back(row_starts.back() + static_cast<int32_t>(rows));
      page_starts.push_back(static_cast<int32_t>(pages.size()));
      last_tokens.push_back(static_cast<int32_t>((context - 1) % s.page_tokens + 1));
    }
    for (size_t i = 0; i < runs.size(); ++i) runs[i].pages = tables[i].data();
    // Scores spread over some +-10.
    q = cpu::RandomBf16(random, size_t{rows()} * cols(), 10.0f / std::sqrt(float(s.head_dim)));
  }
  uint32_t rows() const { return static_cast<uint32_t>(row_starts.back()); }
  uint32_t cols() const { return shape.heads * shape.head_dim; }

  AttentionShape shape;
  RandomPool pool;
  std::vector<std::vector<uint32_t>> tables;
  std::vector<AttentionItem> runs;
  std::vector<int32_t> pages, row_starts{0}, page_starts{0}, last_tokens;
  std::vector<bf16> q;
};

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
    const auto plan = PlanAttention(nullptr, {batch.row_starts, batch.page_starts}, batch.shape,
                                    batch.pool.geometry.page_tokens, options, memory());
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    return plan.ok() ? *plan : AttentionPlan{};
  }
  Stored Attend(const Batch& batch, const AttentionOptions& options) {
    PoolOnDevice pool(GetParam(), batch.pool);
    const OnDevice<int32_t> pages(batch.pages);
    const OnDevice<int32_t> page_starts(batch.page_starts);
    const OnDevice<int32_t> last_tokens(batch.last_tokens);
    const OnDevice<int32_t> row_starts(batch.row_starts);
    const OnDevice<uint16_t> q(Restored(GetParam(), batch.q));
    const OnDevice<uint16_t> out(Stored(batch.q.size(), Round(GetParam(), NAN)));
    const AttentionPlan plan = Plan(batch, options);
    const auto tensor = [&](uint16_t* data) {
      return Dense(data, GetParam(), batch.rows(), batch.cols());
    };
    const absl::Status status =
        RunAttention(nullptr, plan, tensor(q.data()),
                     {pages.data(), page_starts.data(), last_tokens.data(), row_starts.data()},
                     pool.pool(), memory(), tensor(out.data()));
    EXPECT_TRUE(status.ok()) << status;
    return out.Read();
  }

  // The plain kernels' result, [rows * cols].
  static std::vector<float> Plain(Batch& batch) {
    const auto plain = cpu::MakePlainOps();
    ThreadPool threads(2);
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
