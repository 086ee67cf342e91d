// Gemma 3 without pictures: a norm before and behind attention and feed-forward network, norms of
// heads, GELU, and layers of which five attend to a window for each that attends to all. GGUF files
// keep the rows of each head as halves.
#include "services/model/family/family.h"

namespace folio::model {
namespace {

constexpr TensorSpec kTensors[] = {
    {Role::kEmbedding, "token_embd.weight", "model.embed_tokens.weight"},
    {Role::kOutput, "output.weight", "lm_head.weight"},
    {Role::kFinalNorm, "output_norm.weight", "model.norm.weight"},
    {Role::kAttentionNorm, "attn_norm.weight", "input_layernorm.weight"},
    {Role::kPostAttentionNorm, "post_attention_norm.weight", "post_attention_layernorm.weight"},
    {Role::kFfnNorm, "ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    {Role::kPostFfnNorm, "post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
    {Role::kQuery, "attn_q.weight", "self_attn.q_proj.weight"},
    {Role::kKey, "attn_k.weight", "self_attn.k_proj.weight"},
    {Role::kValue, "attn_v.weight", "self_attn.v_proj.weight"},
    {Role::kQueryNorm, "attn_q_norm.weight", "self_attn.q_norm.weight"},
    {Role::kKeyNorm, "attn_k_norm.weight", "self_attn.k_norm.weight"},
    {Role::kAttentionOut, "attn_output.weight", "self_attn.o_proj.weight"},
    {Role::kGate, "ffn_gate.weight", "mlp.gate_proj.weight"},
    {Role::kUp, "ffn_up.weight", "mlp.up_proj.weight"},
    {Role::kDown, "ffn_down.weight", "mlp.down_proj.weight"},
};

constexpr HfLimit kLimits[] = {{"attention_bias", "false"},
                               {"hidden_activation", R"("gelu_pytorch_tanh")"},
                               {"attn_logit_softcapping", "null"},
                               {"final_logit_softcapping", "null"},
                               {"use_bidirectional_attention", "false"}};

constexpr const char* kOwnFields[] = {"attention.scale", "query_pre_attn_scalar"};

}  // namespace

extern const Family kGemma3;
constinit const Family kGemma3 = {
    .name = "gemma3",
    .title = "Gemma 3",
    .gguf_architecture = "gemma3",
    .hf_architecture = "Gemma3ForCausalLM",
    .hf_model_type = "gemma3_text",
    .features = {Feature::kHeadNorms, Feature::kPostNorms, Feature::kGelu,
                 Feature::kScaledEmbedding, Feature::kLocalLayers},
    .gguf_rows = RopeRows::kHalves,
    .tensors = kTensors,
    .hf_limits = kLimits,
    .own_fields = kOwnFields,
    .hf_norms_less_one = true,
    .hf_defaults = {.head_dim = 256, .rope_theta = 1e6f, .query_scalar = 256, .tied = true},
    .hf_base_architecture = "Gemma3TextModel"};

}  // namespace folio::model
