"""A worker on a GPU, which is emulated, holds the matrices of a GGUF file as they are stored, if it is told to."""

import re
import statistics
import sys

import pytest
import quantised
from gpu_node import GpuNode
from node import Node
from stubs import ROOT

sys.path.append(str(ROOT / "tests/model"))
import random_gguf  # noqa: E402

PROMPT = [300 + 7 * i for i in range(40)]
CONTINUATION = [310 + 11 * i for i in range(24)]
# Activations are rounded to bf16, and so are the CPU's weights: see test_quantised.py.
MEAN, WORST = 0.02, 0.1


def written(directory, shape):
    path = directory / "model.gguf"
    random_gguf.write(path, shape, "Q4_K_M", seed=5)
    return path


def served(node, path, *flags):
    return quantised.served(node, path, PROMPT, CONTINUATION, *flags)


def test_says_nearly_what_a_cpu_says(tmp_path):
    file = written(tmp_path, "tiny64")
    reference, _, _ = served(Node(pool="16MiB"), file, "--weights=bfloat16")
    _, dense, log = served(GpuNode(), file)
    assert "as they are stored" not in log and re.fullmatch("[0-9a-f]{32}", dense.layout.fingerprint)
    for kernels in ("auto", "libraries"):
        mine, said, log = served(GpuNode(), file, "--weights=as-is", f"--kernels={kernels}")
        assert f"the embedding and the output matrices={3 * 7 - 3}" in log and "held in bfloat16" not in log
        wrong = [abs(a - b) for a, b in zip(mine, reference, strict=True)]
        assert statistics.mean(wrong) <= MEAN and max(wrong) <= WORST, wrong
        assert said.layout.fingerprint == dense.layout.fingerprint + "-as-is"
        # Of 1.6 million numbers, each 4.6 to 6.6 bits instead of 16.
        assert said.weight_bytes < dense.weight_bytes - 2_000_000


def test_padded_heads(tmp_path):
    file = written(tmp_path, "tiny96")
    reference, _, _ = served(Node(pool="16MiB"), file, "--weights=bfloat16")
    mine, said, log = served(GpuNode(), file, "--weights=as-is")
    # Without the output projections, in which the zeros cut blocks.
    assert f"the embedding and the output matrices={3 * 7 - 3 - 3}" in log and "the heads of the model are padded" in log
    assert said.layout.head_dim == 128
    wrong = [abs(a - b) for a, b in zip(mine, reference, strict=True)]
    assert statistics.mean(wrong) <= MEAN and max(wrong) <= WORST, wrong
