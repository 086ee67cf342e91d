// How the family of a Hugging Face directory is told from architectures and model_type.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "tests/model/source_hf_damage.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using nlohmann::json;

using enum absl::StatusCode;

json Fields(const json& architectures, const json& type) {
  return {{"architectures", architectures}, {"model_type", type}};
}

std::string FamilyOf(const std::string& tiny, const json& fields, bool erase) {
  HfImage image = TinyModel({.family = tiny}).Hf(StorageType::kBF16);
  image.config.update(fields);
  for (const auto& [key, value] : fields.items()) {
    if (erase && value.is_null()) image.config.erase(key);
  }
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  const auto source = OpenModel(scratch.path());
  return source.ok() ? (*source)->config().architecture : source.status().ToString();
}

TEST(HfArchitecture, IsToldByModelType) {
  const struct {
    const char* family;
    const char* whole;
    const char* base;
  } cases[] = {{"llama", "LlamaForCausalLM", "LlamaModel"},
               {"qwen2", "Qwen2ForCausalLM", "Qwen2Model"},
               {"mistral", "MistralForCausalLM", "MistralModel"},
               {"qwen3", "Qwen3ForCausalLM", "Qwen3Model"},
               {"ministral3", "Ministral3ForCausalLM", "Ministral3Model"},
               {"granite", "GraniteForCausalLM", "GraniteModel"},
               {"smollm3", "SmolLM3ForCausalLM", "SmolLM3Model"}};
  for (const auto& each : cases) {
    const json lists[] = {
        nullptr,
        json::array(),
        json::array({each.whole}),
        json::array({each.base}),
        json::array({each.whole, "RewardModel"}),
        json::array({"RewardModel", each.base}),
        json::array({"LlamaForCausalLM", each.whole, "Qwen2ForCausalLM"}),
    };
    for (const json& list : lists) {
      for (const bool erase : {false, true}) {
        EXPECT_EQ(FamilyOf(each.family, Fields(list, each.family), erase), each.family) << list;
      }
    }
    for (const char* name : {each.whole, each.base}) {
      EXPECT_EQ(FamilyOf(each.family, Fields(json::array({name}), nullptr), false), each.family);
      EXPECT_EQ(FamilyOf(each.family, Fields(json::array({name}), nullptr), true), each.family);
    }
  }
}

HfDamage Told(const char* name, const json& architectures, const json& type, absl::StatusCode code,
              const char* words) {
  return InImage(
      name, [=](HfImage& i) { i.config.update(Fields(architectures, type)); }, code, words);
}

std::vector<HfDamage> ArchitectureDamage() {
  return {
      InImage(
          "NoArchitecture",
          [](HfImage& i) {
            i.config.erase("architectures");
            i.config.erase("model_type");
          },
          kInvalidArgument, "config.json: architectures: missing, and model_type is missing"),
      Told("NullArchitecture", nullptr, nullptr, kInvalidArgument, "architectures: missing"),
      Told("SeveralWithoutType", {"LlamaForCausalLM", "Qwen2ForCausalLM"}, nullptr,
           kInvalidArgument, "config.json: architectures: several, and model_type is missing"),
      Told("OnlyAnUnknownType", nullptr, "mixtral", kUnimplemented,
           "config.json: model_type: \"mixtral\" is not supported (known: llama, qwen2, mistral, "
           "qwen3, phi3, ministral3, "
           "gemma3_text, granite, smollm3)"),
      Told("TypeAsNumber", nullptr, 7, kUnimplemented, "model_type: 7 is not supported"),
      Told("SeveralOfAnotherType", {"LlamaForCausalLM", "RewardModel"}, "qwen2", kUnimplemented,
           "model_type: \"qwen2\" is not supported (only llama)"),
      Told("SeveralUnknown", {"MixtralForCausalLM", "RewardModel"}, "llama", kUnimplemented,
           "architectures: [\"MixtralForCausalLM\",\"RewardModel\"] is not supported (known: "),
      Told("AnotherHead", json::array({"LlamaForSequenceClassification"}), "llama", kUnimplemented,
           "architectures: [\"LlamaForSequenceClassification\"] is not supported"),
      Told("ArchitectureAsText", "LlamaForCausalLM", "llama", kUnimplemented,
           "architectures: \"LlamaForCausalLM\" is not supported"),
      Told("ArchitectureAsNumber", json::array({1}), "llama", kUnimplemented,
           "architectures: [1] is not supported"),
  };
}

class HfArchitectures : public ::testing::TestWithParam<HfDamage> {};

TEST_P(HfArchitectures, AreRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const ::testing::TestParamInfo<HfDamage>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Damage, HfArchitectures, ::testing::ValuesIn(ArchitectureDamage()), kName);

}  // namespace
}  // namespace folio::model
