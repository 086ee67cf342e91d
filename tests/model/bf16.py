"""Floats as the bits of bfloat16, and safetensors files of them."""

import json
import struct

import numpy as np


def to_bf16(values):
    """Nearest, ties to even, as the bits of bf16."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def write_safetensors(path, entries):
    """Entries are (name, shape, bits)."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, data in entries:
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + data.nbytes]}
        offset += data.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in entries:
            out.write(data.tobytes())
