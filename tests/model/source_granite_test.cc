// Granite in both containers: its factors become others, and are refused where they are damaged.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/source_gguf_damage.h"
#include "tests/model/source_hf_damage.h"
#include "tests/model/source_reading.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::TinyModel;
using ::folio::testing::TinyOptions;

using enum absl::StatusCode;

const TinyOptions kGraniteOptions = {.seed = 12, .tied = false, .family = "granite"};

TEST(Granite, IsReadFromBothContainers) {
  const TinyModel model(kGraniteOptions);
  ForBothContainers(model, [&model](const ModelSource& source) {
    const ModelConfig& config = source.config();
    EXPECT_EQ(config.architecture, "granite");
    EXPECT_EQ(config.embedding_scale, 48.0f);      // 12 / 0.25
    EXPECT_FLOAT_EQ(config.norm_eps, 16 * 1e-5f);  // divided by the square of 0.25
    EXPECT_EQ(config.query_gain, 0.25f);           // 0.0625 times the root of 16
    EXPECT_EQ(config.output_gain, 0.125f);
    std::vector<float> norm = model.Find(Role::kFinalNorm, 0).values;
    for (float& value : norm) value *= 0.125f;
    EXPECT_EQ(source.ReadVector(Role::kFinalNorm, 0).value(), norm);
    EXPECT_EQ(source.ReadVector(Role::kFfnNorm, 1).value(), model.Find(Role::kFfnNorm, 1).values);
  });
}

std::vector<GgufDamage> GgufDamages() {
  std::vector<GgufDamage> damages = {
      {"NoLogitScale", [](GgufImage& i) { i.Erase("granite.logit_scale"); }, kInvalidArgument,
       "granite.logit_scale: missing"},
      {"NegativeResiduals", [](GgufImage& i) { i.SetFloat("granite.residual_scale", -1); },
       kInvalidArgument, "multiplier of residuals -1 is out of range"},
      {"EmbeddingOfNothing", [](GgufImage& i) { i.SetFloat("granite.embedding_scale", 0); },
       kInvalidArgument, "multiplier of embedding 0 is out of range"},
      {"Mixture", String("general.architecture", "granitemoe"), kUnimplemented,
       "general.architecture granitemoe is not supported"},
  };
  for (GgufDamage& damage : damages) damage.model = kGraniteOptions;
  return damages;
}

std::vector<HfDamage> HfDamages() {
  std::vector<HfDamage> damages = {
      Config("NoLogits", "logits_scaling", 0, kInvalidArgument,
             "multiplier of logits 0 is out of range"),
      Config("ScoresAreNoNumber", "attention_multiplier", "small", kInvalidArgument,
             "attention_multiplier"),
      Config("Biases", "mlp_bias", true, kUnimplemented, "mlp_bias: true is not supported"),
  };
  for (HfDamage& damage : damages) damage.model = kGraniteOptions;
  return damages;
}

class GraniteGguf : public ::testing::TestWithParam<GgufDamage> {};
TEST_P(GraniteGguf, IsRefusedByName) { CheckRefused(GetParam()); }

class GraniteHf : public ::testing::TestWithParam<HfDamage> {};
TEST_P(GraniteHf, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Damage, GraniteGguf, ::testing::ValuesIn(GgufDamages()), kName);
INSTANTIATE_TEST_SUITE_P(Damage, GraniteHf, ::testing::ValuesIn(HfDamages()), kName);

}  // namespace
}  // namespace folio::model
