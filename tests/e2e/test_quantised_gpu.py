"""A worker on a GPU, which is emulated, holds the matrices of a GGUF file as they are stored, if it is told to."""

import re
import statistics
import sys

import pytest
from gpu_node import GpuNode
from node import Node, cache, tokens
from stubs import ROOT, inference_pb2

sys.path.append(str(ROOT / "tests/model"))
import random_gguf  # noqa: E402

PROMPT = [300 + 7 * i for i in range(40)]
CONTINUATION = [310 + 11 * i for i in range(24)]
# Activations are rounded to bf16, and so are the CPU's weights: see test_quantised.py.
MEAN, WORST = 0.02, 0.1


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("quantised") / "model.gguf"
    random_gguf.write(path, "tiny64", "Q4_K_M", seed=5)
    return path


def served(node, path, *flags):
    """Log-probabilities, what the worker says of the model, and its log."""
    with node:
        stub = node.start_worker(compute="bfloat16", model=path, flags=flags)
        said = stub.GetModel(inference_pb2.GetModelRequest(), timeout=60)
        scored = stub.Score(inference_pb2.ScoreRequest(input=tokens(PROMPT), continuation=tokens(CONTINUATION), cache=cache("full")),
                            timeout=120)  # fmt: skip
        worker = next(iter(node.workers.values()))
        worker.says("model loaded")
        node.assert_all_free()
        return [token.logprob for token in scored.tokens], said, worker.words()


def test_says_nearly_what_a_cpu_says(file):
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
