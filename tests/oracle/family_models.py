"""Tiny seeded models of each family as Hugging Face directories; family_gguf.py makes GGUF files of them.

The weights are numbers of bfloat16 that a fixed generator draws, so every machine and both formats have the same model.
transformers reads the directory (make_families.py), and so does Folio (tests/e2e/test_family_oracle.py).

    family_models.py FAMILY DIRECTORY
"""

import json
import pathlib
import sys
from dataclasses import dataclass, field

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "model"), str(HERE.parent / "gpu")]
from bf16 import to_bf16, write_safetensors  # noqa: E402
from suite.shape_model import byte_letters  # noqa: E402

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["\u0120 t", "h e", "\u0120t he"]  # U+0120 is a space


@dataclass(frozen=True)
class Family:
    """A configuration as Hugging Face files have it, and how GGUF files differ from it."""

    config: dict
    gguf: str  # the architecture
    pre: str = "smollm"  # the pre-tokenizer of the GGUF file
    pairs: bool = False  # the rows of a head lie in pairs there
    norms_less_one: bool = False  # in Hugging Face files, and whole in GGUF files
    fields: dict = field(default_factory=dict)  # more fields there
    vectors: dict = field(default_factory=dict)  # more tensors there


SHORT = [1.0 + 0.125 * i for i in range(12)]  # of LongRoPE
LONG = [1.0 + 1.5 * i for i in range(12)]


GEMMA_WINDOW = 50  # shorter than the prompt


def sizes(layers=3, hidden=96, ffn=160, heads=6, kv_heads=2, head_dim=32, **others):
    return {"num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": ffn, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": 512, "hidden_act": "silu",
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "initializer_range": 0.02,
            "bos_token_id": 1, "eos_token_id": 2, **others}  # fmt: skip


FAMILIES = {
    "llama": Family({"architectures": ["LlamaForCausalLM"], "model_type": "llama", **sizes()}, "llama", pairs=True),
    "mistral": Family({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": None,
                       **sizes(head_dim=24, heads=4)}, "llama", pairs=True),
    "qwen2": Family({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_sliding_window": False,
                     **sizes(heads=3, kv_heads=1, head_dim=32, rope_theta=1e6, tie_word_embeddings=True)}, "qwen2", "qwen2"),
    "qwen3": Family({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "use_sliding_window": False,
                     "attention_bias": False, **sizes(heads=6, kv_heads=3, head_dim=40, rope_theta=1e6, rms_norm_eps=1e-6)},
                    "qwen3", "qwen2"),
    # Positions beyond the original context, so that every part of the rotary embedding and the scale of queries count.
    "ministral3": Family(
        {"architectures": ["Ministral3ForCausalLM"], "model_type": "ministral3", "sliding_window": None,
         **sizes(heads=4, kv_heads=2, head_dim=32, rope_theta=None),
         "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 8.0, "original_max_position_embeddings": 64,
                             "beta_fast": 4.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                             "llama_4_scaling_beta": 0.1}},
        "mistral3", pairs=True,
        fields={"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 64,
                "rope.scaling.yarn_beta_fast": 4.0, "rope.scaling.yarn_beta_slow": 1.0, "rope.scaling.yarn_log_multiplier": 1.0,
                "attention.temperature_scale": 0.1}),
    # As Phi-4-mini: long factors, and a part of each head is not rotated.
    "phi3": Family(
        {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "sliding_window": None, "pad_token_id": 0,
         **sizes(heads=3, kv_heads=1, head_dim=32), "partial_rotary_factor": 0.75, "original_max_position_embeddings": 64,
         "rope_scaling": {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}},
        "phi3",
        fields={"rope.scaling.original_context_length": 64, "rope.scaling.attn_factor": float(np.sqrt(1 + np.log(8) / np.log(64))),
                "rope.dimension_count": 24},
        vectors={"rope_factors_short.weight": SHORT, "rope_factors_long.weight": LONG}),
    # The fourth layer does not rotate. More layers would make more of each difference in rounding.
    "smollm3": Family(
        {"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "attention_bias": False, "mlp_bias": False,
         "use_sliding_window": False, "no_rope_layer_interval": 4, "pad_token_id": 0,
         **sizes(layers=4, heads=4, kv_heads=2, head_dim=24, rope_theta=5e6, tie_word_embeddings=True)},
        "smollm3", pairs=True),
    # Every factor is another one. The root of that of scores is a power of two, so that keys round alike.
    "granite": Family(
        {"architectures": ["GraniteForCausalLM"], "model_type": "granite", "attention_bias": False, "mlp_bias": False,
         **sizes(heads=6, kv_heads=2, head_dim=16), "embedding_multiplier": 6.0, "attention_multiplier": 0.0625,
         "residual_multiplier": 0.3, "logits_scaling": 4.0},
        "granite", pairs=True,
        fields={"embedding_scale": 6.0, "attention.scale": 0.0625, "residual_scale": 0.3, "logit_scale": 4.0}),
    # Angles of other layers are scaled, and scores are not divided by the root of head_dim.
    "gemma3": Family(
        {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text",
         **sizes(layers=4, heads=4, kv_heads=2, head_dim=32, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True),
         "hidden_activation": "gelu_pytorch_tanh", "sliding_window": GEMMA_WINDOW, "sliding_window_pattern": 3,
         "rope_local_base_freq": 1000.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "query_pre_attn_scalar": 20},
        "gemma3", norms_less_one=True,
        fields={"attention.sliding_window": GEMMA_WINDOW, "attention.sliding_window_pattern": 3, "rope.freq_base_swa": 1000.0,
                "rope.scaling.type": "linear", "rope.scaling.factor": 4.0, "attention.scale": 20**-0.5}),
}  # fmt: skip


