"""folio-gateway between clients that leave or do not read, and workers that die, drain and come back."""

import json
import signal
import socket
import threading

import pytest
from gateway import Gateway, events, text_of
from node import PATIENCE, Node, anonymous_bytes, side_by_side, wait_until
from streams import kill

LONG = {"prompt": "a", "max_tokens": 3000, "ignore_eos": True, "temperature": 0.7, "seed": 3}


@pytest.fixture
def node(long_model):
    with Node(pool="2GiB", lease="2s", manager_flags=["--kill_fenced_after=1s"]) as node:
        node.serve = lambda name="worker": node.start_worker(name, model=long_model)
        yield node
        node.assert_all_free()


def streaming(gateway, **fields):
    connection, response = gateway.open("/v1/completions", {**LONG, "stream": True, **fields})
    assert response.status == 200
    return connection, response


def send(gateway, body, path="/v1/completions"):
    """A socket to which nothing was read yet."""
    connection = gateway.socket()
    data = json.dumps(body).encode()
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    return connection


def test_a_worker_that_is_killed_is_not_seen(node):
    node.serve("first")
    node.serve("second")
    with Gateway(node, "first", "second") as gateway:
        expected = gateway.complete(**LONG).json()
        asked = {"stream": True, "stream_options": {"include_usage": True}}
        # One of the workers has each of them.
        opened = [streaming(gateway, **asked) for _ in range(4)]
        begun = [response.readline() for _, response in opened]
        kill(node, "first")
        bodies = side_by_side(*[lambda response=response: response.read() for _, response in opened])
        for first, body in zip(begun, bodies):
            chunks = events(first + body)
            assert text_of(chunks) == expected["choices"][0]["text"]
            assert chunks[-1]["usage"]["completion_tokens"] == LONG["max_tokens"]
        assert gateway.metric("folio:gateway_resumed_total") > 0
        wait_until(lambda: gateway.metric("folio:gateway_worker_serving") == 1, PATIENCE, "one worker serves")
        assert gateway.complete(prompt="a", max_tokens=2).status == 200
        gateway.process.says("resumed=1")


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_sequences(node, stream):
    node.serve()
    with Gateway(node) as gateway, node.closing("cancelled"):
        connection = send(gateway, {**LONG, "max_tokens": 60_000, "n": 2, "stream": stream})
        wait_until(lambda: len(node.sequences()) == 2, PATIENCE, "two sequences run")
        connection.close()
        wait_until(lambda: not node.sequences(), PATIENCE, "they have ended")
        gateway.process.says("status=499")


def test_a_client_that_leaves_the_queue_is_forgotten(node, long_model):
    node.start_worker(model=long_model, flags=["--max_batch=1"])
    with Gateway(node) as gateway:
        first, second = (send(gateway, {**LONG, "max_tokens": 60_000}) for _ in range(2))
        wait_until(lambda: gateway.metric("folio:gateway_requests_running") == 3, PATIENCE, "two run or wait")
        second.close()
        wait_until(lambda: gateway.metric("folio:gateway_clients_left_total") == 1, PATIENCE, "the second has left")
        first.close()
        wait_until(lambda: not node.sequences(), PATIENCE, "nothing runs")


def test_a_client_that_does_not_read_costs_bounded_memory(node):
    node.serve()
    with Gateway(node) as gateway:
        gateway.complete(**LONG)
        before = anonymous_bytes(gateway.process.pid)
        sockets = []
        for _ in range(2):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", gateway.port))
            body = json.dumps({**LONG, "max_tokens": 16_000, "stream": True, "logprobs": 10}).encode()
            connection.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            sockets.append(connection)
        # The system holds half of an answer, which is 5 MB.
        wait_until(lambda: gateway.metric("folio:gateway_paused_total") >= 2, PATIENCE, "all stand still")
        assert len(node.sequences()) == 2
        # Others are served meanwhile.
        assert gateway.complete(prompt="a", max_tokens=50, ignore_eos=True).status == 200
        assert anonymous_bytes(gateway.process.pid) - before < 48 << 20
        # One that reads again gets everything.
        sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sockets[0].settimeout(PATIENCE)
        got = b""
        while b"data: [DONE]" not in got[-4096:]:
            piece = sockets[0].recv(1 << 20)
            assert piece
            got += piece
        assert got.count(b'"finish_reason":"length"') == 1
        for connection in sockets:
            connection.close()
        wait_until(lambda: not node.sequences(), PATIENCE, "the others have left")


