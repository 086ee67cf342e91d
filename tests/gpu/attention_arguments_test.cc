// Tests of the arguments that attention refuses before it needs a GPU, and of its error without
// one.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/attention/attention.h"

namespace folio::kernels::cuda {
namespace {

using testing::HasSubstr;

absl::Status Plan(const AttentionShape& shape, const std::vector<int32_t>& rows,
                  const std::vector<int32_t>& contexts, const AttentionOptions& options = {}) {
  return PlanAttention(nullptr, {rows, contexts}, shape, 16, options, {}).status();
}

void ExpectRefused(const absl::Status& status, const char* what) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr(what));
}

TEST(AttentionArguments, PlansAreOfWhatIsServed) {
  ExpectRefused(Plan({9, 3, 80}, {0, 1}, {1}), "head_dim must be 64, 128 or 256, not 80");
  ExpectRefused(Plan({9, 2, 64}, {0, 1}, {1}), "multiple of KV heads");
  ExpectRefused(Plan({9, 0, 64}, {0, 1}, {1}), "multiple of KV heads");
  ExpectRefused(Plan({9, 3, 64}, {0}, {}), "at least one run");
  ExpectRefused(Plan({9, 3, 64}, {0, 1, 2}, {1}), "starts of its rows and its context");
  ExpectRefused(Plan({9, 3, 64}, {0, 1, 1}, {1, 1}), "run 1 has no rows");
  ExpectRefused(Plan({9, 3, 64}, {0, 1}, {0}), "run 0 has no rows or more rows than tokens");
  ExpectRefused(Plan({9, 3, 64}, {0, 17}, {16}), "run 0 has no rows or more rows than tokens");
  ExpectRefused(Plan({9, 3, 64}, {0, 5}, {5}, {.captured = true, .max_rows = 4}), "more rows");
}

TEST(AttentionArguments, HopperKernelsHaveNoGraphsFixedSplitsOrWindows) {
  const auto hopper = AttentionKernels::kHopper;
  ExpectRefused(Plan({9, 3, 64}, {0, 5}, {5}, {.captured = true, .max_rows = 5, .kernels = hopper}),
                "not for captured batches");
  ExpectRefused(Plan({9, 3, 64}, {0, 5}, {5}, {.split_pages = 8, .kernels = hopper}),
                "fixed splits or windows");
  ExpectRefused(Plan({9, 3, 64}, {0, 5}, {5}, {.window = 4, .kernels = hopper}), "or windows");
}

TEST(AttentionArguments, RunsAreOfWhatWasPlanned) {
  const AttentionPlan plan{.runs = 1, .shape = {9, 3, 64}, .page_tokens = 16};
  const Tensor q{nullptr, DataType::kBf16, 1, 9 * 64, 9 * 64};
  const auto run = [&](const DevicePool& pool, const Tensor& rows) {
    return RunAttention(nullptr, plan, rows, {}, pool, {}, rows);
  };
  DevicePool pool{{nullptr, nullptr, 4, {.num_kv_heads = 3, .head_dim = 64, .page_tokens = 32}}};
  ExpectRefused(run(pool, q), "another shape than was planned");
  pool.view.geometry.page_tokens = 16;
  ExpectRefused(run(pool, {nullptr, DataType::kBf16, 1, 64, 64}), "another shape");
  Tensor odd = q;
  odd.data = reinterpret_cast<void*>(8);
  ExpectRefused(run(pool, odd), "multiples of 16 bytes");
}

TEST(AttentionArguments, TypesAreOneAndTheSame) {
  const AttentionPlan plan{.runs = 1, .shape = {9, 3, 64}, .page_tokens = 16};
  const auto run = [&](DataType pages, DataType queries, DataType results) {
    const auto tensor = [](DataType type) { return Tensor{nullptr, type, 1, 9 * 64, 9 * 64}; };
    const CacheGeometry geometry{.num_kv_heads = 3, .head_dim = 64, .page_tokens = 16};
    return CheckRun(plan, tensor(queries), {{nullptr, nullptr, 4, geometry}, pages},
                    tensor(results));
  };
  const auto bf16 = DataType::kBf16, fp16 = DataType::kFp16, float32 = DataType::kFloat32;
  EXPECT_TRUE(run(bf16, bf16, bf16).ok());
  EXPECT_TRUE(run(fp16, fp16, fp16).ok());
  ExpectRefused(run(float32, float32, float32), "pages must be bf16 or fp16, not float32");
  ExpectRefused(run(fp16, bf16, bf16), "queries are bf16, pages fp16");
  ExpectRefused(run(bf16, fp16, bf16), "queries are fp16, pages bf16");
  ExpectRefused(run(fp16, fp16, float32), "results are float32, pages fp16");
}

TEST(AttentionArguments, WithoutADriverThatIsSaid) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) GTEST_SKIP() << "there is a GPU";
  for (const int32_t rows : {1, 200}) {
    const absl::Status status = Plan({9, 3, 64}, {0, rows}, {rows});
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.ToString(), HasSubstr("driver"));
  }
}

}  // namespace
}  // namespace folio::kernels::cuda
