// Qwen2 in both containers: what differs from Llama is read, and refused where it is damaged.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/model/source_gguf_damage.h"
#include "tests/model/source_hf_damage.h"
#include "tests/model/source_reading.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::HfImage;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::TinyOptions;
using ::testing::HasSubstr;

using enum absl::StatusCode;

const TinyOptions kQwen2Options = {.seed = 9, .rope_theta = 1000000, .family = "qwen2"};

TEST(Qwen2, IsReadFromBothContainers) {
  const TinyModel model(kQwen2Options);
  ForBothContainers(model, [&model](const ModelSource& source) {
    const ModelConfig& config = source.config();
    EXPECT_EQ(config.architecture, "qwen2");
    EXPECT_TRUE(config.features.has(Feature::kQkvBias));
    EXPECT_EQ(config.rope_theta, 1000000.0f);
    EXPECT_EQ(config.heads, 4u);
    EXPECT_EQ(config.kv_heads, 2u);
    const auto bias = source.ReadVector(Role::kKeyBias, 1);
    ASSERT_TRUE(bias.ok()) << bias.status();
    EXPECT_EQ(*bias, model.Find(Role::kKeyBias, 1).values);
    const auto tokenizer = Tokenizer::Create(source.tokenizer(), config.vocab);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_GT((*tokenizer)->Encode("the rain, and 42").value().size(), 0u);
  });
}

TEST(Qwen2, ABiasIsPartOfTheFingerprint) {
  const auto fingerprint = [](const GgufImage& image) {
    return OpenGguf(image).value()->fingerprint();
  };
  GgufImage image = TinyModel(kQwen2Options).Gguf(StorageType::kF32);
  const std::string base = fingerprint(image);
  image.Tensor("blk.1.attn_v.bias").bytes.back() ^= 1;
  EXPECT_NE(fingerprint(image), base);
}

std::vector<GgufDamage> GgufDamages() {
  const char* key = "blk.1.attn_k.bias";
  std::vector<GgufDamage> damages = {
      {"NoBias", [=](GgufImage& i) { i.EraseTensor(key); }, kInvalidArgument,
       "tensor blk.1.attn_k.bias: missing"},
      {"BiasOfAnotherLength", Tensor(key, [](auto& t) { t.extents = {16}; }), kInvalidArgument,
       "blk.1.attn_k.bias: shape [16], expected [32]"},
      {"BiasAsMatrix",
       Tensor(key,
              [](auto& t) {
                t.extents = {32, 1};
              }),
       kInvalidArgument, "blk.1.attn_k.bias: shape [1, 32], expected [32]"},
      {"BiasOfAnUnknownType", Tensor(key, [](auto& t) { t.type = 16; }), kUnimplemented,
       "blk.1.attn_k.bias: type IQ2_XXS is not supported"},
      {"NanInBias", Tensor(key, [](auto& t) { t.bytes.replace(4, 4, "\xff\xff\xff\x7f"); }),
       kDataLoss, "blk.1.attn_k.bias: a value is NaN"},
      {"BiasOfTheOutput",
       [](GgufImage& i) {
         i.tensors.push_back({"blk.0.attn_output.bias", {64}, 0, std::string(256, '\0')});
       },
       kUnimplemented, "blk.0.attn_output.bias: not part of a 2-layer Qwen2 model"},
      {"KeysOfLlama",
       [](GgufImage& i) {
         i.Erase("qwen2.block_count");
         i.SetUint("llama.block_count", 2);
       },
       kInvalidArgument, "qwen2.block_count: missing"},
      {"DynamicRope", String("qwen2.rope.scaling.type", "dynamic"), kUnimplemented,
       "qwen2.rope.scaling.type: dynamic is not supported"},
      {"LlamaByName", String("general.architecture", "llama"), kInvalidArgument,
       "llama.block_count: missing"},
  };
  for (GgufDamage& damage : damages) damage.model = kQwen2Options;
  return damages;
}

std::vector<HfDamage> HfDamages() {
  std::vector<HfDamage> damages = {
      Config("SlidingWindow", "use_sliding_window", true, kUnimplemented,
             "use_sliding_window: true is not supported"),
      Config("OtherLayers", "layer_types", {"full_attention", "sliding_attention"}, kUnimplemented,
             "layer_types: [\"full_attention\",\"sliding_attention\"] is not supported"),
      Config("Activation", "hidden_act", "gelu", kUnimplemented, "hidden_act: \"gelu\""),
      Config("ModelTypeOfLlama", "model_type", "llama", kUnimplemented, "model_type: \"llama\""),
      Config("Mixture", "architectures", {"Qwen2MoeForCausalLM"}, kUnimplemented,
             "[\"Qwen2MoeForCausalLM\"] is not supported (known: LlamaForCausalLM, "
             "Qwen2ForCausalLM, MistralForCausalLM, Qwen3ForCausalLM, Phi3ForCausalLM, "
             "Ministral3ForCausalLM, Gemma3ForCausalLM, "
             "GraniteForCausalLM, SmolLM3ForCausalLM)"),
      InImage(
          "NoBias", [](HfImage& i) { i.EraseTensor("model.layers.0.self_attn.q_proj.bias"); },
          kInvalidArgument, "tensor model.layers.0.self_attn.q_proj.bias: missing"),
      InImage(
          "BiasOfAnotherLength",
          [](HfImage& i) {
            i.Tensor("model.layers.0.self_attn.q_proj.bias").shape = {32, 2};
          },
          kInvalidArgument, "self_attn.q_proj.bias: shape [32, 2], expected [64]"),
      InImage(
          "BiasOfTheOutput",
          [](HfImage& i) {
            i.tensors.push_back(
                {"model.layers.0.self_attn.o_proj.bias", "F32", {64}, std::string(256, '\0')});
          },
          kUnimplemented, "self_attn.o_proj.bias: not part of a 2-layer Qwen2 model"),
  };
  for (HfDamage& damage : damages) damage.model = kQwen2Options;
  return damages;
}

// Newer files list every layer.
TEST(Qwen2, FullAttentionInEveryLayerIsServed) {
  HfImage image = TinyModel(kQwen2Options).Hf(StorageType::kBF16);
  image.config["layer_types"] = {"full_attention", "full_attention"};
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  EXPECT_TRUE(Load(scratch.path()).ok()) << Load(scratch.path());
}

class Qwen2Gguf : public ::testing::TestWithParam<GgufDamage> {};
TEST_P(Qwen2Gguf, IsRefusedByName) { CheckRefused(GetParam()); }

class Qwen2Hf : public ::testing::TestWithParam<HfDamage> {};
TEST_P(Qwen2Hf, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Damage, Qwen2Gguf, ::testing::ValuesIn(GgufDamages()), kName);
INSTANTIATE_TEST_SUITE_P(Damage, Qwen2Hf, ::testing::ValuesIn(HfDamages()), kName);

}  // namespace
}  // namespace folio::model
