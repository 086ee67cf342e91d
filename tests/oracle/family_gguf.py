"""The tiny models of family_models.py as GGUF files, with the names and orders of llama.cpp's converters.

    family_gguf.py FAMILY FILE
"""

import pathlib
import sys

import gguf
import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "model")]
from bf16 import to_bf16  # noqa: E402
from family_models import FAMILIES, MERGES, SPECIAL, configuration, vocabulary, weights  # noqa: E402

GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "lm_head": "output", "model.norm": "output_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
}  # fmt: skip
GEMMA_NAMES = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip


def gguf_name(name, architecture):
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, role = stem.split(".", 3)
        names = {**GGUF_NAMES, **GEMMA_NAMES} if architecture == "gemma3" else GGUF_NAMES
        return f"blk.{layer}.{names[role]}.{kind}"
    return f"{GGUF_NAMES[stem]}.{kind}"


def in_pairs(values, dim):
    """Rows of each head from halves to pairs."""
    heads = values.reshape(-1, 2, dim // 2, *values.shape[1:])
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(values.shape)


def write(family, path):
    of, config = FAMILIES[family], configuration(family)
    writer = gguf.GGUFWriter(path, of.gguf)
    writer.add_name(f"tiny {family}")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    if "rope.dimension_count" not in of.fields:
        writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"] if "rope_parameters" not in config else config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    for key, value in of.fields.items():
        add = {float: writer.add_float32, int: writer.add_uint32, str: writer.add_string}[type(value)]
        add(f"{of.gguf}.{key}", value)
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(of.pre)
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, values in weights(family).items():
        if of.pairs and (".q_proj." in name or ".k_proj." in name):
            values = in_pairs(values, config["head_dim"])
        if values.ndim == 1:
            whole = values + 1 if of.norms_less_one and name.endswith("norm.weight") else values
            writer.add_tensor(gguf_name(name, of.gguf), whole)
        else:
            writer.add_tensor(gguf_name(name, of.gguf), to_bf16(values), raw_dtype=gguf.GGMLQuantizationType.BF16)
    for name, values in of.vectors.items():
        writer.add_tensor(name, np.array(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(*sys.argv[1:])
