// Qwen3, without mixtures of experts: Llama's layer with a norm of each head's query and key. GGUF
// files keep the rows of each head as halves.
#include "services/model/family/family.h"

namespace folio::model {
namespace {

constexpr TensorSpec kTensors[] = {
    {Role::kEmbedding, "token_embd.weight", "model.embed_tokens.weight"},
    {Role::kOutput, "output.weight", "lm_head.weight"},
    {Role::kFinalNorm, "output_norm.weight", "model.norm.weight"},
    {Role::kAttentionNorm, "attn_norm.weight", "input_layernorm.weight"},
    {Role::kFfnNorm, "ffn_norm.weight", "post_attention_layernorm.weight"},
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

// `sliding_window` and `max_window_layers` are in every file and mean nothing while this is false.
constexpr HfLimit kLimits[] = {
    {"attention_bias", "false"}, {"hidden_act", R"("silu")"}, {"use_sliding_window", "false"}};

}  // namespace

extern const Family kQwen3;
constinit const Family kQwen3 = {.name = "qwen3",
                                 .title = "Qwen3",
                                 .gguf_architecture = "qwen3",
                                 .hf_architecture = "Qwen3ForCausalLM",
                                 .hf_model_type = "qwen3",
                                 .features = {Feature::kHeadNorms},
                                 .gguf_rows = RopeRows::kHalves,
                                 .tensors = kTensors,
                                 .hf_limits = kLimits};

}  // namespace folio::model
