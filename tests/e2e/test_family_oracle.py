"""Tiny models of each family say what transformers says of them (tests/oracle/make_families.py), from both formats and by ranks."""

import json
import statistics
import sys

import pytest
from node import Node, cache, tokens
from stubs import ROOT, inference_pb2

sys.path.append(str(ROOT / "tests/oracle"))
import family_gguf  # noqa: E402
import family_models  # noqa: E402

CASES = json.loads((ROOT / "tests/oracle/families.json").read_text())
PAGE, BUDGET = 16, 64


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """A directory for each family, in which model.gguf is the same model once more."""
    root = tmp_path_factory.mktemp("families")
    for family in CASES:
        family_models.write(family, root / family)
        family_gguf.write(family, root / family / "model.gguf")
    return root


def score(stub, case, options):
    return stub.Score(inference_pb2.ScoreRequest(input=tokens(case["prompt"]), continuation=tokens(case["continuation"]),
                                                 cache=options, report_evictions=True), timeout=120)  # fmt: skip


def errors(scored, expected):
    return [abs(token.logprob - value) for token, value in zip(scored.tokens, expected, strict=True)]


def kept_shares(scored, case):
    """The share of the positions that transformers' keys and values keep, per layer."""
    (compaction,) = scored.evictions
    assert compaction.step == -1
    return [len(set(layer.kept) & set(kept)) / len(kept) for layer, kept in zip(compaction.layers, case["kept"], strict=True)]


# Form, flags, arithmetic; then bounds of log-probabilities (mean, worst) and of the kept share of a layer. In float32 K or V may
# fall on the other side between two numbers of bfloat16. Everything else is a difference of definitions.
FORMS = {
    "directory": ("", (), "float32", (0.01, 0.05), 0.95),
    "gguf": ("model.gguf", (), "float32", (0.01, 0.05), 0.95),
    "two_ranks": ("", ("--tp=2",), "float32", (0.01, 0.05), 0.95),
    "bfloat16": ("", (), "bfloat16", (0.15, 0.6), 0.85),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", CASES)
def test_says_what_transformers_says(directories, family, form):
    case = CASES[family]
    path, flags, compute, (mean, worst), least = FORMS[form]
    with Node(pool="8MiB") as node:
        stub = node.start_worker(compute=compute, model=directories / family / path, flags=flags)
        full = errors(score(stub, case, cache("full")), case["full"])
        assert statistics.mean(full) <= mean and max(full) <= worst, full
        scored = score(stub, case, cache("paged_eviction", BUDGET, sink=PAGE, recent=PAGE))
        shares = kept_shares(scored, case)
        assert min(shares) >= least, shares
        evicted = errors(scored, case["evicted"])
        # A token at the edge of a kept set may differ and moves all that follows.
        agree = min(shares) == 1
        assert statistics.mean(evicted) <= (mean if agree else 0.5), (evicted, shares)
        node.assert_all_free()
        node.assert_alive()


def test_each_family_has_a_case():
    assert CASES.keys() == family_models.FAMILIES.keys()
