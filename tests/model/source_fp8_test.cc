// Hugging Face directories with weights in F8_E4M3, and what is refused of them.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "services/model/tp/shard.h"
#include "tests/model/source_reading.h"
#include "tests/testing/quantize.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::Encode;
using ::folio::testing::HfImage;
using ::folio::testing::HfTensor;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kDown[] = "model.layers.1.mlp.down_proj.weight";

std::string Bytes(const std::vector<kernels::e4m3>& codes) {
  return {reinterpret_cast<const char*>(codes.data()), codes.size()};
}

std::string Floats(const std::vector<float>& values) { return Encode(StorageType::kF32, values); }

// What quantisers write: the layers' matrices in F8_E4M3, each with scales of shape [rows, 1], or
// with one scale of shape [].
HfImage Quantized(bool one_scale = false) {
  HfImage image = TinyModel().Hf(StorageType::kBF16);
  image.config["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", "float-quantized"},
      {"config_groups",
       {{"group_0",
         {{"weights", {{"type", "float"}, {"num_bits", 8}, {"strategy", "channel"}}},
          {"input_activations", {{"type", "float"}, {"num_bits", 8}, {"dynamic", true}}}}}}}};
  std::vector<HfTensor> scales;
  for (HfTensor& tensor : image.tensors) {
    if (tensor.name.find("_proj.weight") == std::string::npos) continue;
    const size_t rows = tensor.shape[0];
    const size_t cols = tensor.shape[1];
    std::vector<float> values(rows * cols);
    DequantizeRow(StorageType::kBF16, reinterpret_cast<const std::byte*>(tensor.bytes.data()),
                  values.size(), values.data());
    std::vector<kernels::e4m3> codes(values.size());
    std::vector<float> row_scales;
    const size_t step = one_scale ? values.size() : cols;
    for (size_t at = 0; at < values.size(); at += step) {
      row_scales.push_back(kernels::QuantizeRow(&values[at], step, &codes[at]));
    }
    tensor.dtype = "F8_E4M3";
    tensor.bytes = Bytes(codes);
    std::vector<uint64_t> shape;
    if (!one_scale) shape = {rows, 1};
    scales.push_back({tensor.name + "_scale", "F32", shape, Floats(row_scales)});
  }
  image.tensors.insert(image.tensors.end(), scales.begin(), scales.end());
  return image;
}

absl::StatusOr<std::unique_ptr<ModelSource>> Open(const HfImage& image) {
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  return OpenModel(scratch.path());  // the mapping outlives the files
}

// The codes that quantising the model in bf16 gives, and the numbers that they stand for.
TEST(HfFp8, ScalesOfRowsAreTakenAsTheyAre) {
  const auto stored = Open(Quantized());
  ASSERT_TRUE(stored.ok()) << stored.status();
  const auto plain = Open(TinyModel().Hf(StorageType::kBF16));
  ASSERT_TRUE(plain.ok()) << plain.status();
  for (const Role role : kMatrixRoles) {
    const auto taken = (*stored)->ReadScaled(role, 1);
    const auto made = (*plain)->ReadScaled(role, 1);
    const auto numbers = (*stored)->ReadMatrix(role, 1);
    ASSERT_TRUE(taken.ok() && made.ok() && numbers.ok());
    EXPECT_EQ(Bytes(taken->codes), Bytes(made->codes));
    EXPECT_EQ(taken->scales, made->scales);
    const size_t cols = taken->codes.size() / taken->scales.size();
    for (size_t i = 0; i < numbers->size(); ++i) {
      const float want = taken->codes[i].ToFloat() * taken->scales[i / cols];
      ASSERT_EQ((*numbers)[i].bits, kernels::bf16::Round(want).bits);
    }
  }
  EXPECT_NE((*stored)->fingerprint(), (*plain)->fingerprint());
}

TEST(HfFp8, OneScaleIsThatOfEveryRow) {
  const auto stored = Open(Quantized(/*one_scale=*/true));
  ASSERT_TRUE(stored.ok()) << stored.status();
  const auto taken = (*stored)->ReadScaled(Role::kDown, 1);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->scales, std::vector<float>(64, taken->scales.front()));
}

TEST(HfFp8, ScalesAreAPartOfTheFingerprint) {
  HfImage image = Quantized();
  const auto one = Open(image);
  HfTensor& scales = image.Tensor(std::string(kDown) + "_scale");
  scales.bytes = Floats(std::vector<float>(scales.shape[0], 0.5f));
  const auto other = Open(image);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE((*one)->fingerprint(), (*other)->fingerprint());
}

