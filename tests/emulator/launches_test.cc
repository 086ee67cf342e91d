// How many kernels a layer of a decode step is. Each costs a small batch microseconds on a GPU,
// whatever it computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/runtime.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/decode_batch.h"
#include "tests/gpu/stored_model.h"

namespace folio::model::testing {
namespace {

using kernels::cuda::DataType;

struct Setting {
  bool tune = false;
  HeldWeights held = HeldWeights::kBfloat16;
  DataType type = DataType::kBf16;
  uint32_t own_rows = 0;
};
constexpr Setting kStored = {.held = HeldWeights::kAsStored};
constexpr Setting kFp8 = {.type = DataType::kE4M3};

CudaHarnessOptions OptionsOf(const Setting& setting) {
  CudaHarnessOptions options = Options(/*graphs=*/false);
  options.decode_kernels = true;
  options.tune = setting.tune;
  options.held = setting.held;
  options.type = setting.type;
  options.own_rows = setting.own_rows;
  return options;
}

// What a step of `rows` sequences enqueues.
uint64_t EnqueuedByStep(uint32_t layers, uint32_t rows, uint32_t ffn, const Setting& setting = {}) {
  ModelConfig config = setting.type == DataType::kE4M3 ? Fp8Config() : GpuConfig();
  config.num_layers = layers;
  config.ffn = ffn;
  const bool stored = setting.held == HeldWeights::kAsStored;
  if (stored) config.hidden = 64;
  const RandomModel random(config, 5);
  const StoredModel model(random, [&](Role, uint32_t) -> std::optional<kernels::QuantizedFormat> {
    if (!stored) return std::nullopt;
    return kernels::kQuantizedFormats[4];
  });
  CudaHarness harness(model, OptionsOf(setting));
  EXPECT_TRUE(harness.made().ok()) << harness.made();
  DecodeBatch batch(harness, rows, /*prompt=*/0);
  batch.Step(rows, 0);
  const uint64_t before = emulate::CallsMade();
  batch.Step(rows, 1);
  return emulate::CallsMade() - before;
}

// The first layer may do more. cuBLASLt may take two kernels for a product, which the emulation
// does not show.
uint64_t PerLayer(uint32_t rows, uint32_t ffn, const Setting& setting = {}) {
  return EnqueuedByStep(3, rows, ffn, setting) - EnqueuedByStep(2, rows, ffn, setting);
}

// Queries, keys and values; rotary embedding, append and attention; output; gate and up; down.
TEST(LaunchesTest, ALayerOfUpToEightRowsIsFiveKernels) {
  EXPECT_EQ(PerLayer(1, 64), 5u);
  EXPECT_EQ(PerLayer(8, 64), 5u);
  EXPECT_EQ(PerLayer(8, 64, kFp8), 5u);
}

// Where these kernels are found to be faster for them too.
TEST(LaunchesTest, ALayerOfUpToSixteenRowsMayBeFiveKernels) {
  EXPECT_EQ(PerLayer(9, 64, {.own_rows = 16}), 5u);
  EXPECT_EQ(PerLayer(16, 64, {.own_rows = 16}), 5u);
  EXPECT_EQ(PerLayer(17, 64, {.own_rows = 16}), 8u);
  EXPECT_EQ(PerLayer(16, 64, {.type = DataType::kE4M3, .own_rows = 16}), 5u);
}

// What it takes to make an executor that chooses its products.
uint64_t EnqueuedByTuning(uint32_t own_rows) {
  const RandomModel model(GpuConfig(), 5);
  const uint64_t before = emulate::CallsMade();
  const CudaHarness harness(model, OptionsOf({.tune = true, .own_rows = own_rows}));
  EXPECT_TRUE(harness.made().ok()) << harness.made();
  return emulate::CallsMade() - before;
}

TEST(LaunchesTest, TuningTriesBothForSixteenRows) {
  EXPECT_GT(EnqueuedByTuning(0), EnqueuedByTuning(8));
}

TEST(LaunchesTest, TuningChoosesEitherForSixteenRows) {
  EXPECT_THAT(EnqueuedByStep(2, 16, 64, {.tune = true}),
              ::testing::AnyOf(EnqueuedByStep(2, 16, 64, {.own_rows = 16}),
                               EnqueuedByStep(2, 16, 64, {.own_rows = 8})));
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
  EXPECT_EQ(PerLayer(9, 64, kFp8), 12u) << "the inputs of four products are quantised";
}

// Up to sixteen rows are multiplied by the codes. Beyond them there is one kernel more for each
// matrix, which becomes bf16.
TEST(LaunchesTest, ALayerOfQuantisedWeightsIsFiveKernelsOrThirteen) {
  EXPECT_EQ(PerLayer(1, 64, kStored), 5u);
  EXPECT_EQ(PerLayer(8, 64, kStored), 5u);
  EXPECT_EQ(PerLayer(9, 64, kStored), 5u);
  EXPECT_EQ(PerLayer(16, 64, kStored), 5u);
  EXPECT_EQ(PerLayer(17, 64, kStored), 13u);
}

// No norm follows the last layer, where the parts are added all the same.
TEST(LaunchesTest, PartsOfTheLastLayerAreOneKernelMore) {
  EXPECT_EQ(EnqueuedByStep(2, 17, 384), EnqueuedByStep(2, 64, 384) + 1);
}

TEST(LaunchesTest, WhereNoAlgorithmMultipliesInPartsNoProductIs) {
  EXPECT_EQ(EnqueuedByStep(2, 17, 384, {.tune = true}), EnqueuedByStep(2, 64, 384) + 1);
  emulate::refuse_parts = true;
  EXPECT_EQ(EnqueuedByStep(2, 17, 384, {.tune = true}), EnqueuedByStep(2, 64, 384));
  emulate::refuse_parts = false;
}

// Exact products of the first layer are one kernel too.
TEST(LaunchesTest, TheFirstLayerIsLikeTheOthers) {
  EXPECT_EQ(EnqueuedByStep(2, 8, 64) - EnqueuedByStep(1, 8, 64), 5u);
}

}  // namespace
}  // namespace folio::model::testing
