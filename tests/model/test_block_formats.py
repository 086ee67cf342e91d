"""Quantised blocks of GGUF files become the very floats that the gguf package makes of them."""

import subprocess

import gguf
import numpy
import pytest
from node import BIN

TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"]
# Where each type has its half-precision numbers. All other bytes of a block may be anything.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0]}  # fmt: skip


def random_blocks(name, count, seed):
    """Bytes [count, bytes of a block] whose scales are finite."""
    _, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    random = numpy.random.default_rng(seed)
    blocks = random.integers(0, 256, (count, size), dtype=numpy.uint8)
    for at in HALVES[name]:
        halves = random.integers(0, 1 << 16, count).astype(numpy.uint16)
        halves[(halves & 0x7C00) == 0x7C00] &= 0x83FF  # subnormal in place of infinite
        blocks[:, at : at + 2] = halves.view(numpy.uint8).reshape(count, 2)
    return blocks


def dequantized(name, blocks):
    done = subprocess.run([BIN / "dequantize_blocks", name], input=blocks.tobytes(), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return numpy.frombuffer(done.stdout, numpy.float32)


@pytest.mark.parametrize("name", TYPES)
def test_random_blocks_are_equal_to_the_bit(name):
    seed = numpy.random.SeedSequence().entropy
    blocks = random_blocks(name, 4000, seed)
    expected = gguf.dequantize(blocks.reshape(-1), gguf.GGMLQuantizationType[name]).reshape(-1)
    ours = dequantized(name, blocks)
    assert ours.shape == expected.shape
    # A zero may have either sign: 0 - 0 is 0, and the reference adds where it subtracts.
    different = numpy.flatnonzero((ours.view(numpy.uint32) != expected.view(numpy.uint32)) & ~((ours == 0) & (expected == 0)))
    assert not different.size, f"seed {seed}: value {different[0]}: {ours[different[0]]!r}, not {expected[different[0]]!r}"


def test_each_type_that_is_read_is_compared():
    unread = [each.name for each in gguf.GGMLQuantizationType if each.name not in TYPES
              and subprocess.run([BIN / "dequantize_blocks", each.name], input=b"", capture_output=True).returncode == 0]  # fmt: skip
    assert sorted(unread) == ["BF16", "F16", "F32"]


def test_a_part_of_a_block_is_refused():
    done = subprocess.run([BIN / "dequantize_blocks", "Q4_K"], input=b"x" * 143, capture_output=True)
    assert done.returncode == 1 and b"143 bytes" in done.stderr
