"""While nobody reads a log: the manager still sees its workers end, and a worker still answers."""

import os
import signal

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from metrics import ENDPOINT
from node import PATIENCE, cache, side_by_side, tokens, wait_until
from piped import PipedNode
from processes import stop
from stubs import inference_pb2, kv_manager_pb2, kv_manager_pb2_grpc
from test_unread_log import LAYOUT

PROMPT = [3 + number % 200 for number in range(120)]
FLAGS = ["--orphan_ttl=0s", "--kill_fenced_after=1s", *ENDPOINT]
NAME = "x" * 256


def generate(stub, label="", max_tokens=40):
    request = inference_pb2.GenerateRequest(
        input=tokens(PROMPT), max_tokens=max_tokens, ignore_eos=True, label=label, cache=cache("paged_eviction", 64)
    )
    return stub.Generate(request, timeout=4 * PATIENCE)


def words_of(call):
    return [token for event in call for token in event.chunk.tokens]


def ask_until_lines_are_dropped(process, ask):
    """Calls `ask` from several threads, because each call is a line of the log, and 1 MiB of them fit."""
    process.neglect()
    for _ in range(200):
        side_by_side(*[lambda: [ask() for _ in range(25)]] * 4)
        if process.dropped():
            return
    raise AssertionError("20,000 lines fit into the log")


def fill_log_of_manager(node):
    manager = kv_manager_pb2_grpc.KvManagerStub(node.connect(node.manager_address, node.manager))
    request = kv_manager_pb2.AttachRequest(
        protocol_version=3, worker_name=NAME, layout=LAYOUT, device=kv_manager_pb2.DEVICE_KIND_CUDA
    )

    def refused():
        with pytest.raises(grpc.RpcError):
            manager.Attach(request, timeout=PATIENCE)

    ask_until_lines_are_dropped(node.manager, refused)


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
def test_a_manager_with_a_full_log_sees_its_worker_end(long_model, killed):
    with PipedNode(pool="64MiB", lease="2s", manager_flags=FLAGS) as node:
        first = node.start_worker("first", model=long_model)
        expected = words_of(generate(first))
        fill_log_of_manager(node)
        call = generate(first, max_tokens=60_000)
        next(event for event in call if event.HasField("chunk"))
        assert node.pool().free_pages < node.pool().total_pages
        worker = node.workers.pop("first")
        if killed:
            os.kill(worker.pid, signal.SIGKILL)
        else:
            stop(worker.pid)
        # A worker that stands still loses its lease, and then the manager ends it.
        (fenced,) = wait_until(lambda: node.events("worker_fenced"), PATIENCE, "the worker is fenced")
        assert fenced.text in ({"process ended", "session ended"} if killed else {"lease ran out"})
        assert worker.wait() == -signal.SIGKILL
        wait_until(lambda: node.events("worker_gone"), PATIENCE, "the worker is gone")
        node.assert_all_free()
        call.cancel()
        assert words_of(generate(node.start_worker("second", model=long_model))) == expected
        node.assert_all_free()
        assert node.manager.dropped() > 0


def test_a_worker_with_a_full_log_answers(tiny_model):
    with PipedNode(pool="8MiB", manager_flags=FLAGS) as node:
        stub = node.start_worker(model=tiny_model, flags=ENDPOINT)
        worker = node.workers["worker"]
        expected = words_of(generate(stub))
        ask_until_lines_are_dropped(worker, lambda: words_of(generate(stub, NAME, max_tokens=1)))
        before = worker.dropped()
        assert words_of(generate(stub)) == expected
        health = health_pb2_grpc.HealthStub(node.connect(node.worker_address(), worker))
        assert health.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE).status == health_pb2.HealthCheckResponse.SERVING
        assert len(stub.Tokenize(inference_pb2.TokenizeRequest(input=inference_pb2.Input(text="sea")), timeout=PATIENCE).ids) > 0
        wait_until(lambda: worker.dropped() > before, PATIENCE, "the line about that request is dropped too")
        node.assert_all_free()
        # The worker leaves in order, although nobody reads why.
        worker.stop()
        assert worker.popen.returncode == 0
        node.workers.pop("worker")
