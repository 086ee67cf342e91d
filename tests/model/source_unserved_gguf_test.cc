// GGUF files that ask for what no family, or not this one, computes: each is refused by the name of
// the field or tensor.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/model/source_gguf_damage.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::GgufTensor;

using enum absl::StatusCode;

GgufEdit Number(const char* key, float value) {
  return [=](GgufImage& image) { image.SetFloat(key, value); };
}

GgufEdit Flag(const char* key, bool value) {
  return [=](GgufImage& image) { image.SetBool(key, value); };
}

GgufEdit List(const char* key, std::vector<int32_t> values) {
  return [=](GgufImage& image) { image.SetInts(key, values); };
}

// One more tensor in F32, of `rows` rows if that is not 0.
GgufEdit Extra(const char* name, uint64_t columns, uint64_t rows = 0) {
  return [=](GgufImage& image) {
    GgufTensor tensor{
        name, {columns}, 0, std::string(4 * columns * std::max<uint64_t>(rows, 1), 1)};
    if (rows != 0) tensor.extents.push_back(rows);
    image.tensors.push_back(tensor);
  };
}

std::vector<GgufDamage> FieldRows() {
  const auto no = kUnimplemented;
  return {
      {"ExpertsUsed", Uint("llama.expert_used_count", 2), no, "llama.expert_used_count: 2"},
      {"ExpertsAsText", String("llama.expert_count", "8"), kInvalidArgument,
       "llama.expert_count: not a number"},
      {"AttentionSoftCap", Number("llama.attn_logit_softcapping", 50), no,
       "llama.attn_logit_softcapping: 50 is not supported (only 0)"},
      {"FinalSoftCap", Number("llama.final_logit_softcapping", 30), no,
       "llama.final_logit_softcapping: 30"},
      {"Alibi", Number("llama.attention.max_alibi_bias", 8), no,
       "llama.attention.max_alibi_bias: 8"},
      {"Clamp", Number("llama.attention.clamp_kqv", 6), no, "llama.attention.clamp_kqv: 6"},
      {"AttentionScale", Number("llama.attention.scale", 0.5), no, "llama.attention.scale: 0.5"},
      {"LatentAttention", Uint("llama.attention.kv_lora_rank", 512), no,
       "llama.attention.kv_lora_rank: 512"},
      {"BothDirections", Flag("llama.attention.causal", false), no,
       "llama.attention.causal: 0 is not supported (only 1)"},
      {"ParallelResidual", Flag("llama.use_parallel_residual", true), no,
       "llama.use_parallel_residual: 1"},
      {"TokensAhead", Uint("llama.nextn_predict_layers", 1), no, "llama.nextn_predict_layers: 1"},
      {"LogitScale", Number("llama.logit_scale", 0.25), no,
       "llama.logit_scale: 0.25 is not supported (only 1)"},
      {"EmbeddingScale", Number("llama.embedding_scale", 12), no, "llama.embedding_scale: 12"},
      {"ResidualScale", Number("llama.residual_scale", 0.22f), no, "llama.residual_scale: 0.22"},
      {"NanSoftCap", Number("llama.final_logit_softcapping", std::nanf("")), no,
       "llama.final_logit_softcapping: nan"},
      {"Mamba", Uint("llama.ssm.state_size", 16), no,
       "llama.ssm.state_size: a part that the family Llama does not have"},
      {"Rwkv", Uint("llama.wkv.head_size", 64), no, "llama.wkv.head_size: a part"},
      {"Vision", Uint("llama.vision.block_count", 24), no, "llama.vision.block_count: a part"},
      {"Sections", List("llama.rope.dimension_sections", {4, 2, 2, 0}), no,
       "llama.rope.dimension_sections: one position for each section"},
      {"SectionsAsNumber", Uint("llama.rope.dimension_sections", 4), no,
       "llama.rope.dimension_sections: one position"},
      {"UnknownRope", String("llama.rope.scaling.type", "ntk-aware"), no,
       "llama.rope.scaling.type: ntk-aware is not supported (none, linear, yarn"},
      {"RopeTypeAsNumber", Uint("llama.rope.scaling.type", 1), kInvalidArgument,
       "llama.rope.scaling.type: not a string"},
      {"HeadsOfEachLayer", List("llama.attention.head_count_kv", {2, 1}), kInvalidArgument,
       "llama.attention.head_count_kv: not an integer"},
      {"WidthOfEachLayer", List("llama.feed_forward_length", {128, 64}), kInvalidArgument,
       "llama.feed_forward_length: not an integer"},
      {"NegativeLayers",
       [](GgufImage& i) { i.SetRaw("llama.block_count", GgufType::kInt32, "\xfe\xff\xff\xff"); },
       kInvalidArgument, "llama.block_count: not an integer from 0"},
      {"LayersAsFraction", Number("llama.block_count", 2), kInvalidArgument,
       "llama.block_count: not an integer"},
      {"EpsilonAsText", String("llama.attention.layer_norm_rms_epsilon", "1e-5"), kInvalidArgument,
       "layer_norm_rms_epsilon: not a finite number"},
      {"InfiniteTheta", Number("llama.rope.freq_base", HUGE_VALF), kInvalidArgument,
       "llama.rope.freq_base: not a finite number"},
      {"NegativeEpsilon", Number("llama.attention.layer_norm_rms_epsilon", -1), kInvalidArgument,
       "norm epsilon -1"},
      {"ArchitectureAsNumber", Uint("general.architecture", 1), kInvalidArgument,
       "general.architecture: not a string"},
      {"MambaModel", String("general.architecture", "mamba2"), no,
       "general.architecture mamba2 is not supported (known are llama"},
      {"MixtureModel", String("general.architecture", "qwen2moe"), no,
       "general.architecture qwen2moe"},
      {"ProjectorModel", String("general.architecture", "clip"), no, "general.architecture clip"},
      {"UnknownTokenizer", String("tokenizer.ggml.model", "rwkv"), no, "tokenizer.ggml.model"},
      {"UnknownPre", String("tokenizer.ggml.pre", "kimi-k9"), no, "kimi-k9"},
      {"EosAppended", Flag("tokenizer.ggml.add_eos_token", true), no,
       "tokenizer.ggml.add_eos_token"},
  };
}

