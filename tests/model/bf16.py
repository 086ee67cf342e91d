"""Floats as the bits of bfloat16."""

import numpy as np


def to_bf16(values):
    """Nearest, ties to even, as the bits of bf16."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
