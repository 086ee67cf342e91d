// The executor of a GPU with weights that are held quantised, against the plain family on the CPU
// with the same numbers in bf16.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/mirror_executor.h"
#include "tests/gpu/prompt_rows.h"
#include "tests/gpu/stored_model.h"
#include "tests/model/conversation.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

using kernels::QuantizedFormat;
using Formats = std::map<Role, const QuantizedFormat*>;

// By their places in kQuantizedFormats.
constexpr const QuantizedFormat& kQ4_0 = kernels::kQuantizedFormats[0];
constexpr const QuantizedFormat& kQ5_1 = kernels::kQuantizedFormats[3];
constexpr const QuantizedFormat& kQ8_0 = kernels::kQuantizedFormats[4];
constexpr const QuantizedFormat& kIq4Nl = kernels::kQuantizedFormats[5];
constexpr const QuantizedFormat& kQ4K = kernels::kQuantizedFormats[6];
constexpr const QuantizedFormat& kQ6K = kernels::kQuantizedFormats[8];

StoredModel::Formats In(Formats formats) {
  return [formats](Role role, uint32_t) -> std::optional<QuantizedFormat> {
    const auto found = formats.find(role);
    if (found == formats.end()) return std::nullopt;
    return *found->second;
  };
}

// Small blocks, of which hidden states and the network are a few.
ModelConfig SmallBlocks() {
  ModelConfig config = GpuConfig();
  config.hidden = 96;
  config.ffn = 160;
  return config;
}

const Formats kMixed = {{Role::kQuery, &kQ4_0},        {Role::kKey, &kQ4_0},
                        {Role::kValue, &kQ8_0},        {Role::kGate, &kQ5_1},
                        {Role::kAttentionOut, &kQ8_0}, {Role::kUp, &kQ5_1},
                        {Role::kDown, &kIq4Nl}};

// As cuda_executor_test has it for weights in bf16.
void ExpectWhatTheCpuSays(const ModelConfig& config, const Formats& formats,
                          const CudaHarnessOptions& options = {}) {
  const RandomModel model(config, 1234);
  const StoredModel stored(model, In(formats));
  CudaHarnessOptions as_stored = options;
  as_stored.held = HeldWeights::kAsStored;
  CudaHarness harness(stored, as_stored);
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  TestPool cpu_pool(config, 400);
  const auto cpu = *MakeCpuExecutor(stored, OpsNamed("plain"), 1, cpu_pool.view());
  Mirror mirror(harness.executor(), *cpu);
  Stage stage{mirror, harness.pool(), harness.board()};
  Transcript transcript;
  EXPECT_EQ(Play(stage, config, /*forced=*/false, transcript), "");
  EXPECT_GT(mirror.outputs, 100u);
  // Activations are rounded to bf16, and the CPU's weights are as well.
  EXPECT_LT(mirror.largest, 0.2f);
  EXPECT_LT(mirror.sum / static_cast<float>(mirror.outputs), 0.03f);
  EXPECT_LT(mirror.behind, 0.15f);
  EXPECT_LT(mirror.other_tokens, mirror.outputs / 10);
  const Apart scores = CompareBoards(harness.board(), cpu_pool.view());
  EXPECT_EQ(scores.missing, 0u);
  EXPECT_LT(scores.mean(), 0.002);
}

TEST(CudaStoredTest, SaysWhatTheCpuSays) { ExpectWhatTheCpuSays(SmallBlocks(), kMixed); }

TEST(CudaStoredTest, SaysWhatTheCpuSaysWithBiases) {
  ExpectWhatTheCpuSays(OfFamily("qwen2", SmallBlocks()), kMixed);
}

// Norms behind products, and another activation.
TEST(CudaStoredTest, SaysWhatTheCpuSaysWithGemmasLayers) {
  ExpectWhatTheCpuSays(OfFamily("gemma3", SmallBlocks()), kMixed);
}

TEST(CudaStoredTest, SaysWhatTheCpuSaysByLibraries) {
  ExpectWhatTheCpuSays(SmallBlocks(), kMixed, {.decode_kernels = false});
}

// Both products that end in a residual are computed in parts where a chunk of a prompt has enough
// rows.
TEST(CudaStoredTest, SaysWhatTheCpuSaysInParts) {
  ModelConfig config = SmallBlocks();
  config.ffn = 512;
  ExpectWhatTheCpuSays(config, kMixed);
}

