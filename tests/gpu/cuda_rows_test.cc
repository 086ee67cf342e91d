// The executor of a GPU with steps of few rows, up to eight and up to sixteen of which kernels of
// our own may multiply, against the plain family on the CPU.
#include <gtest/gtest.h>

#include "kernels/cuda/ops/gemm.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/mirror_executor.h"
#include "tests/gpu/prompt_rows.h"
#include "tests/gpu/requantized.h"
#include "tests/model/conversation.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

using kernels::cuda::DataType;

// With 0 the executor has tried both ways for nine to sixteen rows.
class CudaRowsTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(CudaRowsTest, SaysWhatTheCpuSays) {
  for (const ModelConfig& config : {GpuConfig(), OfFamily("gemma3", GpuConfig())}) {
    const RandomModel model(config, 1234);
    CudaHarness harness(model, {.own_rows = GetParam()});
    ASSERT_TRUE(harness.made().ok()) << harness.made();
    TestPool cpu_pool(config, 400);
    const auto cpu = *MakeCpuExecutor(model, OpsNamed("plain"), 1, cpu_pool.view());
    Mirror mirror(harness.executor(), *cpu);
    ExpectAlikeForRows(mirror, harness.pool(), cpu_pool.view().geometry, config.vocab,
                       {1u, 8u, 9u, 12u, 16u, 17u}, 0.2f, 0.15f);
  }
}

// Few rows are multiplied in bf16 by what the codes stand for, so that they are as near as those of
// weights in bf16.
TEST_P(CudaRowsTest, FewRowsInFp8AreNotQuantised) {
  if (const absl::Status fp8 = kernels::cuda::Gemm::CheckRowScales(); !fp8.ok()) {
    GTEST_SKIP() << fp8;
  }
  const ModelConfig config = Fp8Config();
  const RandomModel model(config, 1234);
  const Requantized quantized(model);
  CudaHarness harness(model, {.type = DataType::kE4M3, .own_rows = GetParam()});
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  TestPool cpu_pool(config, 400);
  const auto cpu = *MakeCpuExecutor(quantized, OpsNamed("plain"), 1, cpu_pool.view());
  Mirror mirror(harness.executor(), *cpu);
  const CacheGeometry& geometry = cpu_pool.view().geometry;
  ExpectAlikeForRows(mirror, harness.pool(), geometry, config.vocab, {1u, 7u, 8u}, 0.2f, 0.15f);
  if (GetParam() < 16) return;
  ExpectAlikeForRows(mirror, harness.pool(), geometry, config.vocab, {9u, 16u}, 0.2f, 0.15f);
}

INSTANTIATE_TEST_SUITE_P(OwnRows, CudaRowsTest, ::testing::Values(0u, 8u, 16u),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace folio::model::testing