// Ranks have the codes of the whole matrix, with the scales of its rows.
TEST(HfFp8, AShardHasPartsOfTheWholesRows) {
  const auto whole = Open(Quantized());
  ASSERT_TRUE(whole.ok());
  const auto shards = *ShardForAll((*whole)->config(), 2);
  const ShardSource second(**whole, shards[1]);
  const auto all = (*whole)->ReadScaled(Role::kDown, 0);
  const auto part = second.ReadScaled(Role::kDown, 0);
  ASSERT_TRUE(all.ok() && part.ok());
  EXPECT_EQ(part->scales, all->scales);
  const size_t cols = all->codes.size() / all->scales.size();
  const Range ffn = shards[1].ffn;
  for (size_t i = 0; i < part->codes.size(); ++i) {
    const size_t at = i / ffn.count * cols + ffn.first + i % ffn.count;
    ASSERT_EQ(part->codes[i].bits, all->codes[at].bits);
  }
  const auto keys = (*whole)->ReadScaled(Role::kKey, 0);
  const auto half = second.ReadScaled(Role::kKey, 0);
  ASSERT_TRUE(keys.ok() && half.ok());
  const size_t rows = keys->scales.size() / 2;
  EXPECT_EQ(half->scales, std::vector<float>(keys->scales.begin() + rows, keys->scales.end()));
}

absl::Status Refusal(const std::function<void(HfImage&)>& change) {
  HfImage image = Quantized();
  change(image);
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  return Load(scratch.path());
}

void ExpectRefusal(absl::StatusCode code, const std::vector<std::string>& words,
                   const std::function<void(HfImage&)>& change) {
  const absl::Status status = Refusal(change);
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& word : words) EXPECT_THAT(status.message(), HasSubstr(word));
}

TEST(HfFp8, OtherScalesAreRefusedByName) {
  const std::string scale = std::string(kDown) + "_scale";
  const auto unserved = absl::StatusCode::kUnimplemented;
  ExpectRefusal(absl::StatusCode::kInvalidArgument, {scale, "missing", "one for each row"},
                [&](HfImage& image) { image.EraseTensor(scale); });
  ExpectRefusal(unserved, {scale + "_inv", "config.json has no weight_block_size"},
                [&](HfImage& image) { image.Tensor(scale).name += "_inv"; });
  ExpectRefusal(unserved, {scale, "shape [8, 8]", "one for each row"}, [&](HfImage& image) {
    image.Tensor(scale).shape = {8, 8};
  });
  ExpectRefusal(unserved, {scale, "type I32"},
                [&](HfImage& image) { image.Tensor(scale).dtype = "I32"; });
  for (const float bad : {-1.0f, std::numeric_limits<float>::infinity()}) {
    ExpectRefusal(absl::StatusCode::kDataLoss, {scale, "at 0"},
                  [&](HfImage& image) { image.Tensor(scale).bytes.replace(0, 4, Floats({bad})); });
  }
  ExpectRefusal(unserved, {"input_scale", "would change the result"}, [&](HfImage& image) {
    image.tensors.push_back({"model.layers.1.mlp.down_proj.input_scale", "F32", {}, Floats({1})});
  });
}

TEST(HfFp8, OtherTensorsAndCodesAreRefusedByName) {
  ExpectRefusal(absl::StatusCode::kDataLoss, {kDown, "row 0, column 3"},
                [&](HfImage& image) { image.Tensor(kDown).bytes[3] = '\x7f'; });
  ExpectRefusal(absl::StatusCode::kUnimplemented, {"model.norm.weight", "type F8_E4M3"},
                [&](HfImage& image) {
                  HfTensor& norm = image.Tensor("model.norm.weight");
                  norm.dtype = "F8_E4M3";
                  norm.bytes.resize(norm.shape[0]);
                });
  ExpectRefusal(absl::StatusCode::kUnimplemented, {kDown, "type F8_E5M2"},
                [&](HfImage& image) { image.Tensor(kDown).dtype = "F8_E5M2"; });
}

TEST(HfFp8, ConfigurationsOfOtherSchemesAreRefusedByName) {
  const auto refused = [](const std::vector<std::string>& words,
                          const std::function<void(json&)>& change) {
    ExpectRefusal(absl::StatusCode::kUnimplemented, words,
                  [&](HfImage& image) { change(image.config["quantization_config"]); });
  };
  refused({"quant_method", "quanto", "fp8"}, [](json& c) { c["quant_method"] = "quanto"; });
  refused({"format", "marlin-24"}, [](json& c) { c["format"] = "marlin-24"; });
  refused({"kv_cache_scheme"}, [](json& c) { c["kv_cache_scheme"] = {{"num_bits", 8}}; });
  refused({"group_0: weights: strategy", "block"},
          [](json& c) { c["config_groups"]["group_0"]["weights"]["strategy"] = "block"; });
  refused({"group_0: weights: num_bits"},
          [](json& c) { c["config_groups"]["group_0"]["weights"]["num_bits"] = 4; });
  refused({"group_0: input_activations: dynamic"},
          [](json& c) { c["config_groups"]["group_0"]["input_activations"]["dynamic"] = false; });
  const json fp8 = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}};
  EXPECT_TRUE(Refusal([&](HfImage& image) { image.config["quantization_config"] = fp8; }).ok());
  refused({"activation_scheme", "static"}, [&](json& c) {
    c = fp8;
    c["activation_scheme"] = "static";
  });
}

}  // namespace
}  // namespace folio::model
