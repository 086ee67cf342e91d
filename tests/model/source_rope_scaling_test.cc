// YaRN, LongRoPE and partial rotation in both containers. tests/e2e/test_family_oracle.py compares
// the angles with those of transformers.
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/executor/rope.h"
#include "services/model/source/model_source.h"
#include "tests/model/source_gguf_damage.h"
#include "tests/model/source_hf_damage.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::HfImage;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::TinyOptions;
using nlohmann::json;

using enum absl::StatusCode;

const TinyOptions kOptions = {.seed = 4, .family = "ministral3"};  // heads of 16

json Yarn() {
  return {{"rope_type", "yarn"},
          {"rope_theta", 10000.0},
          {"factor", 8.0},
          {"original_max_position_embeddings", 256},
          {"beta_fast", 16.0},
          {"beta_slow", 2.0},
          {"mscale", 1.0},
          {"mscale_all_dim", 0.5},
          {"llama_4_scaling_beta", 0.1}};
}

json LongRope() {
  return {{"rope_type", "longrope"},
          {"short_factor", {1, 1, 1, 1, 1, 1, 2, 3}},
          {"long_factor", {1, 2, 3, 4, 5, 6, 7, 8}},
          {"original_max_position_embeddings", 256}};
}

// What both files say.
ModelConfig OpenBoth(const HfImage& hf, const GgufImage& gguf) {
  const ScratchDirectory scratch;
  hf.Write(scratch.path());
  const auto one = OpenModel(scratch.path());
  const auto other = OpenGguf(gguf);
  EXPECT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(other.ok()) << other.status();
  if (!one.ok() || !other.ok()) return {};
  EXPECT_EQ(ConfigText((*one)->config()), ConfigText((*other)->config()));
  return (*one)->config();
}

TEST(RopeScaling, YarnIsReadFromBothContainers) {
  HfImage hf = TinyModel(kOptions).Hf(StorageType::kBF16);
  hf.config["rope_parameters"] = Yarn();
  GgufImage gguf = TinyModel(kOptions).Gguf(StorageType::kBF16);
  gguf.SetString("mistral3.rope.scaling.type", "yarn");
  gguf.SetFloat("mistral3.rope.scaling.factor", 8);
  gguf.SetUint("mistral3.rope.scaling.original_context_length", 256);
  gguf.SetFloat("mistral3.rope.scaling.yarn_beta_fast", 16);
  gguf.SetFloat("mistral3.rope.scaling.yarn_beta_slow", 2);
  gguf.SetFloat("mistral3.rope.scaling.yarn_log_multiplier", 0.5f);
  gguf.SetFloat("mistral3.attention.temperature_scale", 0.1f);
  const ModelConfig config = OpenBoth(hf, gguf);
  ASSERT_TRUE(config.yarn.has_value());
  EXPECT_EQ(config.yarn->factor, 8);
  EXPECT_EQ(config.yarn->original_context, 256u);
  const float ln8 = std::log(8.0f);
  EXPECT_FLOAT_EQ(config.rope_magnitude, (0.1f * ln8 + 1) / (0.05f * ln8 + 1));
  EXPECT_EQ(config.query_scale, (QueryScale{0.1f, 256}));
}