std::vector<GgufDamage> TensorRows() {
  const auto no = kUnimplemented;
  return {
      {"Router", Extra("blk.0.ffn_gate_inp.weight", 64, 8), no,
       "blk.0.ffn_gate_inp.weight: not part of a 2-layer Llama"},
      {"ExpertMatrices", Extra("blk.1.ffn_up_exps.weight", 64, 8), no,
       "blk.1.ffn_up_exps.weight: not part of"},
      {"SharedExpert", Extra("blk.1.ffn_up_shexp.weight", 64, 8), no,
       "blk.1.ffn_up_shexp.weight: not part of"},
      {"State", Extra("blk.0.ssm_in.weight", 64, 8), no, "blk.0.ssm_in.weight: not part of"},
      {"Sinks", Extra("blk.0.attn_sinks.weight", 4), no, "blk.0.attn_sinks.weight: not part of"},
      {"HeadNorm", Extra("blk.0.attn_q_norm.weight", 16), no,
       "blk.0.attn_q_norm.weight: not part of"},
      {"PostNorm", Extra("blk.0.post_attention_norm.weight", 64), no,
       "blk.0.post_attention_norm.weight: not part of"},
      {"OutputBias", Extra("blk.1.attn_output.bias", 64), no,
       "blk.1.attn_output.bias: not part of"},
      {"NormBias", Extra("output_norm.bias", 64), no, "output_norm.bias: not part of"},
      {"EmbeddingNorm", Extra("token_embd_norm.weight", 64), no,
       "token_embd_norm.weight: a part that Llama models do not have"},
      {"Positions", Extra("position_embd.weight", 64, 8), no, "position_embd.weight: a part"},
      {"LayerInputs", Extra("per_layer_token_embd.weight", 64, 8), no,
       "per_layer_token_embd.weight: a part"},
      {"VisionTower", Extra("v.blk.0.attn_q.weight", 64, 8), no, "v.blk.0.attn_q.weight: a part"},
      {"Projector", Extra("mm.0.weight", 64, 8), no, "mm.0.weight: a part"},
      {"AudioTower", Extra("a.conv1d.1.weight", 64, 8), no, "a.conv1d.1.weight: a part"},
      {"FusedBesideSingle", Extra("blk.0.attn_qkv.weight", 64, 128), no,
       "blk.0.attn_qkv.weight: not part of"},
  };
}

class GgufUnserved : public ::testing::TestWithParam<GgufDamage> {};

TEST_P(GgufUnserved, IsRefusedByName) { CheckRefused(GetParam()); }

const auto kName = [](const ::testing::TestParamInfo<GgufDamage>& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Fields, GgufUnserved, ::testing::ValuesIn(FieldRows()), kName);
INSTANTIATE_TEST_SUITE_P(Tensors, GgufUnserved, ::testing::ValuesIn(TensorRows()), kName);

// Converters write some of these fields with the values that change nothing.
TEST(GgufServed, ValuesThatChangeNothing) {
  GgufImage image = ::folio::testing::TinyModel().Gguf(StorageType::kF32);
  for (const char* key : {"llama.expert_count", "llama.expert_used_count"}) image.SetUint(key, 0);
  image.SetFloat("llama.final_logit_softcapping", 0);
  image.SetFloat("llama.logit_scale", 1);
  image.SetBool("llama.attention.causal", true);
  image.SetInts("llama.rope.dimension_sections", {0, 0, 0, 0});
  EXPECT_TRUE(OpenGguf(image).ok()) << OpenGguf(image).status();
}

}  // namespace
}  // namespace folio::model
