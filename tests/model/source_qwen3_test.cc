// Qwen3 in both containers: what differs from Llama is read, and refused where it is damaged.
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

const TinyOptions kQwen3Options = {.seed = 10, .rope_theta = 1000000, .family = "qwen3"};

TEST(Qwen3, IsReadFromBothContainers) {
  const TinyModel model(kQwen3Options);
  ForBothContainers(model, [&model](const ModelSource& source) {
    const ModelConfig& config = source.config();
    EXPECT_EQ(config.architecture, "qwen3");
    EXPECT_TRUE(config.features.has(Feature::kHeadNorms));
    EXPECT_EQ(config.rope_theta, 1000000.0f);
    EXPECT_EQ(config.heads, 4u);
    EXPECT_EQ(config.kv_heads, 2u);
    for (const Role role : {Role::kQueryNorm, Role::kKeyNorm}) {
      const auto norm = source.ReadVector(role, 1);
      ASSERT_TRUE(norm.ok()) << norm.status();
      EXPECT_EQ(*norm, model.Find(role, 1).values);
    }
    const auto tokenizer = Tokenizer::Create(source.tokenizer(), config.vocab);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_GT((*tokenizer)->Encode("the rain, and 42").value().size(), 0u);
  });
}

TEST(Qwen3, ANormOfHeadsIsPartOfTheFingerprint) {
  const auto fingerprint = [](const GgufImage& image) {
    return OpenGguf(image).value()->fingerprint();
  };
  GgufImage image = TinyModel(kQwen3Options).Gguf(StorageType::kF32);
  const std::string base = fingerprint(image);
  image.Tensor("blk.1.attn_q_norm.weight").bytes.back() ^= 1;
  EXPECT_NE(fingerprint(image), base);
}

std::vector<GgufDamage> GgufDamages() {
  const char* key = "blk.1.attn_k_norm.weight";
  std::vector<GgufDamage> damages = {
      {"NoNorm", [=](GgufImage& i) { i.EraseTensor(key); }, kInvalidArgument,
       "tensor blk.1.attn_k_norm.weight: missing"},
      {"NormOfAllHeads",
       Tensor(key,
              [](auto& t) {
                t.extents = {32};
                t.bytes += t.bytes;
              }),
       kInvalidArgument, "blk.1.attn_k_norm.weight: shape [32], expected [16]"},
      {"NanInNorm", Tensor(key, [](auto& t) { t.bytes.replace(4, 4, "\xff\xff\xff\x7f"); }),
       kDataLoss, "blk.1.attn_k_norm.weight: a value is NaN"},
      {"BiasOfQwen2",
       [](GgufImage& i) {
         i.tensors.push_back({"blk.0.attn_q.bias", {64}, 0, std::string(256, '\0')});
       },
       kUnimplemented, "blk.0.attn_q.bias: not part of a 2-layer Qwen3 model"},
      {"Mixture", String("general.architecture", "qwen3moe"), kUnimplemented,
       "general.architecture qwen3moe is not supported"},
  };
  for (GgufDamage& damage : damages) damage.model = kQwen3Options;
  return damages;
}

std::vector<HfDamage> HfDamages() {
  std::vector<HfDamage> damages = {
      Config("SlidingWindow", "use_sliding_window", true, kUnimplemented,
             "use_sliding_window: true is not supported"),
      Config("Biases", "attention_bias", true, kUnimplemented,
             "attention_bias: true is not supported"),
      Config("Mixture", "architectures", {"Qwen3MoeForCausalLM"}, kUnimplemented,
             "[\"Qwen3MoeForCausalLM\"] is not supported"),
      Config("HeadsOfAnotherLength", "head_dim", 32, kInvalidArgument, "expected [128, 64]"),
      InImage(
          "NoNorm", [](HfImage& i) { i.EraseTensor("model.layers.0.self_attn.q_norm.weight"); },
          kInvalidArgument, "tensor model.layers.0.self_attn.q_norm.weight: missing"),
      InImage(
          "NormAsMatrix",
          [](HfImage& i) {
            i.Tensor("model.layers.0.self_attn.q_norm.weight").shape = {4, 4};
          },
          kInvalidArgument, "self_attn.q_norm.weight: shape [4, 4], expected [16]"),
  };
  for (HfDamage& damage : damages) damage.model = kQwen3Options;
  return damages;
}

// Newer files list every layer.
TEST(Qwen3, FullAttentionInEveryLayerIsServed) {
  HfImage image = TinyModel(kQwen3Options).Hf(StorageType::kBF16);
  image.config["layer_types"] = {"full_attention", "full_attention"};
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  EXPECT_TRUE(Load(scratch.path()).ok()) << Load(scratch.path());
}

class Qwen3Gguf : public ::testing::TestWithParam<GgufDamage> {};
TEST_P(Qwen3Gguf, IsRefusedByName) { CheckRefused(GetParam()); }

class Qwen3Hf : public ::testing::TestWithParam<HfDamage> {};
TEST_P(Qwen3Hf, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Damage, Qwen3Gguf, ::testing::ValuesIn(GgufDamages()), kName);
INSTANTIATE_TEST_SUITE_P(Damage, Qwen3Hf, ::testing::ValuesIn(HfDamages()), kName);

}  // namespace
}  // namespace folio::model
