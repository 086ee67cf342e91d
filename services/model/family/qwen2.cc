// Qwen2 and Qwen2.5: Llama's layer with a bias on queries, keys and values. GGUF files keep the
// rows of each head as halves.
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
    {Role::kQueryBias, "attn_q.bias", "self_attn.q_proj.bias"},
    {Role::kKeyBias, "attn_k.bias", "self_attn.k_proj.bias"},
    {Role::kValueBias, "attn_v.bias", "self_attn.v_proj.bias"},
    {Role::kAttentionOut, "attn_output.weight", "self_attn.o_proj.weight"},
    {Role::kGate, "ffn_gate.weight", "mlp.gate_proj.weight"},
    {Role::kUp, "ffn_up.weight", "mlp.up_proj.weight"},
    {Role::kDown, "ffn_down.weight", "mlp.down_proj.weight"},
};

// `sliding_window` and `max_window_layers` are in every file and mean nothing while this is false.
constexpr HfLimit kLimits[] = {{"hidden_act", R"("silu")"}, {"use_sliding_window", "false"}};

}  // namespace

extern const Family kQwen2;
constinit const Family kQwen2 = {.name = "qwen2",
                                 .title = "Qwen2",
                                 .gguf_architecture = "qwen2",
                                 .hf_architecture = "Qwen2ForCausalLM",
                                 .hf_model_type = "qwen2",
                                 .features = {Feature::kQkvBias},
                                 .gguf_rows = RopeRows::kHalves,
                                 .tensors = kTensors,
                                 .hf_limits = kLimits};

}  // namespace folio::model
