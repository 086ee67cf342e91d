"""Quantised GGUF files are served as they are stored, and say nearly what the float32 reference says of them."""

import re
import statistics
import sys

import numpy
import pytest
import quantised
from node import Node
from stubs import ROOT

sys.path.append(str(ROOT / "tests/model"))
import random_gguf  # noqa: E402

VOCAB = 1024
RANDOM = numpy.random.default_rng(7)
PROMPT = RANDOM.integers(300, VOCAB - 2, 90).tolist()
CONTINUATION = RANDOM.integers(300, VOCAB - 2, 40).tolist()
# A block of 32 activations has its largest at 127 steps, so that rounding loses 0.5 % of the root of their mean square. A bf16 mantissa
# loses 0.17 %. Log-probabilities differ from the reference in proportion: by 0.018 and 0.006 on average, and at worst by 0.08 and 0.02.
MEAN, WORST = 0.04, 0.2
MIXES = ["Q4_K_M", "Q5_K_M", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "IQ4_XS"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    root = tmp_path_factory.mktemp("quantised")

    def made(mix):
        path = root / f"{mix}.gguf"
        if not path.exists():
            random_gguf.write(path, "tiny", mix, seed=3)
        return path

    return made


def served(path, *flags, compute="bfloat16"):
    return quantised.served(Node(pool="16MiB"), path, PROMPT, CONTINUATION, *flags, compute=compute)


def errors(some, others):
    return [abs(a - b) for a, b in zip(some, others, strict=True)]


@pytest.mark.parametrize("mix", MIXES)
def test_says_nearly_what_the_reference_says(file, mix):
    path = file(mix)
    reference, _, log = served(path, compute="float32")
    assert "as they are stored" not in log
    mine, said, log = served(path)
    assert f"first layer's Q, K and V matrices={3 * 7 - 3 + 1}" in log and "held in bfloat16" not in log
    wrong = errors(mine, reference)
    assert statistics.mean(wrong) <= MEAN and max(wrong) <= WORST, wrong
    # Less the first layer's Q, K and V in bf16. K formats have scales of eight bits in place of six.
    assert said.weight_bytes - 2 * (8 + 2 * 2) * 32 * 256 <= 1.1 * path.stat().st_size
    assert said.layout.fingerprint.endswith("-as-is")


def test_bfloat16_is_as_before(file):
    path = file("Q4_K_M")
    reference, _, _ = served(path, compute="float32")
    mine, said, log = served(path, "--weights=bfloat16")
    assert "as they are stored" not in log
    wrong = errors(mine, reference)
    assert statistics.mean(wrong) <= MEAN / 2 and max(wrong) <= WORST / 2, wrong
    assert re.fullmatch("[0-9a-f]{32}", said.layout.fingerprint)


def test_the_plain_twin_serves_too(file):
    path = file("Q4_K_M")
    fast, _, _ = served(path)
    plain, _, log = served(path, "--weights=as-is", compute="float32")
    assert "as they are stored" in log
    wrong = errors(fast, plain)
    assert statistics.mean(wrong) <= MEAN and max(wrong) <= WORST, wrong


def test_falls_back_by_name(file):
    """Q3_K has no kernels, and F16 beside Q4_K in one product takes that along."""
    _, said, log = served(file("Q3_K"))
    assert "quantised matrices are held in bfloat16 matrices=19 reason=\"no kernel computes with Q3_K\"" in log
    assert re.fullmatch("[0-9a-f]{32}", said.layout.fingerprint)
    reference, _, _ = served(file("Q4_K_F16"), compute="float32")
    mine, _, log = served(file("Q4_K_F16"))
    assert "reason=\"it is beside a matrix of floats\"" in log and "as they are stored" in log
    wrong = errors(mine, reference)
    assert statistics.mean(wrong) <= MEAN and max(wrong) <= WORST, wrong


@pytest.mark.parametrize("mix", ["Q4_K_M", "Q5_0"])
def test_ranks_have_whole_blocks(file, mix):
    """Columns of two ranks are 128 and 256: within a block of 256 for the attention's output, and at its end for `down`."""
    path = file(mix)
    reference, _, _ = served(path, compute="float32")
    mine, _, log = served(path, "--tp=2")
    assert ("columns begin or end within a block" in log) == (mix == "Q4_K_M")
    assert "as they are stored" in log
    wrong = errors(mine, reference)
    assert statistics.mean(wrong) <= MEAN and max(wrong) <= WORST, wrong


def test_workers_of_one_pool_hold_weights_alike(file):
    path = file("Q4_K_M")
    with Node(pool="16MiB") as node:
        node.start_worker(compute="bfloat16", model=path)
        other = node.launch_worker("other", compute="bfloat16", model=path, flags=["--weights=bfloat16"])
        assert other.wait() == 1 and "fingerprint" in other.words()
        node.workers.pop("other")
