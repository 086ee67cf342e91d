// Llama 1 to 3 and the models built like them (SmolLM2, TinyLlama): the layer that the other
// families differ from.
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

constexpr HfLimit kLimits[] = {
    {"attention_bias", "false"}, {"mlp_bias", "false"}, {"hidden_act", R"("silu")"}};

}  // namespace

extern const Family kLlama;
constinit const Family kLlama = {.name = "llama",
                                 .title = "Llama",
                                 .gguf_architecture = "llama",
                                 .hf_architecture = "LlamaForCausalLM",
                                 .hf_model_type = "llama",
                                 .features = {},
                                 .gguf_rows = RopeRows::kPairs,
                                 .tensors = kTensors,
                                 .hf_limits = kLimits};

}  // namespace folio::model
