// Hugging Face directories with quantised matrices whose parts or configuration are damaged.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/packed_image.h"
#include "tests/model/source_reading.h"
#include "tests/testing/scratch_directory.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using ::folio::testing::HfTensor;
using ::folio::testing::ScratchDirectory;
using nlohmann::json;
using ::testing::HasSubstr;

using enum absl::StatusCode;
using enum Packing;

constexpr auto kNo = kUnimplemented;

constexpr char kDown[] = "model.layers.1.mlp.down_proj";

struct PackedDamage {
  const char* name;
  Packing packing;
  std::function<void(HfImage&)> edit;
  absl::StatusCode code;
  const char* words;  // divided by |
};

// Gives a field of quantization_config that value.
std::function<void(HfImage&)> Field(const char* key, const json& value) {
  return [=](HfImage& image) { image.config["quantization_config"][key] = value; };
}

std::function<void(HfImage&)> Weights(const char* key, const json& value) {
  return [=](HfImage& image) {
    image.config["quantization_config"]["config_groups"]["group_0"]["weights"][key] = value;
  };
}

std::function<void(HfImage&)> Without(const char* ending) {
  return [=](HfImage& image) { image.EraseTensor(std::string(kDown) + ending); };
}

std::function<void(HfImage&)> Of(const char* ending, const std::function<void(HfTensor&)>& edit) {
  return [=](HfImage& image) { edit(image.Tensor(std::string(kDown) + ending)); };
}

std::vector<PackedDamage> ConfigurationDamage() {
  return {
      {"AwqBits", kAwq, Field("bits", 3), kNo, "quantization_config: bits: 3|only [4]"},
      {"AwqVersion", kAwq, Field("version", "gemv"), kNo, "version: \"gemv\"|gemm"},
      {"AwqNoZeros", kAwq, Field("zero_point", false), kNo, "zero_point: false"},
      {"AwqGroup", kAwq, Field("group_size", 48), kNo, "group_size: 48|[32,64,128,-1]"},
      {"AwqGroupAsText", kAwq, Field("group_size", "32"), kNo, "group_size: \"32\""},
      {"GptqBits", kGptq, Field("bits", 8), kNo, "bits: 8"},
      {"GptqFormat", kGptq, Field("checkpoint_format", "marlin"), kNo,
       "checkpoint_format: \"marlin\"|gptq_v2"},
      {"GptqMarlin", kGptq, Field("is_marlin_format", true), kNo, "is_marlin_format: true"},
      {"GptqDynamic", kGptq, Field("dynamic", {{"-:.*", {{"bits", 8}}}}), kNo, "dynamic: "},
      {"GptqWords", kGptq, Field("pack_dtype", "int16"), kNo, "pack_dtype: \"int16\""},
      {"GptqSymAsNumber", kGptq, Field("sym", 1), kNo, "sym: 1"},
      {"GptqNoOrder", kGptq, Field("desc_act", nullptr), kNo, "desc_act: null"},
      {"GptqOrderDenied", kGptqOrder, Field("desc_act", false), kInvalidArgument,
       ".g_idx: group|is out of order|desc_act: false"},
  };
}

std::vector<PackedDamage> OtherConfigurationDamage() {
  return {
      {"PackBits", kPackQuantized, Weights("num_bits", 8), kNo, "group_0: weights: num_bits: 8"},
      {"PackType", kPackQuantized, Weights("type", "float"), kNo,
       "group_0: weights: type: \"float\""},
      {"PackStrategy", kPackQuantized, Weights("strategy", "block"), kNo, "strategy: \"block\""},
      {"PackOrder", kPackQuantized, Weights("actorder", "group"), kNo, "actorder: \"group\""},
      {"PackSymmetryMissing", kPackQuantized, Weights("symmetric", nullptr), kNo,
       "symmetric: null"},
      {"PackFormat", kPackQuantized, Field("format", "marlin-24"), kNo,
       "format: \"marlin-24\"|pack-quantized"},
      {"BlockSize", kBlocks, Field("weight_block_size", {128}), kNo, "weight_block_size: [128]"},
      {"BlockOfZero", kBlocks, Field("weight_block_size", {0, 128}), kNo,
       "weight_block_size: [0,128]"},
      {"BlockActivations", kBlocks, Field("activation_scheme", "static"), kNo,
       "activation_scheme: \"static\""},
      {"OtherMethod", kAwq, Field("quant_method", "bitsandbytes"), kNo,
       "quant_method: \"bitsandbytes\"|gptq"},
      {"NoConfiguration", kGptq, [](HfImage& i) { i.config.erase("quantization_config"); },
       kInvalidArgument, "q_proj.weight: missing|q_proj.qweight|no quantization_config"},
  };
}

