// Gemma 3 in both containers: what differs from Llama is read, and refused where it is damaged.
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "tests/model/source_gguf_damage.h"
#include "tests/model/source_hf_damage.h"
#include "tests/model/source_reading.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::HfImage;
using ::folio::testing::kTinyLocalTheta;
using ::folio::testing::kTinyQueryScalar;
using ::folio::testing::kTinyWindow;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::TinyOptions;
using nlohmann::json;

using enum absl::StatusCode;

const TinyOptions kGemma3Options = {
    .seed = 11, .layers = 3, .rope_theta = 1000000, .family = "gemma3"};

TEST(Gemma3, IsReadFromBothContainers) {
  const TinyModel model(kGemma3Options);
  ForBothContainers(model, [&model](const ModelSource& source) {
    const ModelConfig& config = source.config();
    EXPECT_EQ(config.architecture, "gemma3");
    EXPECT_EQ(config.rope_theta, 1000000.0f);
    EXPECT_EQ(config.embedding_scale, 8.0f);  // the root of 64
    EXPECT_TRUE(config.tied_embeddings);
    ASSERT_TRUE(config.others.has_value());
    EXPECT_EQ(config.others->window, kTinyWindow);
    EXPECT_EQ(config.others->rope_theta, kTinyLocalTheta);
    EXPECT_EQ(config.others->layers, (std::vector<bool>{true, false, true}));
    for (const Role role : {Role::kAttentionNorm, Role::kPostAttentionNorm, Role::kFfnNorm,
                            Role::kPostFfnNorm, Role::kKeyNorm, Role::kFinalNorm}) {
      const auto norm = source.ReadVector(role, 1);
      ASSERT_TRUE(norm.ok()) << norm.status();
      EXPECT_EQ(*norm, model.Find(role, 1).values) << InfoOf(role).name;
    }
    // Scores are divided by the root of 25, and kernels divide them by that of 16.
    EXPECT_FLOAT_EQ(config.query_gain, 4 / std::sqrt(kTinyQueryScalar));
    const std::vector<float> query = source.ReadVector(Role::kQueryNorm, 1).value();
    const std::vector<float>& stored = model.Find(Role::kQueryNorm, 1).values;
    ASSERT_EQ(query.size(), stored.size());
    for (size_t i = 0; i < query.size(); ++i) EXPECT_FLOAT_EQ(query[i], 0.8f * stored[i]);
  });
}

ModelConfig HfConfig(const std::function<void(json&)>& edit) {
  HfImage image = TinyModel(kGemma3Options).Hf(StorageType::kBF16);
  edit(image.config);
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  const auto source = OpenModel(scratch.path());
  EXPECT_TRUE(source.ok()) << source.status();
  return source.ok() ? (*source)->config() : ModelConfig();
}

// Newer files name the kind of each layer, and have the angles of each kind in rope_parameters.
TEST(Gemma3, NewerFilesSayTheSame) {
  const ModelConfig older = HfConfig([](json& config) {
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  });
  const ModelConfig newer = HfConfig([](json& config) {
    for (const char* key : {"sliding_window_pattern", "rope_local_base_freq", "rope_theta"}) {
      config.erase(key);
    }
    config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
    config["rope_parameters"] = {
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", kTinyLocalTheta}}},
        {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}}};
  });
  EXPECT_EQ(ConfigText(older), ConfigText(newer));
  EXPECT_EQ(newer.rope_divisors, std::vector<float>(8, 8));
}

TEST(Gemma3, WhatAFileLeavesOutIsGemmas) {
  const ModelConfig config = HfConfig([](json& edited) {
    for (const char* key : {"sliding_window_pattern", "rope_local_base_freq", "rope_theta",
                            "query_pre_attn_scalar", "tie_word_embeddings", "hidden_activation"}) {
      edited.erase(key);
    }
  });
  EXPECT_EQ(config.rope_theta, 1000000.0f);
  EXPECT_EQ(config.others->rope_theta, 10000.0f);
  EXPECT_EQ(config.others->layers, std::vector<bool>(3, true));  // up to the sixth
  EXPECT_FLOAT_EQ(config.query_gain, 0.25f);
  EXPECT_TRUE(config.tied_embeddings);
}

// Converters name neither the kinds of layers nor the scale, and llama.cpp assumes Gemma's.
TEST(Gemma3, GgufFilesOfConvertersAreRead) {
  GgufImage image = TinyModel(kGemma3Options).Gguf(StorageType::kF32);
  for (const char* key : {"gemma3.attention.sliding_window_pattern", "gemma3.attention.scale",
                          "gemma3.rope.freq_base_swa"}) {
    image.Erase(key);
  }
  image.SetString("gemma3.rope.scaling.type", "linear");
  image.SetFloat("gemma3.rope.scaling.factor", 8);
  const auto source = OpenGguf(image);
  ASSERT_TRUE(source.ok()) << source.status();
  const ModelConfig& config = (*source)->config();
  EXPECT_EQ(config.others->layers, std::vector<bool>(3, true));
  EXPECT_EQ(config.others->rope_theta, 10000.0f);
  EXPECT_EQ(config.query_gain, 1.0f);
  EXPECT_EQ(config.rope_divisors, std::vector<float>(8, 8));
  image.SetUint("gemma3.attention.sliding_window_pattern", 2);
  EXPECT_EQ(OpenGguf(image).value()->config().others->layers,
            (std::vector<bool>{true, false, true}));
}

TEST(Gemma3, TheTextModelAloneIsTold) {
  EXPECT_EQ(HfConfig([](json& c) { c["architectures"] = {"Gemma3TextModel"}; }).architecture,
            "gemma3");
  EXPECT_EQ(HfConfig([](json& c) { c.erase("architectures"); }).architecture, "gemma3");
}

