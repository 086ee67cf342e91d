"""A worker attaches again after it or its manager has stalled: no page is lost, and it continues its own streams."""

import re
import signal

import grpc
import pytest
from node import Node, tokens
from proxy import Proxy
from stranger import PROTOCOL
from streams import asking, go_on, start_and_kill, whole
from stubs import inference_pb2, kv_manager_pb2, kv_manager_pb2_grpc, types_pb2

RESUMED = [asking(), asking("paged_eviction", 64, temperature=0.8, seed=7)]
# One that ends with its session, so that its pages are quarantined.
ENDED = asking("streaming_llm", 64)
ENDED.report_evictions = True
for request in [*RESUMED, ENDED]:
    request.max_tokens = 100  # more than the worker can be ahead of a client that has some tokens


def stall(process, log, words):
    """Stops a process until a log says something once more."""
    before = log.words().count(words)
    process.signal(signal.SIGSTOP)
    try:
        log.says(words, times=before + 1)
    finally:
        process.signal(signal.SIGCONT)


def stall_the_manager(node, name):
    stall(node.manager, node.workers[name], "lost the session with the manager")


def stall_the_worker(node, name):
    stall(node.workers[name], node.manager, "worker fenced")


@pytest.mark.parametrize(
    "stalls, flags, rounds",
    [
        pytest.param(stall_the_manager, [], 4, id="manager"),
        pytest.param(stall_the_worker, [], 2, id="worker"),
        pytest.param(stall_the_manager, ["--tp=2"], 1, id="manager of two ranks", marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost(stalls, flags, rounds):
    with Node(pool="256MiB", lease="2s", manager_flags=["--orphan_ttl=1h"]) as node:
        stub = node.start_worker(flags=flags)
        worker = node.workers["worker"]
        expected = [whole(stub, request) for request in RESUMED]
        for number in range(1, rounds + 1):
            *streams, _ = start_and_kill(node, stub, "worker", [*RESUMED, ENDED], least=8, kill=stalls)
            for stream, unbroken in zip(streams, expected, strict=True):
                go_on(stub, stream)
                logs = node.manager.words()[-3000:] + worker.words()[-3000:]
                assert stream.finished is not None, f"it was lost once more after {len(stream.tokens)} tokens:\n{logs}"
                assert stream.tokens == unbroken.tokens and stream.text == unbroken.text
            node.assert_all_free()
            node.manager.says("worker attaches again", times=number)
            returned = re.findall(r"worker attaches again .*pages_returned=(\d+)", node.manager.words())
            assert len(returned) == number and all(map(int, returned))
        assert [one.pid for one in node.pool().workers] == [worker.pid]
        node.assert_alive()


class SlowAnswer(Proxy):
    """Passes the manager's first answer to Attach on when `meanwhile` has returned."""

    def __init__(self, path, target, meanwhile):
        self.meanwhile = meanwhile
        super().__init__(path, target)

    def before(self, data, from_client):
        if not from_client and b"export.sock" in data and (meanwhile := self.meanwhile):
            self.meanwhile = None
            meanwhile()


class SlowNode(Node):
    """A node whose worker hears the first answer to Attach late."""

    def slow_down(self, meanwhile):
        self.proxy = SlowAnswer(self.path / "proxy.sock", self.manager_address, meanwhile)

    def manager_for(self, name):
        return self.proxy.address


def another_model_attaches(node):
    """As a worker of it does that then does not fetch the pool."""
    layout = types_pb2.ModelLayout(
        model="other", fingerprint="00ff", num_layers=2, num_kv_heads=1, head_dim=8, page_tokens=16,
        data_type=types_pb2.DATA_TYPE_BFLOAT16)  # fmt: skip
    request = kv_manager_pb2.AttachRequest(protocol_version=PROTOCOL, worker_name="other", layout=layout)
    with grpc.insecure_channel(node.manager_address) as channel:
        kv_manager_pb2_grpc.KvManagerStub(channel).Attach(request, timeout=60)


def the_lease_ends(node):
    node.manager.says("worker fenced")


@pytest.mark.parametrize("meanwhile", [another_model_attaches, the_lease_ends])
def test_an_attachment_that_ends_before_it_is_used_is_made_again(tiny_model, meanwhile):
    with SlowNode(pool="8MiB", lease="1s") as node:
        node.slow_down(lambda: meanwhile(node))
        stub = node.start_worker(model=tiny_model)
        worker = node.workers["worker"]
        assert node.proxy.meanwhile is None
        assert worker.words().count("export token: unknown or used") == 1, worker.words()
        request = inference_pb2.GenerateRequest(input=tokens(range(3, 12)), max_tokens=8, ignore_eos=True)
        assert whole(stub, request).finished
        assert [one.pid for one in node.pool().workers] == [worker.pid]
        node.assert_alive()
        node.assert_all_free()
        node.proxy.close()
