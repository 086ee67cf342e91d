"""Families of models other than the reference model's, served from both formats by one worker and by ranks."""


import pytest
from node import Node, cache, tokens, write_model
from stubs import inference_pb2

PROMPT = [(7 * i) % 250 + 3 for i in range(90)]


def answers(stub):
    """Greedy tokens, log-probabilities of a continuation that evicts, and what was evicted."""
    request = inference_pb2.GenerateRequest(input=tokens(PROMPT), max_tokens=24, ignore_eos=True)
    generated = [token for event in stub.Generate(request, timeout=120) for token in event.chunk.tokens]
    request = inference_pb2.ScoreRequest(
        input=tokens(PROMPT),
        continuation=tokens(generated),
        cache=cache("paged_eviction", 64),
        report_evictions=True,
    )
    scored = stub.Score(request, timeout=120)
    assert len(generated) == 24 and scored.evictions
    return generated, [token.logprob for token in scored.tokens], list(scored.evictions)


# Converters write "llama" into the GGUF files of Mistral's models.
@pytest.mark.parametrize(("family", "gguf"), [("llama", "llama"), ("mistral", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3"),
                                             ("gemma3", "gemma3"), ("granite", "granite"), ("smollm3", "smollm3")])  # fmt: skip
def test_both_formats_say_the_same(family, gguf, tmp_path):
    directory = write_model(tmp_path / family, family)
    said = []
    cases = ((directory, (), family), (directory / "model.gguf", (), gguf), (directory, ("--tp=2",), family))
    for model, flags, name in cases:
        with Node(pool="8MiB") as node:
            stub = node.start_worker(compute="float32", model=model, flags=flags)
            assert stub.GetModel(inference_pb2.GetModelRequest(), timeout=60).architecture == name
            said.append(answers(stub))
            node.assert_all_free()
            node.assert_alive()
    assert said[0] == said[1]
    # Ranks add partial sums in another order.
    assert said[2][0] == said[0][0]
    assert max(abs(one - other) for one, other in zip(said[2][1], said[0][1], strict=True)) < 0.05
