"""python3 -m suite.shape_model OUT {1b,3b,8b,tiny}: a model of true shape with random weights, for measuring speed.

Writes a Hugging Face directory: `config.json`, `tokenizer.json` and bf16 safetensors. The tokenizer knows bytes and groups of
two and four upper-case letters, so that a lower-case letter is a token and a prompt of N of them has N tokens. Weights are slices of
one block of normal numbers, which takes seconds where drawing each would take minutes.
"""

import array
import dataclasses
import json
import math
import pathlib
import random
import struct
import sys

BLOCK = 1 << 20  # numbers that the weights are cut from
DEVIATION = 0.02
ONE = 0x3F80  # in bf16


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    tied: bool
    rope_factor: float
    vocabulary: int = 128256


SHAPES = {
    "1b": Shape(2048, 16, 32, 8, 64, 8192, True, 32.0),
    "3b": Shape(3072, 28, 24, 8, 128, 8192, True, 32.0),
    "8b": Shape(4096, 32, 32, 8, 128, 14336, False, 8.0),
    "tiny": Shape(256, 2, 4, 2, 64, 512, True, 32.0, vocabulary=4096),
}
NAMES = {"1b": "Llama-3.2-1B", "3b": "Llama-3.2-3B", "8b": "Llama-3.1-8B", "tiny": "tiny"}


def byte_letters():
    """The character that stands for each byte in a byte-level vocabulary: itself where it can be printed."""
    printed = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    return [chr(byte) for byte in printed] + [chr(256 + index) for index in range(len(others))]


def tokenizer(size):
    letters = [chr(code) for code in range(ord("A"), ord("Z") + 1)]
    pairs = [(one, two) for one in letters for two in letters]
    merges = pairs + [(one + two, third + fourth) for one, two in pairs for third, fourth in pairs]
    special = ["<|bos|>", "<|eos|>"]
    bytes_ = byte_letters()
    merges = merges[: size - len(bytes_) - len(special)]
    tokens = bytes_ + [one + two for one, two in merges]
    added = [
        {"id": len(tokens) + index, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True}
        for index, text in enumerate(special)
    ]  # fmt: skip
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate(tokens)}, "merges": [list(pair) for pair in merges],
        },
    }  # fmt: skip


def config(shape):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": shape.hidden, "intermediate_size": shape.feed_forward, "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary, "tie_word_embeddings": shape.tied, "hidden_act": "silu",
        "attention_bias": False, "mlp_bias": False, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "max_position_embeddings": 131072, "bos_token_id": shape.vocabulary - 2, "eos_token_id": shape.vocabulary - 1,
        "rope_scaling": {"rope_type": "llama3", "factor": shape.rope_factor, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    }  # fmt: skip


def tensors(shape):
    """Name and extents of each."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "model.embed_tokens.weight", (shape.vocabulary, shape.hidden)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (shape.hidden,)
        yield prefix + "self_attn.q_proj.weight", (queries, shape.hidden)
        yield prefix + "self_attn.k_proj.weight", (keys, shape.hidden)
        yield prefix + "self_attn.v_proj.weight", (keys, shape.hidden)
        yield prefix + "self_attn.o_proj.weight", (shape.hidden, queries)
        yield prefix + "post_attention_layernorm.weight", (shape.hidden,)
        yield prefix + "mlp.gate_proj.weight", (shape.feed_forward, shape.hidden)
        yield prefix + "mlp.up_proj.weight", (shape.feed_forward, shape.hidden)
        yield prefix + "mlp.down_proj.weight", (shape.hidden, shape.feed_forward)
    yield "model.norm.weight", (shape.hidden,)
    if not shape.tied:
        yield "lm_head.weight", (shape.vocabulary, shape.hidden)


def to_bf16(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def write_weights(path, shape):
    header, offset = {}, 0
    for name, extents in tensors(shape):
        size = 2 * math.prod(extents)
        header[name] = {"dtype": "BF16", "shape": list(extents), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    draw = random.Random(7)
    block = memoryview(array.array("H", (to_bf16(draw.gauss(0, DEVIATION)) for _ in range(BLOCK))))
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, extents in tensors(shape):
            left = math.prod(extents)
            if len(extents) == 1:
                out.write(array.array("H", [ONE]) * left)
                continue
            while left:
                # Each piece begins elsewhere in the block, so that no two rows of a matrix are alike.
                start = draw.randrange(BLOCK - 1)
                piece = block[start : start + left]
                out.write(piece)
                left -= len(piece)


def write(directory, name):
    shape = SHAPES[name]
    directory.mkdir(parents=True, exist_ok=True)
    words = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    documents = {"tokenizer.json": tokenizer(shape.vocabulary), "tokenizer_config.json": words, "config.json": config(shape)}
    for file, document in documents.items():
        (directory / file).write_text(json.dumps(document))
    write_weights(directory / "model.safetensors", shape)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in SHAPES:
        sys.exit(f"usage: python3 -m suite.shape_model OUT {{{','.join(SHAPES)}}}")
    write(pathlib.Path(sys.argv[1]), sys.argv[2])
