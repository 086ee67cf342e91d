// Hugging Face directories that ask for what no family, or not this one, computes: each is refused
// by the name of the field or tensor.
#include <string>
#include <vector>

#include "tests/model/source_hf_damage.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using nlohmann::json;

using enum absl::StatusCode;

HfDamage No(const char* name, const char* key, json value, const char* words) {
  return Config(name, key, std::move(value), kUnimplemented, words);
}

HfDamage Wrong(const char* name, const char* key, json value, const char* words) {
  return Config(name, key, std::move(value), kInvalidArgument, words);
}

// One more tensor in F32.
HfDamage Extra(const char* name, const char* tensor, std::vector<uint64_t> shape,
               const char* words = "not part of a 2-layer Llama") {
  HfDamage damage = InImage(
      name,
      [=](HfImage& image) {
        size_t bytes = 4;
        for (const uint64_t extent : shape) bytes *= extent;
        image.tensors.push_back({tensor, "F32", shape, std::string(bytes, 1)});
      },
      kUnimplemented, words);
  return damage;
}

std::vector<HfDamage> FieldRows() {
  const json mrope = {{"type", "mrope"}, {"mrope_section", {4, 2, 2}}};
  const json sections = {{"rope_type", "default"}, {"mrope_section", {4, 2, 2}}};
  return {
      No("Experts", "num_experts", 8, "num_experts: 8 is not supported (only [0,1])"),
      No("LocalExperts", "num_local_experts", 8, "num_local_experts: 8"),
      No("RoutedExperts", "n_routed_experts", 64, "n_routed_experts: 64"),
      No("ExpertsAsText", "num_experts", "8", "num_experts: \"8\""),
      No("AttentionSoftCap", "attn_logit_softcapping", 50.0, "attn_logit_softcapping: 50.0"),
      No("FinalSoftCap", "final_logit_softcapping", 30.0, "final_logit_softcapping: 30.0"),
      No("Alibi", "alibi", true, "alibi: true is not supported (only [false])"),
      No("Positions", "position_embedding_type", "absolute",
         "position_embedding_type: \"absolute\""),
      No("Clip", "clip_qkv", 8.0, "clip_qkv: 8.0"),
      No("LogitScale", "logit_scale", 0.0625, "logit_scale: 0.0625"),
      No("LogitsScaling", "logits_scaling", 8.0, "logits_scaling: 8.0"),
      No("EmbeddingMultiplier", "embedding_multiplier", 12.0, "embedding_multiplier: 12.0"),
      No("ResidualMultiplier", "residual_multiplier", 0.22, "residual_multiplier: 0.22"),
      No("AttentionMultiplier", "attention_multiplier", 0.015625, "attention_multiplier: 0.015625"),
      No("QueryScalar", "query_pre_attn_scalar", 256,
         "query_pre_attn_scalar: 256 is not supported (only null)"),
      No("Sinks", "attention_sink", true, "attention_sink: true"),
      No("HeadNorms", "use_qk_norm", true, "use_qk_norm: true"),
      No("LatentAttention", "kv_lora_rank", 512, "kv_lora_rank: 512"),
      No("TokensAhead", "num_nextn_predict_layers", 1, "num_nextn_predict_layers: 1"),
      No("LinearAttention", "layer_types", {"linear_attention", "full_attention"},
         "layer_types: [\"linear_attention\",\"full_attention\"]"),
      No("LocalLayers", "layer_types", {"full_attention", "sliding_attention"}, "layer_types: "),
      No("LayerTypesAsText", "layer_types", "full_attention", "layer_types: \"full_attention\""),
      No("MambaLayers", "layers_block_type", {"mamba", "attention"},
         "layers_block_type: [\"mamba\",\"attention\"]"),
      No("HybridPattern", "hybrid_override_pattern", "M-M*", "hybrid_override_pattern: \"M-M*\""),
      No("FullInterval", "full_attention_interval", 4, "full_attention_interval: 4"),
      No("UnrotatedLayers", "no_rope_layers", {1, 0}, "no_rope_layers: [1,0]"),
      No("StateSize", "mamba_d_state", 128, "mamba_d_state: 128"),
      No("Mrope", "rope_scaling", mrope, "rope_scaling: mrope_section: [4,2,2]"),
      No("MropeByDefault", "rope_scaling", sections, "rope_scaling: mrope_section: [4,2,2]"),
      No("DynamicParameters", "rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2.0}},
         "rope_parameters: rope_type: \"dynamic\""),
      No("OtherRope", "rope_scaling", {{"rope_type", "ntk"}, {"factor", 2.0}},
         "rope_scaling: rope_type: \"ntk\" is not supported (default, linear"),
      No("Gelu", "hidden_act", "gelu_pytorch_tanh",
         "hidden_act: \"gelu_pytorch_tanh\" is not supported (only \"silu\")"),
      No("ActivationAsList", "hidden_act", {"silu"}, "hidden_act: [\"silu\"]"),
      No("EncoderDecoder", "is_encoder_decoder", true, "is_encoder_decoder: true"),
      No("MixtureModel", "architectures", {"Qwen2MoeForCausalLM"},
         "architectures: [\"Qwen2MoeForCausalLM\"]"),
      No("MambaModel", "architectures", {"Mamba2ForCausalLM"},
         "architectures: [\"Mamba2ForCausalLM\"]"),
      No("HybridModel", "architectures", {"Qwen3NextForCausalLM"},
         "architectures: [\"Qwen3NextForCausalLM\"]"),
      No("BitsAndBytes", "quantization_config",
         {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}},
         "quantization_config: quant_method: \"bitsandbytes\""),
      No("Mxfp4", "quantization_config", {{"quant_method", "mxfp4"}}, "quant_method: \"mxfp4\""),
      No("NoMethod", "quantization_config", {{"bits", 4}}, "quant_method: null"),
  };
}