std::vector<PackedDamage> PartDamage() {
  return {
      {"NoZeros", kAwq, Without(".qzeros"), kInvalidArgument, "down_proj.qzeros: missing"},
      {"NoScales", kGptq, Without(".scales"), kInvalidArgument, "down_proj.scales: missing"},
      {"NoOrder", kGptqOrder, Without(".g_idx"), kInvalidArgument, "down_proj.g_idx: missing"},
      {"NoBlockScales", kBlocks, Without(".weight_scale_inv"), kInvalidArgument,
       "down_proj.weight_scale_inv: missing"},
      {"NoPackedScales", kPackQuantized, Without(".weight_scale"), kInvalidArgument,
       "weight_scale: missing"},
      {"NoPackedZeros", kPackQuantized, Weights("symmetric", false), kInvalidArgument,
       "weight_zero_point: missing"},
      {"NoCodes", kAwq, Without(".qweight"), kInvalidArgument, "down_proj.weight: missing"},
      {"ZerosNotWanted", kPackQuantizedZeros, Weights("symmetric", true), kNo,
       "weight_zero_point: not part of"},
      {"OtherGroup", kAwq, Field("group_size", 64), kInvalidArgument,
       ".qzeros: shape [2, |expected [1, "},
      {"OtherPackedGroup", kPackQuantized, Weights("group_size", 64), kInvalidArgument,
       ".weight_scale: shape [|expected ["},
      {"OtherBlock", kBlocks, Field("weight_block_size", {16, 16}), kInvalidArgument,
       ".weight_scale_inv: shape [2, 2], expected [4, 4]"},
  };
}

std::vector<PackedDamage> ContentDamage() {
  return {
      {"GroupOutside", kGptqOrder, Of(".g_idx", [](HfTensor& t) { t.bytes[3] = '\x40'; }),
       kDataLoss, "down_proj.g_idx: group|is not one of 4"},
      {"GroupNegative", kGptqOrder,
       Of(".g_idx", [](HfTensor& t) { t.bytes.replace(0, 4, "\xff\xff\xff\xff"); }), kDataLoss,
       "group -1 of column 0"},
      {"ScaleIsNan", kGptq, Of(".scales", [](HfTensor& t) { t.bytes.replace(0, 2, "\xff\x7f"); }),
       kDataLoss, "down_proj.weight: the scale of a block is NaN|row 0, column 0"},
      {"CodeIsNan", kBlocks, Of(".weight", [](HfTensor& t) { t.bytes[3] = '\x7f'; }), kDataLoss,
       "down_proj.weight: |row 0, column 3"},
      {"CodesOfOtherType", kAwq, Of(".qweight", [](HfTensor& t) { t.dtype = "F32"; }), kNo,
       "down_proj.qweight: type F32|I32"},
      {"ZerosOfOtherType", kGptq, Of(".qzeros", [](HfTensor& t) { t.dtype = "F32"; }), kNo,
       "down_proj.qzeros: type F32"},
      {"ScalesOfOtherType", kAwq, Of(".scales", [](HfTensor& t) { t.dtype = "I16"; }), kNo,
       "down_proj.scales: type I16"},
      {"CodesOfOtherShape", kGptq,
       Of(".qweight",
          [](HfTensor& t) {
            t.shape = {t.shape[1], t.shape[0]};
          }),
       kInvalidArgument, "down_proj."},
      {"CodesOfOneDimension", kAwq,
       Of(".qweight", [](HfTensor& t) { t.shape = {t.shape[1] * t.shape[0]}; }), kInvalidArgument,
       "down_proj.qweight: shape|expected two dimensions"},
      {"OtherWeightShape", kPackQuantized,
       Of(".weight_shape", [](HfTensor& t) { t.bytes[8] = '\x10'; }), kInvalidArgument,
       "down_proj.weight_shape: 64 rows and 16 columns"},
      {"OrderOfPackedColumns", kPackQuantized,
       [](HfImage& i) {
         i.tensors.push_back(
             {std::string(kDown) + ".weight_g_idx", "I32", {128}, std::string(512, '\0')});
       },
       kNo, "down_proj.weight_g_idx: not part of"},
  };
}

class HfPackedDamage : public ::testing::TestWithParam<PackedDamage> {};

TEST_P(HfPackedDamage, IsRefusedByName) {
  const PackedDamage& damage = GetParam();
  HfImage image = MakePackedPair(damage.packing, 32).packed;
  const ScratchDirectory whole;
  image.Write(whole.path());
  ASSERT_TRUE(Load(whole.path()).ok()) << Load(whole.path());
  damage.edit(image);
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  const absl::Status status = Load(scratch.path());
  EXPECT_EQ(status.code(), damage.code) << status;
  for (const absl::string_view word : absl::StrSplit(damage.words, '|')) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(word)));
  }
}

const auto kName = [](const ::testing::TestParamInfo<PackedDamage>& info) {
  return info.param.name;
};

INSTANTIATE_TEST_SUITE_P(Configuration, HfPackedDamage, ::testing::ValuesIn(ConfigurationDamage()),
                         kName);
INSTANTIATE_TEST_SUITE_P(OtherConfiguration, HfPackedDamage,
                         ::testing::ValuesIn(OtherConfigurationDamage()), kName);
INSTANTIATE_TEST_SUITE_P(Contents, HfPackedDamage, ::testing::ValuesIn(ContentDamage()), kName);
INSTANTIATE_TEST_SUITE_P(Parts, HfPackedDamage, ::testing::ValuesIn(PartDamage()), kName);

}  // namespace
}  // namespace folio::model
