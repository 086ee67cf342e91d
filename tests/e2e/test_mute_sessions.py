"""Sessions that never say whose they are, or say it late: they end by themselves and keep no worker out."""

import threading
import time

import grpc
from node import Node, tokens, wait_until
from processes import threads
from proxy import Proxy
from stubs import inference_pb2, kv_manager_pb2_grpc

MANY = 300


def test_mute_sessions_end_and_keep_nobody_out(tiny_model):
    with Node(pool="8MiB") as node:
        node.start_worker("first", model=tiny_model)
        before = threads(node.manager.pid)
        over = threading.Event()

        def silence():
            over.wait(120)
            yield from ()

        try:
            stub = kv_manager_pb2_grpc.KvManagerStub(node.connect(node.manager_address, node.manager))
            calls = [stub.Session(silence()) for _ in range(MANY)]
            # Attach, a session and Admin at the same time.
            second = node.start_worker("second", model=tiny_model)
            assert len(node.pool().workers) == 2
            request = inference_pb2.GenerateRequest(input=tokens(range(3, 12)), max_tokens=8, ignore_eos=True)
            *_, last = second.Generate(request, timeout=60)
            assert last.finished.usage.generated_tokens == 8
            ends = [(call.code(), call.details()) for call in calls]
        finally:
            over.set()
        late = [words for code, words in ends if code == grpc.StatusCode.DEADLINE_EXCEEDED]
        crowded = [words for code, words in ends if code == grpc.StatusCode.UNAVAILABLE]
        assert late and crowded and len(late) + len(crowded) == MANY, ends
        assert set(late) == {"hello: the first request of a session must carry it within 2s"}
        assert all(words.startswith("hello: ") and "newer sessions wait" in words for words in crowded), crowded
        wait_until(lambda: threads(node.manager.pid) <= before + 8, 60, f"about {before} threads again")
        node.assert_alive()
        node.assert_all_free()


class HeldBack:
    """A socket to the manager, to which the first session comes in two parts, with a pause before its hello."""

    PATH, PAUSE = b"/folio.v1.KvManager/Session", 4

    def __init__(self, sink, held):
        self.sink, self.held = sink, held

    def sendall(self, data):
        at = data.find(self.PATH)
        if at >= 0 and not self.held.is_set():
            self.held.set()
            end = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") if data.startswith(b"PRI ") else 0
            while end <= at:  # a frame is a length of three bytes, six others, and that many
                end += 9 + int.from_bytes(data[end : end + 3], "big")
            self.sink.sendall(data[:end])
            time.sleep(self.PAUSE)
            data = data[end:]
        self.sink.sendall(data)

    def shutdown(self, how):
        self.sink.shutdown(how)


class LateHello(Proxy):
    def __init__(self, path, target):
        self.held = threading.Event()
        super().__init__(path, target)

    def pass_on(self, source, sink, from_client):
        super().pass_on(source, HeldBack(sink, self.held) if from_client else sink, from_client)


class LateNode(Node):
    def manager_for(self, name):
        self.proxy = LateHello(self.path / "late.sock", self.manager_address)
        return self.proxy.address


def test_a_worker_whose_hello_is_late_attaches_again(tiny_model):
    with LateNode(pool="8MiB") as node:
        stub = node.start_worker(model=tiny_model)
        worker = node.workers["worker"]
        worker.says("lost the session with the manager")
        assert node.proxy.held.is_set() and "must carry it within 2s" in worker.words()
        request = inference_pb2.GenerateRequest(input=tokens(range(3, 12)), max_tokens=8, ignore_eos=True)

        def answered():
            try:
                *_, last = stub.Generate(request, timeout=60)
                return last.finished.usage.generated_tokens == 8
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE, error

        wait_until(answered, 60, "the worker serves again")
        node.assert_alive()
        node.assert_all_free()
        node.proxy.close()