std::vector<HfDamage> NumberRows() {
  return {
      Wrong("QuantizationAsText", "quantization_config", "awq",
            "quantization_config: not an object"),
      Wrong("ZeroVocabulary", "vocab_size", 0, "vocab"),
      Wrong("ZeroHeads", "num_attention_heads", 0, "number of heads 0"),
      Wrong("ZeroKvHeads", "num_key_value_heads", 0, "number of KV heads 0"),
      Wrong("NegativeHidden", "hidden_size", -64, "hidden_size: not an integer from 0"),
      Wrong("HiddenAsText", "hidden_size", "64", "hidden_size: not an integer from 0"),
      Wrong("WidthAsList", "intermediate_size", {128, 64},
            "intermediate_size: not an integer from 0"),
      Wrong("ZeroContext", "max_position_embeddings", 0, "context length 0"),
      Wrong("EpsilonAsText", "rms_norm_eps", "1e-5", "rms_norm_eps: not a finite number"),
      Wrong("NegativeEpsilon", "rms_norm_eps", -1e-5, "norm epsilon"),
      Wrong("NegativeTheta", "rope_theta", -10000.0, "rope theta -10000"),
      Wrong("MoreKvHeadsThanHeads", "num_key_value_heads", 8,
            "number of heads 4 is not a multiple of the 8 KV heads"),
      Wrong("HugeLayers", "num_hidden_layers", 1e30, "num_hidden_layers: not an integer from 0"),
      InFiles("NotANumber", SetJson("config.json", "rms_norm_eps", "NaN"), kDataLoss,
              "config.json: bad JSON"),
      InFiles("NumberTooLarge", SetJson("config.json", "rope_theta", "1e999"), kDataLoss,
              "config.json: bad JSON"),
  };
}

std::vector<HfDamage> TensorRows() {
  return {
      Extra("Router", "model.layers.0.block_sparse_moe.gate.weight", {8, 64}),
      Extra("Expert", "model.layers.1.mlp.experts.0.up_proj.weight", {8, 64}),
      Extra("State", "model.layers.0.mamba.A_log", {8}),
      Extra("LinearAttention", "model.layers.0.linear_attn.in_proj_qkvz.weight", {8, 64}),
      Extra("Sinks", "model.layers.0.self_attn.sinks", {4}),
      Extra("HeadNorm", "model.layers.0.self_attn.q_norm.weight", {16}),
      Extra("QueryBias", "model.layers.0.self_attn.q_proj.bias", {64}),
      Extra("NormBias", "model.norm.bias", {64}),
      Extra("PostNorm", "model.layers.0.post_feedforward_layernorm.weight", {64}),
      Extra("Adapter", "model.layers.0.self_attn.q_proj.lora_A.weight", {8, 64}),
      Extra("Fused", "model.layers.0.self_attn.qkv_proj.weight", {128, 64}),
      Extra("LayerTooMany", "model.layers.2.self_attn.o_proj.weight", {64, 64}),
      Extra("Positions", "model.embed_positions.weight", {8, 64},
            "model.embed_positions.weight: a part"),
      Extra("EmbeddingNorm", "model.embed_layernorm.weight", {64},
            "model.embed_layernorm.weight: a part"),
      Extra("TokensAhead", "model.mtp.0.weight", {64}, "model.mtp.0.weight: a part"),
      Extra("VisionTower", "visual.patch_embed.proj.weight", {8, 64},
            "\"visual\" is a network for other input"),
      Extra("AudioTower", "audio_tower.conv1.weight", {8, 64},
            "\"audio_tower\" is a network for other input"),
  };
}

class HfUnserved : public ::testing::TestWithParam<HfDamage> {};

TEST_P(HfUnserved, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const ::testing::TestParamInfo<HfDamage>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Fields, HfUnserved, ::testing::ValuesIn(FieldRows()), kName);
INSTANTIATE_TEST_SUITE_P(Numbers, HfUnserved, ::testing::ValuesIn(NumberRows()), kName);
INSTANTIATE_TEST_SUITE_P(Tensors, HfUnserved, ::testing::ValuesIn(TensorRows()), kName);

// Files have some of these fields with the values that change nothing.
TEST(HfServed, ValuesThatChangeNothing) {
  HfImage image = ::folio::testing::TinyModel().Hf(StorageType::kBF16);
  for (const char* key : {"num_experts", "kv_lora_rank", "full_attention_interval"}) {
    image.config[key] = 0;
  }
  image.config["attn_logit_softcapping"] = nullptr;
  image.config["alibi"] = false;
  image.config["logits_scaling"] = 1.0;
  image.config["is_encoder_decoder"] = false;
  const ::folio::testing::ScratchDirectory scratch;
  image.Write(scratch.path());
  EXPECT_TRUE(Load(scratch.path()).ok()) << Load(scratch.path());
}

}  // namespace
}  // namespace folio::model
