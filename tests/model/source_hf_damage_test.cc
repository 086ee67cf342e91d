// config.json and the tokenizer's files, damaged or asking for what is not supported.
#include "tests/model/source_hf_damage.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using nlohmann::json;

using enum absl::StatusCode;

HfDamage Rope(const char* name, json value, absl::StatusCode code, const char* words) {
  return Config(name, "rope_scaling", std::move(value), code, words);
}

std::vector<HfDamage> ConfigDamage() {
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 256}};
  json inverted = llama3;
  inverted["low_freq_factor"] = 4.0;
  json shrinking = llama3;
  shrinking["factor"] = 0.0;
  json incomplete = llama3;
  incomplete.erase("high_freq_factor");
  return {
      InFiles(
          "NoConfig", [](Files& f) { f.erase("config.json"); }, kNotFound, "config.json"),
      InFiles(
          "ConfigNoJson", [](Files& f) { f["config.json"].pop_back(); }, kDataLoss,
          "config.json: bad JSON"),
      InFiles(
          "ConfigNoObject", [](Files& f) { f["config.json"] = std::string("[]"); }, kDataLoss,
          "config.json: not a JSON object"),
      InFiles(
          "ConfigNotUtf8", [](Files& f) { f["config.json"] = std::string("{\"a\": \"\xff\"}"); },
          kDataLoss, "config.json: bad JSON"),
      InFiles(
          "ConfigKeyTwice", [](Files& f) { f["config.json"] = R"({"a": 1, "a": 2})"; }, kDataLoss,
          "config.json: a: appears twice"),
      Config("OtherArchitecture", "architectures", {"MixtralForCausalLM"}, kUnimplemented,
             "architectures: [\"MixtralForCausalLM\"] is not supported"),
      Config("OtherModelType", "model_type", "mixtral", kUnimplemented, "model_type: \"mixtral\""),
      Config("AttentionBias", "attention_bias", true, kUnimplemented, "attention_bias: true"),
      Config("MlpBias", "mlp_bias", true, kUnimplemented, "mlp_bias: true"),
      Config("Activation", "hidden_act", "gelu", kUnimplemented, "hidden_act: \"gelu\""),
      Config("Quantised", "quantization_config", {{"quant_method", "quanto"}}, kUnimplemented,
             "quantization_config: quant_method: \"quanto\" is not supported"),
      Config("PartialRotation", "partial_rotary_factor", 2, kInvalidArgument,
             "partial_rotary_factor: 2 is out of range"),
      Rope("RopeType", {{"type", "dynamic"}, {"factor", 4.0}}, kUnimplemented,
           "rope_scaling: rope_type: \"dynamic\" is not supported (default, linear"),
      Rope("RopeNoType", {{"factor", 4.0}}, kInvalidArgument, "rope_scaling: rope_type: missing"),
      Rope("RopeNoObject", 4, kInvalidArgument, "rope_scaling: not an object"),
      Rope("RopeIncomplete", incomplete, kInvalidArgument,
           "rope_scaling: high_freq_factor: missing"),
      Rope("RopeInverted", inverted, kInvalidArgument, "rope scaling high_freq_factor 4"),
      Rope("RopeShrinks", shrinking, kInvalidArgument, "rope scaling factor 0"),
      Config("ZeroTheta", "rope_theta", 0, kInvalidArgument, "rope theta 0"),
      Config("ThetaAsText", "rope_theta", "10000", kInvalidArgument,
             "rope_theta: not a finite number"),
      Config("NoLayers", "num_hidden_layers", 0, kInvalidArgument, "number of layers 0"),
      Config("NegativeLayers", "num_hidden_layers", -2, kInvalidArgument,
             "num_hidden_layers: not an integer from 0"),
      Config("FractionOfLayers", "num_hidden_layers", 1.5, kInvalidArgument,
             "num_hidden_layers: not an integer from 0"),
      Config("LayersNotThere", "num_hidden_layers", 3, kInvalidArgument,
             "tensor model.layers.2.input_layernorm.weight: missing"),
      Config("LayersTooMany", "num_hidden_layers", 1, kUnimplemented,
             "model.layers.1.input_layernorm.weight: not part of a 1-layer Llama"),
      Config("HeadsNotDivisible", "num_key_value_heads", 3, kInvalidArgument,
             "number of heads 4 is not a multiple of the 3 KV heads"),
      Config("OddHeadDimension", "head_dim", 15, kInvalidArgument, "head dimension 15 is odd"),
      Config("AbsurdVocabulary", "vocab_size", 4294967295u, kInvalidArgument,
             "vocabulary size 4294967295"),
      Config("VocabularyBelowTokenizer", "vocab_size", 299, kInvalidArgument,
             "tokenizer.json: a vocabulary with token 299, but the model has 299 tokens"),
      Config("VocabularyAboveEmbedding", "vocab_size", 320, kInvalidArgument,
             "model.embed_tokens.weight: shape [300, 64], expected [320, 64]"),
      Config("HugeFloat", "rms_norm_eps", 1e300, kInvalidArgument, "rms_norm_eps: not a finite"),
      Config("TiedAsText", "tie_word_embeddings", "yes", kInvalidArgument,
             "tie_word_embeddings: not true or false"),
      Config("NoOutput", "tie_word_embeddings", false, kInvalidArgument,
             "tensor lm_head.weight: missing"),
  };
}