std::vector<GgufDamage> GgufDamages() {
  const char* key = "blk.1.post_ffw_norm.weight";
  std::vector<GgufDamage> damages = {
      {"NoNorm", [=](GgufImage& i) { i.EraseTensor(key); }, kInvalidArgument,
       "tensor blk.1.post_ffw_norm.weight: missing"},
      {"ShortNorm",
       Tensor(key,
              [](auto& t) {
                t.extents = {32};
                t.bytes.resize(128);
              }),
       kInvalidArgument, "blk.1.post_ffw_norm.weight: shape [32], expected [64]"},
      {"NoWindow", [](GgufImage& i) { i.Erase("gemma3.attention.sliding_window"); },
       kInvalidArgument, "gemma3.attention.sliding_window: missing"},
      {"EmptyWindow", Uint("gemma3.attention.sliding_window", 0), kInvalidArgument,
       "sliding window 0 is out of range"},
      {"NoPeriod", Uint("gemma3.attention.sliding_window_pattern", 0), kInvalidArgument,
       "gemma3.attention.sliding_window_pattern: 0"},
      {"KindsOfOtherLayers",
       [](GgufImage& i) {
         std::string kinds(12, '\0');
         kinds[0] = static_cast<char>(GgufType::kBool);
         kinds[4] = 1;
         i.SetRaw("gemma3.attention.sliding_window_pattern", GgufType::kArray, kinds + '\1');
       },
       kInvalidArgument, "kinds of layers: 1, but 3 layers"},
      {"CapOfScores", [](GgufImage& i) { i.SetFloat("gemma3.attn_logit_softcapping", 50); },
       kUnimplemented, "gemma3.attn_logit_softcapping: 50 is not supported"},
      {"CapOfLogits", [](GgufImage& i) { i.SetFloat("gemma3.final_logit_softcapping", 30); },
       kUnimplemented, "gemma3.final_logit_softcapping: 30 is not supported"},
      {"Angles", [](GgufImage& i) { i.SetFloat("gemma3.rope.freq_base_swa", 0); }, kInvalidArgument,
       "rope theta of local layers 0 is out of range"},
      {"OtherGemma", String("general.architecture", "gemma3n"), kUnimplemented,
       "general.architecture gemma3n is not supported"},
  };
  for (GgufDamage& damage : damages) damage.model = kGemma3Options;
  return damages;
}

std::vector<HfDamage> HfDamages() {
  std::vector<HfDamage> damages = {
      Config("Pictures", "vision_config", json::object(), kUnimplemented,
             "vision_config: a model for other input than text"),
      Config("Activation", "hidden_activation", "gelu", kUnimplemented,
             "hidden_activation: \"gelu\" is not supported"),
      Config("CapOfScores", "attn_logit_softcapping", 50.0, kUnimplemented,
             "attn_logit_softcapping: 50.0 is not supported"),
      Config("CapOfLogits", "final_logit_softcapping", 30.0, kUnimplemented,
             "final_logit_softcapping: 30.0 is not supported"),
      Config("BothDirections", "use_bidirectional_attention", true, kUnimplemented,
             "use_bidirectional_attention: true is not supported"),
      Config("OtherKind", "layer_types", {"chunked_attention"}, kUnimplemented,
             "layer_types: \"chunked_attention\" is not supported"),
      Config("KindsOfOtherLayers", "layer_types", {"full_attention"}, kInvalidArgument,
             "kinds of layers: 1, but 3 layers"),
      Config("KindsAreNoList", "layer_types", 3, kInvalidArgument, "layer_types: not a list"),
      Config("NoPeriod", "sliding_window_pattern", 0, kInvalidArgument,
             "sliding_window_pattern: 0"),
      Config("NoWindow", "sliding_window", nullptr, kInvalidArgument, "sliding_window: missing"),
      Config("Scalar", "query_pre_attn_scalar", 0, kInvalidArgument, "query scalar"),
      Config("ScaledLocalAngles", "rope_parameters",
             {{"sliding_attention", {{"rope_type", "linear"}, {"factor", 2.0}}}}, kUnimplemented,
             "rope_parameters.sliding_attention: rope_type: \"linear\" is not supported"),
      Config("OtherLocalAngles", "rope_parameters",
             {{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 7.0}}}},
             kInvalidArgument,
             "rope_parameters.sliding_attention.rope_theta contradicts rope_local_base_freq"),
      Config("AnglesOfOtherLayers", "rope_parameters",
             {{"full_attention", {{"rope_type", "default"}}}, {"chunked", json::object()}},
             kUnimplemented, "\"chunked\" is not supported"),
      Config("PicturesByName", "architectures", {"Gemma3ForConditionalGeneration"}, kUnimplemented,
             "[\"Gemma3ForConditionalGeneration\"] is not supported"),
      InImage(
          "NoNorm",
          [](HfImage& i) { i.EraseTensor("model.layers.0.pre_feedforward_layernorm.weight"); },
          kInvalidArgument, "tensor model.layers.0.pre_feedforward_layernorm.weight: missing"),
  };
  for (HfDamage& damage : damages) damage.model = kGemma3Options;
  return damages;
}

class Gemma3Gguf : public ::testing::TestWithParam<GgufDamage> {};
TEST_P(Gemma3Gguf, IsRefusedByName) { CheckRefused(GetParam()); }

class Gemma3Hf : public ::testing::TestWithParam<HfDamage> {};
TEST_P(Gemma3Hf, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Damage, Gemma3Gguf, ::testing::ValuesIn(GgufDamages()), kName);
INSTANTIATE_TEST_SUITE_P(Damage, Gemma3Hf, ::testing::ValuesIn(HfDamages()), kName);

}  // namespace
}  // namespace folio::model
