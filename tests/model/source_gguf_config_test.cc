// GGUF files whose metadata do not fit, or ask for what is not supported.
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/source_gguf_damage.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;

using enum absl::StatusCode;

GgufEdit Float(const char* key, float value) {
  return [=](GgufImage& image) { image.SetFloat(key, value); };
}

GgufEdit Erase(const char* key) {
  return [=](GgufImage& image) { image.Erase(key); };
}

std::vector<GgufDamage> ConfigDamage() {
  return {
      {"NoArchitecture", Erase("general.architecture"), kInvalidArgument,
       "general.architecture: missing"},
      {"OtherArchitecture", String("general.architecture", "gemma2"), kUnimplemented,
       "general.architecture gemma2 is not supported (known are llama, qwen2"},
      {"Split", Uint("split.count", 4), kInvalidArgument, "split.no: missing"},
      {"Experts", Uint("llama.expert_count", 8), kUnimplemented, "llama.expert_count: 8"},
      {"RopeType", String("llama.rope.scaling.type", "dynamic"), kUnimplemented,
       "llama.rope.scaling.type: dynamic is not supported"},
      {"LinearRope", Float("llama.rope.scale_linear", -4), kInvalidArgument, "scale_linear: -4"},
      {"NoLayers", Uint("llama.block_count", 0), kInvalidArgument, "number of layers 0"},
      {"AbsurdLayers", Uint("llama.block_count", 4000000000), kInvalidArgument, "4000000000"},
      {"LayersNotThere", Uint("llama.block_count", 3), kInvalidArgument,
       "tensor blk.2.attn_norm.weight: missing"},
      {"NoContext", Erase("llama.context_length"), kInvalidArgument,
       "llama.context_length: missing"},
      {"ZeroContext", Uint("llama.context_length", 0), kInvalidArgument, "context length 0"},
      {"ZeroHidden", Uint("llama.embedding_length", 0), kInvalidArgument, "hidden size 0"},
      {"OtherHidden", Uint("llama.embedding_length", 96), kInvalidArgument,
       "token_embd.weight: shape [300, 64], expected [300, 96]"},
      {"ZeroHeads", Uint("llama.attention.head_count", 0), kInvalidArgument, "number of heads 0"},
      {"ZeroKvHeads", Uint("llama.attention.head_count_kv", 0), kInvalidArgument,
       "number of KV heads 0"},
      {"HeadsNotDivisible", Uint("llama.attention.head_count_kv", 3), kInvalidArgument,
       "number of heads 4 is not a multiple of the 3 KV heads"},
      {"HeadsAsText", String("llama.attention.head_count", "4"), kInvalidArgument,
       "llama.attention.head_count: not an integer"},
      {"HeadsAsList",
       [](GgufImage& i) {
         i.SetInts("llama.attention.head_count", {4, 4});
       },
       kInvalidArgument, "llama.attention.head_count: not an integer"},
      {"OddHeadDimension",
       [](GgufImage& i) {
         for (const char* key : {"llama.attention.key_length", "llama.attention.value_length",
                                 "llama.rope.dimension_count"}) {
           i.SetUint(key, 15);
         }
       },
       kInvalidArgument, "head dimension 15 is odd"},
      {"HeadDimensionNotWhole",
       [](GgufImage& i) {
         i.Erase("llama.attention.key_length");
         i.SetUint("llama.attention.head_count", 6);
       },
       kInvalidArgument, "llama.attention.head_count: 6 does not divide"},
      {"OtherValueLength", Uint("llama.attention.value_length", 32), kInvalidArgument,
       "llama.attention.value_length: 32 differs"},
      {"PartialRotation", Uint("llama.rope.dimension_count", 32), kInvalidArgument,
       "llama.rope.dimension_count: 32 is not an even part of the head's 16"},
      {"NanEpsilon", Float("llama.attention.layer_norm_rms_epsilon", std::nanf("")),
       kInvalidArgument, "layer_norm_rms_epsilon: not a finite number"},
      {"LargeEpsilon", Float("llama.attention.layer_norm_rms_epsilon", 2), kInvalidArgument,
       "norm epsilon 2"},
      {"NegativeTheta", Float("llama.rope.freq_base", -1), kInvalidArgument, "rope theta -1"},
      {"FewerTokensThanRows",
       [](GgufImage& i) {
         i.SetStrings("tokenizer.ggml.tokens", {"a", "b"});
       },
       kInvalidArgument, "a vocabulary of 2 tokens, but token_embd.weight has 300 rows"},
      {"OtherVocabularySize", Uint("llama.vocab_size", 301), kInvalidArgument,
       "token_embd.weight: shape [300, 64], expected [301, 64]"},
      {"NoTokenizer", Erase("tokenizer.ggml.model"), kInvalidArgument,
       "tokenizer.ggml.model: missing"},
      {"OtherTokenizer", String("tokenizer.ggml.model", "bert"), kUnimplemented,
       "tokenizer.ggml.model"},
      {"OtherPreTokenizer", String("tokenizer.ggml.pre", "martian"), kUnimplemented, "martian"},
      {"TokensAsNumbers",
       [](GgufImage& i) {
         i.SetInts("tokenizer.ggml.tokens", {1, 2});
       },
       kInvalidArgument, "tokenizer.ggml.tokens: not an array of strings"},
      {"EosOutside", Uint("tokenizer.ggml.eos_token_id", 300), kInvalidArgument, "300"},
  };
}

class GgufMetadata : public ::testing::TestWithParam<GgufDamage> {};

TEST_P(GgufMetadata, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const ::testing::TestParamInfo<GgufDamage>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Config, GgufMetadata, ::testing::ValuesIn(ConfigDamage()), kName);

}  // namespace
}  // namespace folio::model
