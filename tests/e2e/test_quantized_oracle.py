"""Models with quantised matrices say what transformers says of the numbers that their codes stand for (tests/oracle/make_quantized.py)."""

import json
import statistics
import sys

import pytest
from node import Node, tokens
from stubs import ROOT, inference_pb2

sys.path.append(str(ROOT / "tests/oracle"))
import quantized_models  # noqa: E402

CASES = json.loads((ROOT / "tests/oracle/quantized.json").read_text())
RANKS = {"gptq_order": 2, "awq_rows": 1, "fp8_blocks": 3}  # the others have one


def logprobs(model, case, ranks):
    with Node(pool="8MiB") as node:
        stub = node.start_worker(compute="float32", model=model, flags=[f"--tp={ranks}"] if ranks > 1 else [])
        request = inference_pb2.ScoreRequest(input=tokens(case["prompt"]), continuation=tokens(case["continuation"]))
        scored = [token.logprob for token in stub.Score(request, timeout=120).tokens]
        node.assert_all_free()
        node.assert_alive()
    return scored


@pytest.mark.parametrize("form", CASES)
def test_says_what_the_numbers_say(tmp_path, form):
    case = CASES[form]
    directory = quantized_models.write(form, tmp_path / "quantized")
    scored = logprobs(directory, case, RANKS.get(form, 1))
    errors = [abs(got - want) for got, want in zip(scored, case["full"], strict=True)]
    assert statistics.mean(errors) <= 0.01 and max(errors) <= 0.05, errors
    if RANKS.get(form, 1) == 1:
        # The same numbers in float32, which are rounded to bfloat16 while they are loaded, to the bit.
        plain = quantized_models.write(form, tmp_path / "plain", plain=True)
        assert logprobs(plain, case, 1) == scored


def test_each_format_has_a_case():
    assert CASES.keys() == quantized_models.FORMATS.keys()