def test_a_gateway_drains(node):
    node.serve()
    with Gateway(node, flags=["--drain_timeout=2m"]) as gateway:
        connection, response = streaming(gateway, max_tokens=10_000)
        first = response.readline()
        idle = gateway.socket()
        gateway.process.signal(signal.SIGTERM)
        wait_until(lambda: gateway.get("/health").status == 503, PATIENCE, "it says that it drains")
        assert idle.recv(1) == b""
        refused = gateway.complete(prompt="a")
        assert refused.status == 503 and refused.headers["Retry-After"] == "1"
        assert events(first + response.read())[-1]["choices"][0]["finish_reason"] == "length"
        connection.close()
        assert gateway.process.wait() == 0


def test_a_drain_that_takes_too_long_ends(node):
    node.serve()
    with Gateway(node, flags=["--drain_timeout=500ms"]) as gateway:
        connection, response = streaming(gateway, max_tokens=60_000)
        whole = send(gateway, {**LONG, "max_tokens": 60_000})
        wait_until(lambda: len(node.sequences()) == 2, PATIENCE, "both run")
        gateway.process.signal(signal.SIGTERM)
        last = response.read().decode().split("\n\n")[-3:]
        assert json.loads(last[0].removeprefix("data: "))["error"]["type"] == "service_unavailable_error"
        assert last[1:] == ["data: [DONE]", ""]
        assert whole.recv(65536).startswith(b"HTTP/1.1 503 ")
        assert gateway.process.wait() == 0
        connection.close()


def test_without_workers_it_waits_and_says_so(node):
    with Gateway(node, wait=False) as gateway:
        assert gateway.get("/health").status == 503
        answer = gateway.complete(prompt="a")
        assert answer.status == 503 and answer.error()["type"] == "service_unavailable_error"
        assert gateway.get("/v1/models").json() == {"object": "list", "data": []}
        node.serve()
        gateway.until_serving()
        assert gateway.complete(prompt="a", max_tokens=2).status == 200


def test_a_draining_worker_and_a_standby(node):
    node.serve("first")
    node.serve("second")
    flags = [f"--standby={node.worker_address('second')}"]
    with Gateway(node, "first", flags=flags) as gateway:
        for _ in range(4):
            assert gateway.complete(prompt="a", max_tokens=2).status == 200
        gateway.process.says("first.sock choices=1", times=4)
        connection, response = streaming(gateway, max_tokens=10_000)
        first = response.readline()
        node.workers["first"].signal(signal.SIGTERM)
        wait_until(lambda: gateway.metric("folio:gateway_worker_serving") == 1, PATIENCE, "the first drains")
        assert gateway.complete(prompt="a", max_tokens=2).status == 200
        gateway.process.says("second.sock choices=1")
        assert len(events(first + response.read())) > 5_000
        connection.close()


def test_requests_are_spread_and_sessions_stay(node):
    node.serve("first")
    node.serve("second")
    with Gateway(node, "first", "second") as gateway:
        long = [send(gateway, {**LONG, "max_tokens": 60_000}) for _ in range(6)]
        wait_until(lambda: len(node.sequences()) == 6, PATIENCE, "all run")
        text = gateway.get("/metrics").body.decode()
        loads = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith("folio:gateway_worker_requests{")]
        assert loads == ["3", "3"]
        for connection in long:
            connection.close()
        wait_until(lambda: not node.sequences(), PATIENCE, "all have ended")
        for _ in range(6):
            assert gateway.complete(prompt="a", max_tokens=1, prompt_cache_key="mine").status == 200
        gateway.process.says("status=200", times=6)
        lines = [line for line in gateway.process.words().splitlines() if "status=200" in line and "/v1/completions" in line]
        assert len({line.split("worker=")[1].split(" ")[0] for line in lines[-6:]}) == 1


def test_many_streams_at_once(node):
    node.serve()
    with Gateway(node) as gateway:
        expected = gateway.complete(**{**LONG, "max_tokens": 200}).json()["choices"][0]["text"]
        texts, failures = [], []

        def follow():
            try:
                _, response = streaming(gateway, max_tokens=200)
                texts.append(text_of(events(response.read())))
            except Exception as failure:  # noqa: BLE001
                failures.append(failure)

        threads = [threading.Thread(target=follow) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures and texts == [expected] * 64
        assert gateway.metric("folio:gateway_requests_running") == 1