// What a file of Q4_K_M has.
TEST(CudaStoredTest, SaysWhatTheCpuSaysOfLargeBlocks) {
  ModelConfig config = GpuConfig();
  config.hidden = 256;
  config.ffn = 256;
  config.heads = 4;
  ExpectWhatTheCpuSays(config, {{Role::kQuery, &kQ4K},
                                {Role::kKey, &kQ4K},
                                {Role::kValue, &kQ6K},
                                {Role::kAttentionOut, &kQ4K},
                                {Role::kGate, &kQ4K},
                                {Role::kUp, &kQ4K},
                                {Role::kDown, &kQ6K}});
}

// Up to 8 rows, up to 16 and more are multiplied in different ways.
TEST(CudaStoredTest, SaysWhatTheCpuSaysOfAnyNumberOfRows) {
  const ModelConfig config = SmallBlocks();
  const RandomModel model(config, 1234);
  const StoredModel stored(model, In(kMixed));
  CudaHarness harness(stored, {.held = HeldWeights::kAsStored});
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  TestPool cpu_pool(config, 400);
  const auto cpu = *MakeCpuExecutor(stored, OpsNamed("plain"), 1, cpu_pool.view());
  Mirror mirror(harness.executor(), *cpu);
  ExpectAlikeForRows(mirror, harness.pool(), cpu_pool.view().geometry, config.vocab,
                     {1u, 7u, 8u, 9u, 12u, 15u, 16u, 17u, 24u}, 0.2f, 0.15f);
}

const DeviceWeights& WeightsOf(const std::shared_ptr<CudaModel>& model) { return model->weights(); }

TEST(CudaStoredTest, SaysWhatIsHeldHow) {
  const RandomModel model(SmallBlocks(), 1);
  const auto held = [&](const Formats& formats, HeldWeights wanted = HeldWeights::kAsStored) {
    const StoredModel stored(model, In(formats));
    const auto loaded = CudaModel::Load(stored, {.held = wanted});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return WeightsOf(*loaded).held;
  };
  // Of two layers all but the first one's queries, keys and values.
  EXPECT_EQ(held(kMixed).as_stored, 11u);
  EXPECT_TRUE(held(kMixed).in_bfloat16.empty());
  EXPECT_EQ(held(kMixed, HeldWeights::kBfloat16).as_stored, 0u);
  EXPECT_EQ(held({}).as_stored, 0u);
  Formats formats = kMixed;
  formats[Role::kUp] = &kQ4_0;
  formats.erase(Role::kValue);
  EXPECT_EQ(held(formats).as_stored, 4u);
  EXPECT_EQ(held(formats).in_bfloat16,
            (std::map<std::string, uint32_t>{{"it is beside a matrix of another type", 4},
                                             {"it is beside a matrix of floats", 3}}));
}

TEST(CudaStoredTest, WeightsTakeAboutTheMemoryOfTheFile) {
  ModelConfig config = SmallBlocks();
  config.hidden = 256;
  config.ffn = 1024;
  const RandomModel model(config, 1);
  const StoredModel stored(model, In({{Role::kAttentionOut, &kQ4_0},
                                      {Role::kGate, &kQ4_0},
                                      {Role::kUp, &kQ4_0},
                                      {Role::kDown, &kQ4_0}}));
  const auto bytes = [&](HeldWeights held) {
    const auto loaded = CudaModel::Load(stored, {.held = held});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return static_cast<double>(WeightsOf(*loaded).memory.bytes());
  };
  const double values =
      2.0 * (config.hidden * config.heads * config.head_dim + 3.0 * config.hidden * config.ffn);
  const double saved = bytes(HeldWeights::kBfloat16) - bytes(HeldWeights::kAsStored);
  EXPECT_NEAR(saved, values * (2 - 18.0 / 32), 0.01 * values);
}

TEST(CudaStoredTest, NamesWhatDoesNotFit) {
  const RandomModel model(SmallBlocks(), 1);
  const StoredModel stored(model, In(kMixed));
  const CudaHarness harness(
      stored, {.max_rows = 8, .gpu_memory = 100000, .held = HeldWeights::kAsStored}, 4);
  EXPECT_EQ(harness.made().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(harness.made().message().find("the weights ("), std::string::npos) << harness.made();
}

// A matrix of another size than the configuration has would be sent beyond its place.
TEST(CudaStoredTest, NamesAMatrixOfTheWrongSize) {
  RandomModel model(SmallBlocks(), 1);
  model.SetMatrix(Role::kDown, 1, std::vector<kernels::bf16>(size_t{7} * 160));
  const StoredModel stored(model, In(kMixed));
  const CudaHarness harness(stored, {.max_rows = 8, .held = HeldWeights::kAsStored}, 4);
  EXPECT_EQ(harness.made(),
            absl::InvalidArgumentError("the down matrix of layer 1 has the shape [7, 160], the "
                                       "configuration wants [96, 160]"));
}

}  // namespace
}  // namespace folio::model::testing