std::vector<HfDamage> TokenizerDamage() {
  return {
      InFiles(
          "NoTokenizer", [](Files& f) { f.erase("tokenizer.json"); }, kNotFound, "tokenizer.json"),
      InFiles(
          "TokenizerNoJson", [](Files& f) { f["tokenizer.json"] = std::string("{"); }, kDataLoss,
          "tokenizer.json: bad JSON"),
      InImage(
          "NoModel", [](HfImage& i) { i.tokenizer.erase("model"); }, kInvalidArgument,
          "tokenizer.json: model: missing"),
      InImage(
          "VocabularyAsList", [](HfImage& i) { i.tokenizer["model"]["vocab"] = {"a"}; },
          kInvalidArgument, "model.vocab: a piece is not a text with a score"),
      InImage(
          "VocabularyAsText", [](HfImage& i) { i.tokenizer["model"]["vocab"] = "a"; },
          kInvalidArgument, "model.vocab: not an object of ids or a list of pieces"),
      InImage(
          "TableOfCharacters",
          [](HfImage& i) {
            // Its first part would have 4 GB.
            i.tokenizer["normalizer"] = {
                {"type", "Sequence"},
                {"normalizers",
                 {{{"type", "Precompiled"}, {"precompiled_charsmap", "/////2FiY2Q="}}}}};
          },
          kInvalidArgument, "normalizer: precompiled_charsmap is not a table"),
      InImage(
          "NegativeId", [](HfImage& i) { i.tokenizer["model"]["vocab"]["a"] = -1; },
          kInvalidArgument, "model.vocab: an id is not a natural number"),
      InImage(
          "AddedTokenOutside",
          [](HfImage& i) { i.tokenizer["added_tokens"][0]["id"] = 100000000000; }, kInvalidArgument,
          "a vocabulary with token 100000000000"),
      InImage(
          "AddedTokenNoText", [](HfImage& i) { i.tokenizer["added_tokens"][0].erase("content"); },
          kInvalidArgument, "added_tokens: an entry without id and content"),
      InImage(
          "BosUnknown", [](HfImage& i) { i.tokenizer_config["bos_token"] = "<s>"; },
          kInvalidArgument, "bos_token: \"<s>\" is not in tokenizer.json"),
      InImage(
          "EosAsNumber", [](HfImage& i) { i.tokenizer_config["eos_token"] = 2; }, kInvalidArgument,
          "tokenizer_config.json: eos_token: neither"),
      InImage(
          "TemplateAsNumber", [](HfImage& i) { i.tokenizer_config["chat_template"] = 1; },
          kInvalidArgument, "chat_template: neither"),
      InImage(
          "BosWithoutToken",
          [](HfImage& i) {
            i.tokenizer_config.erase("bos_token");
            i.tokenizer_config["add_bos_token"] = true;
          },
          kInvalidArgument, "add_bos_token: true, but there is no bos_token"),
      InImage(
          "EosOutside",
          [](HfImage& i) {
            i.generation_config["eos_token_id"] = {2, 300};
          },
          kInvalidArgument, "end of sequence: token 300 is outside"),
      InImage(
          "EosAsText", [](HfImage& i) { i.generation_config["eos_token_id"] = "2"; },
          kInvalidArgument, "generation_config.json: eos_token_id: not an integer"),
  };
}

// Each of these ended the process when an error message or a search walked the value.
std::vector<HfDamage> DepthDamage() {
  const std::string deep = Nested(200'000);
  const char* words = ".json: JSON nested deeper than 64 levels";
  const auto damage = [&](const char* name, const char* file, const char* key,
                          const std::string& value) {
    return InFiles(name, SetJson(file, key, value), kInvalidArgument, words);
  };
  return {
      damage("Architectures", "config.json", "architectures", deep),
      damage("Activation", "config.json", "hidden_act", deep),
      damage("RopeType", "config.json", "rope_scaling", "{\"rope_type\": " + deep + "}"),
      damage("PostProcessor", "tokenizer.json", "post_processor", "{\"processors\": " + deep + "}"),
      damage("TokenizerConfig", "tokenizer_config.json", "bos_token", deep),
      damage("LevelBeyondTheLimit", "config.json", "anything", Nested(64)),
  };
}

TEST(JsonDepth, TheLimitItselfIsRead) {
  const ::folio::testing::ScratchDirectory scratch;
  Files files = ::folio::testing::TinyModel().Hf(StorageType::kBF16).Files();
  SetJson("config.json", "anything", Nested(63))(files);
  for (const auto& [name, contents] : files) {
    ::folio::testing::WriteFile(scratch.File(name), contents);
  }
  EXPECT_TRUE(Load(scratch.path()).ok()) << Load(scratch.path());
}

class HfFiles : public ::testing::TestWithParam<HfDamage> {};

TEST_P(HfFiles, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const ::testing::TestParamInfo<HfDamage>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Config, HfFiles, ::testing::ValuesIn(ConfigDamage()), kName);
INSTANTIATE_TEST_SUITE_P(Depth, HfFiles, ::testing::ValuesIn(DepthDamage()), kName);
INSTANTIATE_TEST_SUITE_P(Tokenizer, HfFiles, ::testing::ValuesIn(TokenizerDamage()), kName);

}  // namespace
}  // namespace folio::model
