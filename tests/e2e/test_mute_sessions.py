"""Sessions that never say whose they are: they end by themselves and keep no worker out."""

import threading

import grpc
from node import Node, tokens, wait_until
from processes import threads
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