// As the authors of Qwen2.5 tell users to write it.
TEST(RopeScaling, YarnStretchesTheContext) {
  HfImage hf = TinyModel({.family = "qwen2"}).Hf(StorageType::kBF16);  // a context of 2048
  hf.config["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 2048}};
  const ScratchDirectory scratch;
  hf.Write(scratch.path());
  const auto source = OpenModel(scratch.path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->config().context, 8192u);
  EXPECT_FLOAT_EQ((*source)->config().rope_magnitude, 0.1f * std::log(4.0f) + 1);
}

TEST(RopeScaling, LongRopeIsReadFromBothContainers) {
  HfImage hf = TinyModel(kOptions).Hf(StorageType::kBF16);
  hf.config["rope_scaling"] = LongRope();
  GgufImage gguf = TinyModel(kOptions).Gguf(StorageType::kBF16);
  gguf.SetUint("mistral3.rope.scaling.original_context_length", 256);
  const float magnitude = std::sqrt(1 + std::log(8.0f) / std::log(256.0f));
  gguf.SetFloat("mistral3.rope.scaling.attn_factor", magnitude);
  for (const auto& [name, key] : {std::pair("rope_factors_short.weight", "short_factor"),
                                  std::pair("rope_factors_long.weight", "long_factor")}) {
    const std::vector<float> values = LongRope()[key];
    gguf.tensors.push_back(
        {name, {8}, 0, std::string(reinterpret_cast<const char*>(values.data()), 32)});
  }
  ModelConfig config = OpenBoth(hf, gguf);
  ASSERT_TRUE(config.long_rope.has_value());
  EXPECT_FLOAT_EQ(config.rope_magnitude, magnitude);
  // The context is longer than the original one.
  ModelConfig of_llama;
  of_llama.head_dim = 16;
  const auto plain = InverseFrequencies(of_llama);
  EXPECT_EQ(InverseFrequencies(config)[7], plain[7] / 8);
  config.context = 256;
  EXPECT_EQ(InverseFrequencies(config)[7], plain[7] / 3);
}

TEST(RopeScaling, APartOfAHeadMayBeRotated) {
  HfImage hf = TinyModel(kOptions).Hf(StorageType::kBF16);
  hf.config["partial_rotary_factor"] = 0.75;
  GgufImage gguf = TinyModel(kOptions).Gguf(StorageType::kBF16);
  gguf.SetUint("mistral3.rope.dimension_count", 12);
  ModelConfig config = OpenBoth(hf, gguf);
  EXPECT_EQ(config.rotary(), 12u);
  const auto frequencies = InverseFrequencies(config);
  ASSERT_EQ(frequencies.size(), 8u);
  EXPECT_EQ(frequencies[0], 1);
  EXPECT_FLOAT_EQ(frequencies[5], std::pow(10000.0f, -10.0f / 12));
  EXPECT_EQ(frequencies[6], 0);
  EXPECT_EQ(frequencies[7], 0);
  // What is not rotated keeps its size.
  config.rope_magnitude = 2;
  RopeAngles angles(config);
  const kernels::RopeTable table = angles.Table(2);
  EXPECT_EQ(table.cos[8], 2 * static_cast<float>(std::cos(1.0)));
  EXPECT_EQ(table.cos[8 + 7], 1);
  EXPECT_EQ(table.sin[8 + 7], 0);
}

// Equal files and other angles are other models.
TEST(RopeScaling, IsPartOfTheFingerprint) {
  ModelConfig config;
  config.head_dim = 16;
  const std::string plain = ConfigText(config);
  std::vector<std::string> texts = {plain};
  const auto add = [&](const auto& change) {
    ModelConfig changed = config;
    change(changed);
    texts.push_back(ConfigText(changed));
  };
  add([](ModelConfig& c) { c.rotary_dim = 12; });
  add([](ModelConfig& c) { c.rope_magnitude = 2; });
  add([](ModelConfig& c) { c.query_scale.emplace(); });
  add([](ModelConfig& c) { c.yarn.emplace(); });
  add([](ModelConfig& c) { c.yarn.emplace().truncate = false; });
  add([](ModelConfig& c) { c.long_rope.emplace(); });
  add([](ModelConfig& c) { c.long_rope.emplace().long_divisors = {2}; });
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
}

std::vector<HfDamage> HfDamages() {
  const auto rope = [](const char* name, json scaling, const char* key, const json& value,
                       absl::StatusCode code, const char* words) {
    scaling[key] = value;
    return Config(name, "rope_scaling", scaling, code, words);
  };
  std::vector<HfDamage> damages = {
      rope("YarnFactor", Yarn(), "factor", 0.5, kInvalidArgument, "yarn factor 0.5 is out of"),
      rope("YarnBetas", Yarn(), "beta_fast", 1, kInvalidArgument, "yarn beta_fast 1 is out of"),
      rope("YarnContext", Yarn(), "original_max_position_embeddings", 0, kInvalidArgument,
           "yarn original context 0 is out of"),
      rope("Magnitude", Yarn(), "attention_factor", 1e9, kInvalidArgument,
           "rope magnitude 1e+09 is out of"),
      rope("QueryScale", Yarn(), "llama_4_scaling_beta", -1, kInvalidArgument,
           "query scale -1 is out of"),
      rope("TooFewFactors", LongRope(), "short_factor", {1, 2}, kInvalidArgument,
           "longrope short factors: 2 numbers, expected 8"),
      rope("NegativeFactor", LongRope(), "long_factor", {1, 2, 3, 4, 5, 6, 7, -8}, kInvalidArgument,
           "longrope long factor -8 is out of"),
      rope("NoFactors", LongRope(), "long_factor", nullptr, kInvalidArgument,
           "long_factor: missing"),
      rope("FactorsAreText", LongRope(), "long_factor", {"a"}, kInvalidArgument,
           "long_factor: has an entry that is not a finite number"),
      Config("PartOfAPair", "partial_rotary_factor", 0.7, kInvalidArgument,
             "rotated dimensions 11 are not an even part of the head's 16"),
      Config("MoreThanAHead", "partial_rotary_factor", 1.5, kInvalidArgument,
             "partial_rotary_factor: 1.5 is out of range (0, 1]"),
  };
  for (HfDamage& damage : damages) damage.model = kOptions;
  return damages;
}

std::vector<GgufDamage> GgufDamages() {
  std::vector<GgufDamage> damages = {
      {"ScaledQueriesOfLlama",
       [](GgufImage& i) { i.SetFloat("llama.attention.temperature_scale", 0.1f); }, kUnimplemented,
       "llama.attention.temperature_scale: 0.1 is not supported"},
      {"YarnAndDivisors",
       [](GgufImage& i) {
         i.SetString("llama.rope.scaling.type", "yarn");
         i.tensors.push_back({"rope_freqs.weight", {8}, 0, std::string(32, '\x3f')});
       },
       kInvalidArgument, "llama.rope.scaling.type: yarn, but the file has divisors"},
      {"OneListOfFactors",
       [](GgufImage& i) {
         i.tensors.push_back({"rope_factors_long.weight", {8}, 0, std::string(32, '\x3f')});
       },
       kInvalidArgument, "rope_factors_short.weight and rope_factors_long.weight: one is missing"},
      {"OddPart", [](GgufImage& i) { i.SetUint("llama.rope.dimension_count", 7); },
       kInvalidArgument, "llama.rope.dimension_count: 7 is not an even part of the head's 16"},
      {"ExtFactor",
       [](GgufImage& i) {
         i.SetString("llama.rope.scaling.type", "yarn");
         i.SetFloat("llama.rope.scaling.factor", 2);
         i.SetUint("llama.rope.scaling.original_context_length", 256);
         i.SetFloat("llama.rope.scaling.yarn_ext_factor", 0.5f);
       },
       kUnimplemented, "yarn_ext_factor: 0.5 is not supported"},
  };
  return damages;
}

class RopeHf : public ::testing::TestWithParam<HfDamage> {};
TEST_P(RopeHf, IsRefusedByName) { CheckRefused(GetParam()); }

class RopeGguf : public ::testing::TestWithParam<GgufDamage> {};
TEST_P(RopeGguf, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Damage, RopeHf, ::testing::ValuesIn(HfDamages()), kName);
INSTANTIATE_TEST_SUITE_P(Damage, RopeGguf, ::testing::ValuesIn(GgufDamages()), kName);

}  // namespace
}  // namespace folio::model
