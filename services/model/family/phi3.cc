// Phi-3, 3.5 and 4 without experts and pictures: Llama's layer, whose projections of the input are
// one tensor, as are gate and up. GGUF files keep the rows of each head as halves.
#include "services/model/family/family.h"

namespace folio::model {
namespace {

constexpr TensorSpec kTensors[] = {
    {Role::kEmbedding, "token_embd.weight", "model.embed_tokens.weight"},
    {Role::kOutput, "output.weight", "lm_head.weight"},
    {Role::kFinalNorm, "output_norm.weight", "model.norm.weight"},
    {Role::kAttentionNorm, "attn_norm.weight", "input_layernorm.weight"},
    {Role::kFfnNorm, "ffn_norm.weight", "post_attention_layernorm.weight"},
    {Role::kQuery, "attn_qkv.weight", "self_attn.qkv_proj.weight"},
    {Role::kKey, "attn_qkv.weight", "self_attn.qkv_proj.weight"},
    {Role::kValue, "attn_qkv.weight", "self_attn.qkv_proj.weight"},
    {Role::kAttentionOut, "attn_output.weight", "self_attn.o_proj.weight"},
    {Role::kGate, "ffn_up.weight", "mlp.gate_up_proj.weight"},
    {Role::kUp, "ffn_up.weight", "mlp.gate_up_proj.weight"},
    {Role::kDown, "ffn_down.weight", "mlp.down_proj.weight"},
};

constexpr HfLimit kLimits[] = {{"hidden_act", R"("silu")"}};

}  // namespace

extern const Family kPhi3;
constinit const Family kPhi3 = {.name = "phi3",
                                .title = "Phi-3",
                                .gguf_architecture = "phi3",
                                .hf_architecture = "Phi3ForCausalLM",
                                .hf_model_type = "phi3",
                                .features = {},
                                .gguf_rows = RopeRows::kHalves,
                                .tensors = kTensors,
                                .hf_limits = kLimits,
                                .windowed = true};

}  // namespace folio::model
