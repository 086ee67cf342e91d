// Mistral, without sliding windows: Llama's layer under other names of the configuration.
// Converters write "llama" into GGUF files of these models, so those are read as Llama's.
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
    {Role::kAttentionOut, "attn_output.weight", "self_attn.o_proj.weight"},
    {Role::kGate, "ffn_gate.weight", "mlp.gate_proj.weight"},
    {Role::kUp, "ffn_up.weight", "mlp.up_proj.weight"},
    {Role::kDown, "ffn_down.weight", "mlp.down_proj.weight"},
};

// Mistral-7B-v0.1 has a sliding window, and its successors have null.
constexpr HfLimit kLimits[] = {{"hidden_act", R"("silu")"}, {"sliding_window", "null"}};

}  // namespace

extern const Family kMistral;
constinit const Family kMistral = {.name = "mistral",
                                   .title = "Mistral",
                                   .gguf_architecture = nullptr,
                                   .hf_architecture = "MistralForCausalLM",
                                   .hf_model_type = "mistral",
                                   .features = {},
                                   .gguf_rows = RopeRows::kPairs,
                                   .tensors = kTensors,
                                   .hf_limits = kLimits};

}  // namespace folio::model