def vocabulary():
    return SPECIAL + byte_letters() + [merge.replace(" ", "") for merge in MERGES]


def tokenizer_json():
    tokens = vocabulary()
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, text in enumerate(SPECIAL)]  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "vocab": {token: i for i, token in enumerate(tokens)}, "merges": MERGES}}  # fmt: skip


def shapes(config):
    """Names and shapes of the tensors, in a fixed order."""
    hidden, ffn, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    kind = config["model_type"]
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", (hidden,)
        if kind == "phi3":
            yield at + "self_attn.qkv_proj.weight", (queries + 2 * keys, hidden)
        for role, rows in (("q", queries), ("k", keys), ("v", keys)) if kind != "phi3" else ():
            yield f"{at}self_attn.{role}_proj.weight", (rows, hidden)
            if kind == "qwen2":
                yield f"{at}self_attn.{role}_proj.bias", (rows,)
        if kind in ("qwen3", "gemma3_text"):
            yield at + "self_attn.q_norm.weight", (dim,)
            yield at + "self_attn.k_norm.weight", (dim,)
        yield at + "self_attn.o_proj.weight", (hidden, queries)
        yield at + "post_attention_layernorm.weight", (hidden,)
        if kind == "gemma3_text":
            yield at + "pre_feedforward_layernorm.weight", (hidden,)
            yield at + "post_feedforward_layernorm.weight", (hidden,)
        if kind == "phi3":
            yield at + "mlp.gate_up_proj.weight", (2 * ffn, hidden)
        else:
            yield at + "mlp.gate_proj.weight", (ffn, hidden)
            yield at + "mlp.up_proj.weight", (ffn, hidden)
        yield at + "mlp.down_proj.weight", (hidden, ffn)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (config["vocab_size"], hidden)


def drawn(name, shape, random, norm):
    """Matrices keep the size of what they multiply, norms are near `norm`. Sharp attention shows a token more or less."""
    if name.endswith("norm.weight"):
        values = norm + 0.25 * random.standard_normal(shape)
    elif name.endswith(".bias"):
        values = 0.5 * random.standard_normal(shape)
    else:
        gain = 2 if any(f".{role}_proj." in name for role in ("q", "k", "qkv")) else 3 if "embed" in name or "lm_head" in name else 1
        values = gain * random.standard_normal(shape) / np.sqrt(shape[-1])
    return (to_bf16(values.astype(np.float32)).astype(np.uint32) << 16).view(np.float32)


def weights(family):
    config = configuration(family)
    random = np.random.default_rng(list(family.encode()))
    norm = 0 if FAMILIES[family].norms_less_one else 1
    return {name: drawn(name, shape, random, norm) for name, shape in shapes(config)}


def configuration(family):
    return {**FAMILIES[family].config, "vocab_size": len(vocabulary()), "torch_dtype": "bfloat16"}


def write(family, directory):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(configuration(family)))
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer_json()))
    (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": SPECIAL[2]}))
    entries = [(name, list(values.shape), to_bf16(values)) for name, values in weights(family).items()]
    write_safetensors(directory / "model.safetensors", entries)
    return directory


if __name__ == "__main__":
    write(*sys.argv[1:])
