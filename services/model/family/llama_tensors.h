// kLlamaTensors lists the tensors of Llama's layers, for the families that have the same ones.
#ifndef FOLIO_SERVICES_MODEL_FAMILY_LLAMA_TENSORS_H_
#define FOLIO_SERVICES_MODEL_FAMILY_LLAMA_TENSORS_H_

#include "services/model/family/family.h"

namespace folio::model {

inline constexpr TensorSpec kLlamaTensors[] = {
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

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_FAMILY_LLAMA_TENSORS_H_
