"""A manager lives longer than a model: workers of another one get a pool of their own when nobody uses the old one."""

import signal

import grpc
import pytest
from node import PATIENCE, Node, tokens, wait_until, write_model
from streams import Stream, kill
from stubs import inference_pb2, kv_manager_pb2, kv_manager_pb2_grpc, types_pb2

BOGUS = types_pb2.ModelLayout(
    model="bogus", fingerprint="00" * 16, num_layers=1, num_kv_heads=1, head_dim=8, page_tokens=16,
    data_type=types_pb2.DATA_TYPE_BFLOAT16,
)  # fmt: skip
REQUEST = inference_pb2.GenerateRequest(input=tokens(range(3, 103)), max_tokens=40, ignore_eos=True)
LONG = inference_pb2.GenerateRequest(input=tokens(range(3, 103)), max_tokens=60_000, ignore_eos=True)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two tiny models of random weights."""
    directory = tmp_path_factory.mktemp("models")
    return {family: write_model(directory / family, family, 1 << 16) for family in ("llama", "qwen2")}


def answer(stub):
    stream = Stream()
    stream.follow(stub.Generate(REQUEST, timeout=120))
    assert len(stream.tokens) == REQUEST.max_tokens
    return stream.tokens


def attach(node, layout):
    stub = kv_manager_pb2_grpc.KvManagerStub(node.channels[0])
    return stub.Attach(
        kv_manager_pb2.AttachRequest(protocol_version=3, worker_name="bogus", layout=layout), timeout=PATIENCE
    )


def test_a_layout_that_somebody_claims_to_have_locks_nobody_out(models):
    with Node(pool="8MiB", lease="1s") as node:
        attach(node, BOGUS)
        assert node.pool().layout.model == "bogus"
        stub = node.start_worker(model=models["llama"])
        before = answer(stub)
        assert node.pool().layout.num_layers == 3 and len(node.pool().workers) == 1
        # While a worker is there nobody takes its pool.
        with pytest.raises(grpc.RpcError) as refused:
            attach(node, BOGUS)
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert "num_layers" in refused.value.details() and "end the workers of one model" in refused.value.details()
        assert answer(stub) == before
        node.assert_all_free()
        node.assert_alive()


def test_workers_of_one_model_after_those_of_another(models):
    with Node(pool="8MiB") as node:
        before = {}
        for turn, family in enumerate(["llama", "qwen2", "llama"]):
            name = f"worker-{turn}"
            stub = node.start_worker(name, model=models[family])
            assert before.setdefault(family, answer(stub)) == answer(stub)
            node.assert_all_free()
            # Beside it there is no place for the other one.
            other = node.launch_worker("other", model=models["qwen2" if family == "llama" else "llama"])
            assert other.wait() == 1 and "fingerprint" in other.words()
            node.workers.pop("other")
            node.workers[name].signal(signal.SIGTERM)
            assert node.workers.pop(name).wait() == 0
        assert len({*map(tuple, before.values())}) == 2, "two models give two answers"
        assert node.manager.words().count("pool created") == 3
        assert node.manager.words().count("pool given back") == 2


def test_another_model_waits_for_the_sequences_of_a_lost_worker(models):
    with Node(pool="128MiB", manager_flags=["--orphan_ttl=5s"]) as node:
        stub = node.start_worker("first", model=models["llama"])
        call = stub.Generate(LONG, timeout=60)
        stream = Stream()
        stream.follow(call, stop=lambda stream: len(stream.tokens) >= 5)
        kill(node, "first")
        wait_until(lambda: node.pool().orphans == 1, PATIENCE, "its sequence waits")
        second = node.launch_worker("second", model=models["qwen2"])
        assert len(answer(node.serving("second", second))) == REQUEST.max_tokens
        assert "sequences of lost workers" in second.words() and "no worker claimed it in time" in node.manager.words()
        assert node.pool().orphans == 0
        node.assert_all_free()
        node.assert_alive()
