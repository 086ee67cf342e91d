"""folio-worker --max_context serves shorter sequences than the model is made for."""

import grpc
import pytest
from node import Node, tokens, write_model
from stubs import inference_pb2


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model") / "llama", "llama")  # a context of 2048


def test_longer_sequences_are_refused(model):
    with Node(pool="8MiB") as node:
        stub = node.start_worker(model=model, flags=["--max_context=100"])
        assert stub.GetModel(inference_pb2.GetModelRequest(), timeout=60).context_length == 100
        asked = inference_pb2.GenerateRequest(input=tokens(range(3, 103)), max_tokens=1, ignore_eos=True)
        with pytest.raises(grpc.RpcError) as refused:
            list(stub.Generate(asked, timeout=60))
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "100" in refused.value.details()
        asked.input.CopyFrom(tokens(range(3, 102)))
        assert sum(len(event.chunk.tokens) for event in stub.Generate(asked, timeout=60)) == 1
        node.assert_alive()


def test_more_than_the_model_is_made_for_is_refused(model):
    with Node() as node:
        worker = node.launch_worker("worker", model=model, flags=["--max_context=2049"])
        worker.says("--max_context=2049")
        assert worker.popen.wait(60) == 1
        assert "serves at most 2048 tokens" in worker.words()


def test_ranks_have_the_same_context(model):
    with Node(pool="8MiB") as node:
        stub = node.start_worker(model=model, flags=["--max_context=100", "--tp=2"])
        assert stub.GetModel(inference_pb2.GetModelRequest(), timeout=60).context_length == 100
        asked = inference_pb2.GenerateRequest(input=tokens(range(3, 60)), max_tokens=5, ignore_eos=True)
        assert sum(len(event.chunk.tokens) for event in stub.Generate(asked, timeout=60)) == 5
        node.assert_alive()
