"""The Hugging Face directory made from the GGUF file, whole and in shards, gives the GGUF's own numbers."""

import os
import subprocess
import sys

import pytest
from node import MODEL, Node, tokens
from oracle_cases import CASES
from stubs import ROOT, inference_pb2

DIRECTORY = os.environ.get("FOLIO_MODEL_HF", "")
SHARDS = 3

pytestmark = pytest.mark.skipif(not DIRECTORY, reason="FOLIO_MODEL_HF is not set: NO DIRECTORY WAS SERVED")


def numbers(stub, case, count):
    """Log-probabilities of the first tokens of a case and of 20 rivals each, and what was evicted meanwhile."""
    request = inference_pb2.ScoreRequest(
        input=tokens(case.prompt),
        continuation=tokens(case.tokens[:count]),
        cache=case.cache(),
        top_logprobs=20,
        report_evictions=True,
    )
    result = stub.Score(request, timeout=300)
    assert len(result.tokens) == count and all(len(token.top) == 20 for token in result.tokens)
    return list(result.tokens), list(result.evictions)


def case(name, policy):
    return next(one for one in CASES if one.name == name and one.policy == policy)


@pytest.mark.parametrize("compute", [pytest.param("float32", marks=pytest.mark.long), "bfloat16"])
def test_same_numbers_as_the_gguf(request, compute):
    gguf = request.getfixturevalue(compute).stub
    with Node() as node:
        directory = node.start_worker(compute=compute, model=DIRECTORY)
        for one in (case("short", "full"), case("prose", "full")):
            assert numbers(directory, one, len(one.tokens)) == numbers(gguf, one, len(one.tokens)), one.id
        evicting = case("short", "paged_eviction")
        scored, evictions = numbers(directory, evicting, len(evicting.tokens))
        assert evictions and (scored, evictions) == numbers(gguf, evicting, len(evicting.tokens))
        # A chat goes through the directory's own tokenizer, template and end token.
        chat = inference_pb2.GenerateRequest(
            input=inference_pb2.Input(
                chat=inference_pb2.Chat(messages=[inference_pb2.ChatMessage(role="user", content="Say 1234, please.")])
            ),
            max_tokens=16,
        )
        answers = [
            [event.chunk for event in stub.Generate(chat, timeout=60) if event.HasField("chunk")]
            for stub in (directory, gguf)
        ]
        assert answers[0] and answers[0] == answers[1]
        node.assert_all_free()


def test_shards_are_the_same_model(bfloat16, tmp_path):
    shards = tmp_path / "shards"
    convert = [sys.executable, ROOT / "tests/model/gguf_to_hf.py", MODEL, shards, f"--shards={SHARDS}"]
    subprocess.run(convert, check=True, timeout=300)
    assert len(list(shards.glob("model-*.safetensors"))) == SHARDS and not (shards / "model.safetensors").exists()
    with Node() as node:
        whole = node.start_worker("whole", model=DIRECTORY)
        # One pool takes workers of one fingerprint, so that serving at all says it is the same model.
        sharded = node.start_worker("sharded", model=shards)
        asked = inference_pb2.GetModelRequest()
        assert sharded.GetModel(asked, timeout=60).layout == whole.GetModel(asked, timeout=60).layout
        one = case("short", "full")
        assert numbers(sharded, one, 8) == numbers(bfloat16.stub, one, 8)
        node.assert_all_free()
