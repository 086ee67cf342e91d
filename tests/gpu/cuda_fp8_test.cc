// The executor of a GPU with weights in E4M3 against the plain family on the CPU, and what it
// refuses.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cuda/ops/gemm.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/mirror_executor.h"
#include "tests/gpu/requantized.h"
#include "tests/model/conversation.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

using kernels::cuda::CheckE4M3;
using kernels::cuda::DataType;

#define FOLIO_NEEDS_FP8() \
  if (const absl::Status fp8 = kernels::cuda::Gemm::CheckRowScales(); !fp8.ok()) GTEST_SKIP() << fp8

void ExpectAboutWhatTheCpuSays(const ModelConfig& config) {
  const RandomModel model(config, 1234);
  const Requantized quantized(model);
  CudaHarness harness(model, {.type = DataType::kE4M3});
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  TestPool cpu_pool(config, 400);
  const auto cpu = *MakeCpuExecutor(quantized, OpsNamed("plain"), 1, cpu_pool.view());
  Mirror mirror(harness.executor(), *cpu);
  Stage stage{mirror, harness.pool(), harness.board()};
  Transcript transcript;
  EXPECT_EQ(Play(stage, config, /*forced=*/false, transcript), "");
  EXPECT_GT(mirror.outputs, 100u);
  const Apart scores = CompareBoards(harness.board(), cpu_pool.view());
  EXPECT_GT(scores.numbers, 500u);
  EXPECT_EQ(scores.missing, 0u);
  // Activations are rounded to four significant bits, sixteen times as coarsely as to bf16.
  EXPECT_LT(mirror.largest, 1.5f);
  EXPECT_LT(mirror.sum / static_cast<float>(mirror.outputs), 0.25f);
  EXPECT_LT(mirror.behind, 1.5f);
  EXPECT_LT(mirror.other_tokens, mirror.outputs / 2);
  EXPECT_LT(scores.mean(), 0.02);
}

TEST(CudaFp8Test, SaysAboutWhatTheCpuSays) {
  FOLIO_NEEDS_FP8();
  ExpectAboutWhatTheCpuSays(Fp8Config());
}

TEST(CudaFp8Test, SaysAboutWhatTheCpuSaysWithBiases) {
  FOLIO_NEEDS_FP8();
  ExpectAboutWhatTheCpuSays(OfFamily("qwen2", Fp8Config()));
}

TEST(CudaFp8Test, WeightsTakeAboutHalfTheMemory) {
  FOLIO_NEEDS_FP8();
  ModelConfig config = Fp8Config();
  config.ffn = 4096;
  const RandomModel model(config, 1);
  const auto bytes = [&](DataType type) {
    const auto loaded = CudaModel::Load(model, {.type = type});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return static_cast<double>((*loaded)->weights().memory.bytes());
  };
  EXPECT_NEAR(bytes(DataType::kE4M3) / bytes(DataType::kBf16), 0.53, 0.03);
}

TEST(CudaFp8Test, NamesAMatrixOfAShapeThatIsNotServed) {
  FOLIO_NEEDS_FP8();
  const auto refusal = [](const ModelConfig& config) {
    const RandomModel model(config, 1);
    const CudaHarness harness(model, {.max_rows = 8, .type = DataType::kE4M3}, 4);
    EXPECT_EQ(harness.made().code(), absl::StatusCode::kInvalidArgument);
    return std::string(harness.made().message());
  };
  EXPECT_EQ(refusal(GpuConfig()),
            "FP8: the query, key and value matrices of a layer have the shape [640, 40], and both "
            "numbers must be multiples of 16; use bfloat16");
  ModelConfig config = Fp8Config();
  config.ffn = 52;
  EXPECT_EQ(refusal(config),
            "FP8: the gate and up matrices of a layer have the shape [104, 48], and both numbers "
            "must be multiples of 16; use bfloat16");
}

TEST(CudaFp8Test, NamesWhatAGpuLacks) {
  kernels::cuda::DeviceInfo gpu;
  gpu.name = "Some GPU";
  const absl::Status none = absl::UnimplementedError("cuBLASLt has no algorithm: not supported");
  const auto refusal = [&](int major, int minor, const absl::Status& scales) {
    gpu.major = major;
    gpu.minor = minor;
    return CheckE4M3(gpu, scales);
  };
  EXPECT_TRUE(refusal(9, 0, absl::OkStatus()).ok());
  EXPECT_EQ(refusal(8, 0, absl::OkStatus()),
            absl::UnimplementedError("FP8: cuda:0 Some GPU (compute capability 8.0) has no FP8 "
                                     "tensor cores, which begin with 8.9; use bfloat16"));
  EXPECT_EQ(refusal(8, 9, none),
            absl::UnimplementedError(
                "FP8: cuda:0 Some GPU (compute capability 8.9): no product with a scale for each "
                "row (cuBLASLt has no algorithm: not supported), which GPUs of 9.0 have with "
                "cuBLAS 12.9 or later; use bfloat16"));
}

}  // namespace
}  // namespace folio::model::testing
