// How many kernels a layer of a decode step is. Each costs a small batch microseconds on a GPU,
// whatever it computes.
#include <gtest/gtest.h>

#include "tests/emulator/runtime.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/decode_batch.h"
#include "tests/gpu/stored_model.h"

namespace folio::model::testing {
namespace {

// What a step of `rows` sequences enqueues.
uint64_t EnqueuedByStep(uint32_t layers, uint32_t rows, uint32_t ffn, bool tune = false,
                        HeldWeights held = HeldWeights::kBfloat16) {
  ModelConfig config = GpuConfig();
  config.num_layers = layers;
  config.ffn = ffn;
  if (held == HeldWeights::kAsStored) config.hidden = 64;
  const RandomModel random(config, 5);
  const StoredModel model(random, [&](Role, uint32_t) -> std::optional<kernels::QuantizedFormat> {
    if (held == HeldWeights::kBfloat16) return std::nullopt;
    return kernels::kQuantizedFormats[4];
  });
  CudaHarnessOptions options = Options(/*graphs=*/false);
  options.decode_kernels = true;
  options.tune = tune;
  options.held = held;
  CudaHarness harness(model, options);
  EXPECT_TRUE(harness.made().ok()) << harness.made();
  DecodeBatch batch(harness, rows, /*prompt=*/0);
  batch.Step(rows, 0);
  const uint64_t before = emulate::CallsMade();
  batch.Step(rows, 1);
  return emulate::CallsMade() - before;
}

// The first layer may do more. cuBLASLt may take two kernels for a product, which the emulation
// does not show.
uint64_t PerLayer(uint32_t rows, uint32_t ffn, HeldWeights held = HeldWeights::kBfloat16) {
  return EnqueuedByStep(3, rows, ffn, false, held) - EnqueuedByStep(2, rows, ffn, false, held);
}

// Queries, keys and values; rotary embedding, append and attention; output; gate and up; down.
TEST(LaunchesTest, ALayerOfUpToEightRowsIsFiveKernels) {
  EXPECT_EQ(PerLayer(1, 64), 5u);
  EXPECT_EQ(PerLayer(8, 64), 5u);
}

// Norms and SwiGLU are kernels of their own. A product that is computed in parts, as the output is
// here, takes cuBLASLt no kernel more, because the kernel that adds its parts is the one that takes
// the next norm.
TEST(LaunchesTest, ALayerOfMoreRowsIsEight) {
  EXPECT_EQ(PerLayer(9, 64), 8u);
  EXPECT_EQ(PerLayer(17, 64), 8u);
  EXPECT_EQ(PerLayer(17, 384), 8u) << "both products that end in a residual are in parts";
  EXPECT_EQ(PerLayer(64, 384), 8u) << "none is, and cuBLASLt may take two kernels for each of them";
  EXPECT_EQ(PerLayer(1, 52), 8u) << "sizes that the kernels of small batches do not serve";
}

// As many for few rows. Up to 16 rows are two passes for each matrix, and gates and ups are two.
// Beyond them there is one kernel more for each matrix that becomes bf16.
TEST(LaunchesTest, ALayerOfQuantisedWeightsIsFiveKernelsFourteenOrThirteen) {
  EXPECT_EQ(PerLayer(1, 64, HeldWeights::kAsStored), 5u);
  EXPECT_EQ(PerLayer(8, 64, HeldWeights::kAsStored), 5u);
  EXPECT_EQ(PerLayer(9, 64, HeldWeights::kAsStored), 14u);
  EXPECT_EQ(PerLayer(16, 64, HeldWeights::kAsStored), 14u);
  EXPECT_EQ(PerLayer(17, 64, HeldWeights::kAsStored), 13u);
}

// No norm follows the last layer, where the parts are added all the same.
TEST(LaunchesTest, PartsOfTheLastLayerAreOneKernelMore) {
  EXPECT_EQ(EnqueuedByStep(2, 17, 384), EnqueuedByStep(2, 64, 384) + 1);
}

TEST(LaunchesTest, WhereNoAlgorithmMultipliesInPartsNoProductIs) {
  EXPECT_EQ(EnqueuedByStep(2, 17, 384, /*tune=*/true), EnqueuedByStep(2, 64, 384) + 1);
  emulate::refuse_parts = true;
  EXPECT_EQ(EnqueuedByStep(2, 17, 384, /*tune=*/true), EnqueuedByStep(2, 64, 384));
  emulate::refuse_parts = false;
}

// Exact products of the first layer are one kernel too.
TEST(LaunchesTest, TheFirstLayerIsLikeTheOthers) {
  EXPECT_EQ(EnqueuedByStep(2, 8, 64) - EnqueuedByStep(1, 8, 64), 5u);
}

}  // namespace
}  // namespace folio::model::testing
