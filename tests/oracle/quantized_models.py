"""Tiny models with quantised matrices as Hugging Face directories, written from the definitions of the formats with numpy alone.

`write` quantises the matrices of a tiny model of family_models.py, and `dequantized` gives the numbers that the codes stand for, which
are computed from the codes before they are packed. make_quantized.py lets transformers say what a model of these numbers says.

    quantized_models.py FORMAT DIRECTORY
"""

import json
import pathlib
import sys

import family_models
import numpy as np
from bf16 import to_bf16, write_safetensors

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the columns of a word, from its lowest bits on


def packed(codes, order=range(8)):
    """Eight codes of 4 bits in a word, along the last axis."""
    words = np.zeros((*codes.shape[:-1], codes.shape[-1] // 8), np.uint32)
    for place, column in enumerate(order):
        words |= codes[..., column::8].astype(np.uint32) << np.uint32(4 * place)
    return words.view(np.int32)


def int4(values, group_of, symmetric):
    """Codes [rows, columns], zeros and scales [rows, groups] (float16 numbers), and the numbers that they stand for."""
    groups = group_of.max() + 1
    low, high = (np.stack([f(values[:, group_of == g], 1) for g in range(groups)], 1) for f in (np.min, np.max))
    if symmetric:
        scales = np.maximum(np.abs(low), np.abs(high)) / 7
        zeros = np.full(scales.shape, 8)
    else:
        scales = (np.maximum(high, 0) - np.minimum(low, 0)) / 14
        zeros = np.clip(np.round(-low / scales), 0, 15).astype(int)
    scales = scales.astype(np.float16)
    wide = scales.astype(np.float32)[:, group_of]
    codes = np.clip(np.round(values / wide) + zeros[:, group_of], 0, 15).astype(int)
    return codes, zeros, scales, (codes - zeros[:, group_of]).astype(np.float32) * wide


def in_order(columns, group):
    assert columns % (group or columns) == 0
    return np.arange(columns) // (group or columns)


def half(values):
    return "F16", values


def word(values):
    return "I32", values


def awq(name, values, group):
    codes, zeros, scales, numbers = int4(values, in_order(values.shape[1], group), False)
    return numbers, {
        name + ".qweight": word(packed(codes.T, AWQ_ORDER)),
        name + ".qzeros": word(packed(zeros.T, AWQ_ORDER)),
        name + ".scales": half(scales.T),
    }


def gptq(name, values, group, older=True, symmetric=False, shuffled=False):
    group_of = in_order(values.shape[1], group)
    if shuffled:
        group_of = np.random.default_rng(len(group_of)).permutation(group_of)
    codes, zeros, scales, numbers = int4(values, group_of, symmetric)
    return numbers, {
        name + ".qweight": word(np.ascontiguousarray(packed(codes).T)),
        name + ".qzeros": word(packed(zeros.T) - np.int32(0x11111111 if older else 0)),
        name + ".scales": half(scales.T),
        name + ".g_idx": word(group_of.astype(np.int32)),
    }


def pack_quantized(name, values, group, symmetric=True):
    codes, zeros, scales, numbers = int4(values, in_order(values.shape[1], group), symmetric)
    tensors = {
        name + ".weight_packed": word(packed(codes)),
        name + ".weight_scale": half(scales),
        name + ".weight_shape": ("I64", np.array(values.shape, np.int64)),
    }
    if not symmetric:
        tensors[name + ".weight_zero_point"] = word(np.ascontiguousarray(packed(zeros.T).T))
    return numbers, tensors


def e4m3_numbers():
    """The numbers of codes 0 to 126: four bits of exponent with bias 7, three of mantissa."""
    code = np.arange(127)
    exponent, mantissa = code >> 3, code & 7
    return np.where(exponent == 0, mantissa / 512, (1 + mantissa / 8) * 2.0 ** (exponent - 7)).astype(np.float32)


def fp8_blocks(name, values, side):
    rows, columns = values.shape
    numbers = e4m3_numbers()
    scales = np.zeros((-(-rows // side), -(-columns // side)), np.float32)
    for i, j in np.ndindex(*scales.shape):
        scales[i, j] = np.abs(values[i * side : (i + 1) * side, j * side : (j + 1) * side]).max() / 448
    wide = scales.repeat(side, 0)[:rows].repeat(side, 1)[:, :columns]
    sizes = np.abs(values / wide)
    above = np.clip(np.searchsorted(numbers, sizes), 1, 126)
    codes = np.where(sizes - numbers[above - 1] < numbers[above] - sizes, above - 1, above)
    signs = np.where(values < 0, -1, 1).astype(np.float32)
    bits = (codes + np.where(values < 0, 128, 0)).astype(np.uint8)
    return signs * numbers[codes] * wide, {name + ".weight": ("F8_E4M3", bits), name + ".weight_scale_inv": ("F32", scales)}


def gptq_config(group, sym=False, desc_act=False, checkpoint_format="gptq"):
    return {"quant_method": "gptq", "bits": 4, "group_size": group or -1, "sym": sym, "desc_act": desc_act,
            "checkpoint_format": checkpoint_format, "true_sequential": True, "damp_percent": 0.01}  # fmt: skip


def compressed(group, symmetric):
    weights = {"type": "int", "num_bits": 4, "strategy": "group" if group else "channel", "symmetric": symmetric,
               "group_size": group or None, "dynamic": False, "actorder": None}  # fmt: skip
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "kv_cache_scheme": None, "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}}  # fmt: skip


# family, how a matrix is stored, quantization_config
FORMATS = {
    "fp8_blocks": ("qwen3", lambda n, v: fp8_blocks(n, v, 64), {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                                                                "weight_block_size": [64, 64]}),
    "fp8_fused": ("phi3", lambda n, v: fp8_blocks(n, v, 40), {"quant_method": "fp8", "activation_scheme": "dynamic",
                                                              "weight_block_size": [40, 40]}),
    "awq": ("qwen2", lambda n, v: awq(n, v, 32), {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm",
                                                  "zero_point": True}),
    "awq_rows": ("phi3", lambda n, v: awq(n, v, 0), {"quant_method": "awq", "bits": 4, "group_size": -1, "version": "gemm",
                                                     "zero_point": True, "modules_to_not_convert": None}),
    "gptq": ("llama", lambda n, v: gptq(n, v, 32), gptq_config(32)),
    "gptq_symmetric": ("phi3", lambda n, v: gptq(n, v, 0, symmetric=True), gptq_config(0, sym=True)),
    "gptq_order": ("qwen2", lambda n, v: gptq(n, v, 32, shuffled=True), gptq_config(32, desc_act=True)),
    "gptq_v2": ("mistral", lambda n, v: gptq(n, v, 32, older=False), gptq_config(32, checkpoint_format="gptq_v2")),
    "pack_quantized": ("llama", lambda n, v: pack_quantized(n, v, 32), compressed(32, True)),
    "pack_quantized_zeros": ("qwen3", lambda n, v: pack_quantized(n, v, 0, symmetric=False), compressed(0, False)),
}  # fmt: skip


def quantized(form):
    """The tensors of the directory as (type, values), and the numbers of the model."""
    family, store, _ = FORMATS[form]
    tensors, numbers = {}, {}
    for name, values in family_models.weights(family).items():
        if "_proj.weight" not in name:
            tensors[name], numbers[name] = ("BF16", to_bf16(values)), values
            continue
        numbers[name], parts = store(name.removesuffix(".weight"), values)
        tensors |= parts
    return tensors, numbers


def dequantized(form):
    """The numbers of the model, rounded to bfloat16 as Folio holds them."""
    _, numbers = quantized(form)
    return {name: (to_bf16(values).astype(np.uint32) << 16).view(np.float32) for name, values in numbers.items()}


def write_tensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (kind, values) in tensors.items():
        piece = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write(form, directory, plain=False):
    """With `plain`, the numbers in float32 instead of the quantised matrices."""
    directory = pathlib.Path(directory)
    family, _, config = FORMATS[form]
    family_models.write(family, directory)
    if plain:
        entries = {name: ("F32", values) for name, values in quantized(form)[1].items()}
    else:
        entries = quantized(form)[0]
        (directory / "config.json").write_text(json.dumps(family_models.configuration(family) | {"quantization_config": config}))
    write_tensors(directory / "model.safetensors", entries)
    return directory


if __name__ == "__main__":
    write(*sys.argv[1:])
