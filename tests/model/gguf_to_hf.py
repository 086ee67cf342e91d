#!/usr/bin/env python3
"""Makes the Hugging Face directory that belongs to a Llama GGUF file.

    gguf_to_hf.py MODEL.gguf DIRECTORY [--if-missing] [--shards N]

Weights are dequantised in float32 by the `gguf` package and rounded to bf16; the rows of Q and K are
brought back from the order for interleaved rotary embedding. Written independently of the C++
reader, so that the two check each other.
"""

import argparse
import json
import pathlib
import re
import shutil
import sys
import tempfile

import numpy as np
from bf16 import to_bf16, write_safetensors
from gguf import GGUFReader
from gguf.quants import dequantize

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
MODEL_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
CONTROL, USER_DEFINED = 3, 4
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def hf_name(name):
    if name in MODEL_NAMES:
        return MODEL_NAMES[name]
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", name)
    if not match or match[2] not in LAYER_NAMES:
        sys.exit(f"gguf_to_hf: no place for tensor {name}")
    return f"model.layers.{match[1]}.{LAYER_NAMES[match[2]]}.weight"


def metadata(reader):
    return {key: field.contents() for key, field in reader.fields.items()}


def to_half_split(weights, heads):
    """[heads, pairs, 2] rows (rotation of neighbours) to [heads, 2, pairs] (of halves)."""
    rows, columns = weights.shape
    return weights.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def tensors(reader, fields):
    heads = fields["llama.attention.head_count"]
    kv_heads = fields.get("llama.attention.head_count_kv", heads)
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            sys.exit("gguf_to_hf: rope_freqs.weight has no counterpart in config.json")
        shape = [int(extent) for extent in reversed(tensor.shape)]
        weights = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        if tensor.name.endswith("attn_q.weight"):
            weights = to_half_split(weights, heads)
        elif tensor.name.endswith("attn_k.weight"):
            weights = to_half_split(weights, kv_heads)
        yield hf_name(tensor.name), shape, to_bf16(weights)


def write_weights(directory, entries, shards):
    if shards == 1:
        write_safetensors(directory / "model.safetensors", entries)
        return
    weight_map = {}
    for index in range(shards):
        part = entries[index::shards]
        name = f"model-{index + 1:05}-of-{shards:05}.safetensors"
        write_safetensors(directory / name, part)
        weight_map.update({entry[0]: name for entry in part})
    total = sum(data.nbytes for _, _, data in entries)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=1))


def config(fields, tied, vocab):
    heads = fields["llama.attention.head_count"]
    hidden = fields["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "_name_or_path": fields.get("general.name", ""),
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields.get("llama.attention.head_count_kv", heads),
        "head_dim": fields.get("llama.attention.key_length", hidden // heads),
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": fields.get("llama.rope.freq_base", 10000.0),
        "tie_word_embeddings": tied,
        "vocab_size": vocab,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": fields.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": fields.get("tokenizer.ggml.eos_token_id"),
    }


def pair(merge):
    """The two tokens of a merge; the first may begin with the blank."""
    cut = merge.index(" ", 1)
    return [merge[:cut], merge[cut + 1:]]


def tokenizer(fields):
    pre = fields.get("tokenizer.ggml.pre", "")
    if fields["tokenizer.ggml.model"] != "gpt2" or pre not in ("smollm", "gpt-2", "default"):
        sys.exit(f"gguf_to_hf: no conversion for tokenizer {fields['tokenizer.ggml.model']}, {pre}")
    tokens = fields["tokenizer.ggml.tokens"]
    added = [
        {"id": index, "content": tokens[index], "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False, "special": kind == CONTROL}
        for index, kind in enumerate(fields["tokenizer.ggml.token_type"])
        if kind in (CONTROL, USER_DEFINED)
    ]
    cut = BYTE_LEVEL
    if pre == "smollm":
        digits = {"type": "Digits", "individual_digits": True}
        cut = {"type": "Sequence", "pretokenizers": [digits, BYTE_LEVEL]}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": cut,
        "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": [pair(merge) for merge in fields["tokenizer.ggml.merges"]],
        },
    }


def tokenizer_config(fields):
    tokens = fields["tokenizer.ggml.tokens"]

    def text(key):
        index = fields.get(f"tokenizer.ggml.{key}_token_id")
        return None if index is None else tokens[index]

    return {
        "add_bos_token": bool(fields.get("tokenizer.ggml.add_bos_token", False)),
        "bos_token": text("bos"),
        "eos_token": text("eos"),
        "chat_template": fields.get("tokenizer.chat_template"),
        "model_max_length": fields["llama.context_length"],
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def convert(model, directory, shards):
    reader = GGUFReader(model)
    fields = metadata(reader)
    if fields["general.architecture"] != "llama":
        sys.exit(f"gguf_to_hf: architecture {fields['general.architecture']}")
    entries = list(tensors(reader, fields))
    names = {name for name, _, _ in entries}
    documents = {
        "config.json": config(fields, "lm_head.weight" not in names,
                              len(fields["tokenizer.ggml.tokens"])),
        "tokenizer.json": tokenizer(fields),
        "tokenizer_config.json": tokenizer_config(fields),
        "generation_config.json": {"eos_token_id": fields.get("tokenizer.ggml.eos_token_id")},
    }
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document, ensure_ascii=False, indent=1), "utf-8")
    write_weights(directory, entries, shards)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--if-missing", action="store_true", help="do nothing if the directory is there")
    parser.add_argument("--shards", type=int, default=1)
    options = parser.parse_args()
    if options.directory.exists():
        if options.if_missing:
            return
        sys.exit(f"gguf_to_hf: {options.directory} is there already")
    options.directory.parent.mkdir(parents=True, exist_ok=True)
    # Complete or not there at all.
    work = pathlib.Path(tempfile.mkdtemp(prefix=options.directory.name, dir=options.directory.parent))
    try:
        convert(options.model, work, options.shards)
        work.chmod(0o755)
        work.rename(options.directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
