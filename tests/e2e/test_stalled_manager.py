"""A manager that stands still: its workers notice, say so, end their requests, and serve again when it is back."""

import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from node import PATIENCE, Node, side_by_side, tokens, wait_until, write_model
from processes import stopped
from streams import Stream, refused
from stubs import inference_pb2

CONTEXT = 32768


@pytest.fixture(scope="module")
def long_model(tmp_path_factory):
    """A tiny model for prompts that are longer than what a stream to the manager holds."""
    return write_model(tmp_path_factory.mktemp("model") / "long", "llama", CONTEXT)


def asking(prompt, most):
    ids = [(7 * i) % 250 + 3 for i in range(prompt)]
    return inference_pb2.GenerateRequest(input=tokens(ids), max_tokens=most, ignore_eos=True)


# 60 long prompts are far more than the stream's flow-control window of 64 KiB holds. The manager reads none of them, so
# the worker's writer blocks.
@pytest.mark.parametrize(("prompt", "calls"), [(50, 5), (7000, 60)])
def test_a_stalled_manager_is_noticed(long_model, prompt, calls):
    with Node(pool="64MiB", lease="2s") as node:
        stub = node.start_worker(model=long_model)
        worker = node.workers["worker"]
        health = health_pb2_grpc.HealthStub(node.connect(node.worker_address(), worker))

        def is_serving():
            status = health.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE).status
            return status == health_pb2.HealthCheckResponse.SERVING

        wait_until(is_serving, PATIENCE, "the worker serves")
        running = stub.Generate(asking(20, CONTEXT - 100), timeout=240)
        next(event for event in running if event.HasField("chunk"))
        with stopped(node.manager.pid):
            start = time.monotonic()
            # Each call would wait for a minute.
            ends = side_by_side(*[lambda: refused(stub, asking(prompt, 10))] * calls)
            assert {code for code, _ in ends} == {grpc.StatusCode.UNAVAILABLE}, ends
            with pytest.raises(grpc.RpcError) as failure:
                list(running)
            assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
            # The lease, and much more for a busy machine.
            assert time.monotonic() - start < 20
            assert "has not answered for 2s" in failure.value.details()
            wait_until(lambda: not is_serving(), PATIENCE, "the worker says that it does not serve")
            for words in ("lost the session with the manager", "the manager has not answered for 2s", "not serving"):
                wait_until(lambda words=words: words in worker.words(), PATIENCE, f"the worker's log says {words}")
        wait_until(is_serving, 60, "the worker serves again")
        again = Stream()
        again.follow(stub.Generate(asking(prompt, 10), timeout=60))
        assert len(again.tokens) == 10
        node.assert_alive()
