"""What a worker says of a model with quantised matrices, and how it holds them."""

from node import cache, tokens
from stubs import inference_pb2


def served(node, path, prompt, continuation, *flags, compute="bfloat16"):
    """Log-probabilities of `continuation`, what a worker of `node` says of the model, and its log."""
    with node:
        stub = node.start_worker(compute=compute, model=path, flags=flags)
        said = stub.GetModel(inference_pb2.GetModelRequest(), timeout=60)
        scored = stub.Score(inference_pb2.ScoreRequest(input=tokens(prompt), continuation=tokens(continuation), cache=cache("full")),
                            timeout=120)  # fmt: skip
        worker = next(iter(node.workers.values()))
        worker.says("model loaded")
        node.assert_all_free()
        return [token.logprob for token in scored.tokens], said, worker.words()
