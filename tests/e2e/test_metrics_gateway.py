"""The metrics of a gateway against runs whose numbers are known, and the number of series when clients make up labels."""

import json
import socket
import threading

import grpc
import pytest
from gateway import Gateway, events
from metrics import ENDPOINT, Metrics
from node import PATIENCE, Node, cache, tokens, wait_until
from stubs import inference_pb2
from test_gateway_streams import send

MADE_UP = 10_000


@pytest.fixture
def node(tiny_model):
    with Node(pool="64MiB", lease="2s", manager_flags=[*ENDPOINT, "--kill_fenced_after=1s"]) as node:
        node.stub = node.start_worker(model=tiny_model, flags=ENDPOINT)
        yield node


def test_numbers_of_a_run(node):
    with Gateway(node, flags=ENDPOINT) as gateway:
        ask = lambda: Metrics(gateway.process)  # noqa: E731
        prompt = {"prompt": [1, 2, 3, 4, 5], "max_tokens": 6, "ignore_eos": True}
        for _ in range(2):
            assert gateway.complete(**prompt, n=2).status == 200
        streamed = events(gateway.complete(**prompt, stream=True).body)
        assert streamed[-1]["choices"][0]["finish_reason"] == "length"
        assert gateway.complete(prompt=7).status == 400
        assert gateway.complete(prompt="a", model="another").status == 404
        assert gateway.get("/v1/completions").status == 405
        assert gateway.get("/nothing").status == 404
        for raw in (b"this is no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n"):
            with gateway.socket() as client:
                client.sendall(raw)
                assert client.recv(1000)[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 505")
        client = gateway.socket()
        metrics = wait_until(lambda: (now := ask())("folio:gateway_malformed_total") == 2 and now, PATIENCE, "both count")
        requests = lambda endpoint, status: metrics("folio:gateway_requests_total", endpoint=endpoint, status=status)  # noqa: E731
        assert requests("/v1/completions", "200") == 3
        assert [requests("/v1/completions", status) for status in ("400", "404", "405")] == [1, 1, 1]
        assert requests("other", "404") == 1
        # Choices of one prompt share it.
        assert metrics("folio:gateway_prompt_tokens_total") == 3 * 5
        assert metrics("folio:gateway_generation_tokens_total") == (2 * 2 + 1) * 6
        for name in ("folio:gateway_request_seconds", "folio:gateway_time_to_first_token_seconds"):
            assert metrics(f"{name}_bucket", le="+Inf") == metrics(f"{name}_count") == 3
        assert 0 < metrics("folio:gateway_time_to_first_token_seconds_sum") <= metrics("folio:gateway_request_seconds_sum") < 60
        for name in ("resumed", "replayed", "paused", "connections_refused", "failed_streams", "clients_left"):
            assert metrics(f"folio:gateway_{name}_total") == 0, name
        assert metrics("folio:gateway_requests_running") == 0
        assert metrics("folio:gateway_connections") >= 1  # `client`
        client.close()
        worker = {"worker": node.worker_address("worker")}
        assert metrics("folio:gateway_worker_serving", **worker) == 1
        assert metrics("folio:gateway_worker_requests", **worker) == 0


def test_what_becomes_of_connections_and_streams(long_model):
    with Node(pool="256MiB") as node:
        node.start_worker(model=long_model)
        check_connections_and_streams(node)


def check_connections_and_streams(node):
    with Gateway(node, flags=[*ENDPOINT, "--max_connections=3", "--resume_timeout=0s"]) as gateway:
        ask = lambda: Metrics(gateway.process)  # noqa: E731
        long = {"prompt": "a", "max_tokens": 60_000, "ignore_eos": True}
        address = {"worker": node.worker_address("worker")}
        left = send(gateway, long)
        wait_until(lambda: ask()("folio:gateway_worker_requests", **address) == 1, PATIENCE, "it runs")
        assert ask()("folio:gateway_requests_running") == 1
        left.close()
        wait_until(lambda: ask()("folio:gateway_clients_left_total") == 1, PATIENCE, "its client has left")
        wait_until(lambda: ask()("folio:gateway_requests_running") == 0, PATIENCE, "it has ended")

        slow = send(gateway, {**long, "stream": True, "logprobs": 20})
        wait_until(lambda: ask()("folio:gateway_paused_total") >= 1, PATIENCE, "it stands still")
        slow.close()
        wait_until(lambda: ask()("folio:gateway_requests_running") == 0, PATIENCE, "it has ended")

        connection, response = gateway.open("/v1/completions", {**long, "stream": True})
        response.readline()
        idle = [gateway.socket() for _ in range(2)]
        wait_until(lambda: ask()("folio:gateway_connections") == 3, PATIENCE, "as many as may be open")
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE) as refused:
            assert refused.recv(1) == b""
        assert ask()("folio:gateway_connections_refused_total") == 1
        for one in idle:
            one.close()
        node.workers["worker"].popen.kill()
        assert b"error" in response.read()
        connection.close()
        assert ask()("folio:gateway_failed_streams_total") == 1
        wait_until(lambda: ask()("folio:gateway_worker_serving", **address) == 0, PATIENCE, "its worker is gone")


def test_pages_that_are_promised_and_time_that_is_waited(node):
    manager, worker = (lambda: Metrics(node.manager)), (lambda: Metrics(node.workers["worker"]))
    assert manager()("folio:pool_reserved_pages") == 0
    running = node.stub.Generate(inference_pb2.GenerateRequest(input=tokens([1]), max_tokens=100, ignore_eos=True))
    assert next(running).HasField("started")
    running.cancel()
    wait_until(lambda: worker()("folio:num_requests_running") == 0, PATIENCE, "it has ended")
    assert worker()("folio:num_requests_parked") == 0
    before = worker()("folio:manager_wait_seconds_total")
    assert 0 <= before < 60
    for process in (manager(), worker()):
        assert process("process_virtual_memory_bytes") > process("process_resident_memory_bytes") > 0
        assert process("process_start_time_seconds") > 1.7e9


def ask_for_nonsense(gateway, numbers):
    """Requests that each carry names that no other has, over one connection."""
    connection = gateway.connect()
    headers = {"Content-Type": "application/json"}
    for i in numbers:
        kind = i % 5
        path, body = "/v1/completions", {"prompt": "a", "max_tokens": 1, "user": f"user-{i}", "prompt_cache_key": f"session-{i}"}
        if kind == 0:
            path = f"/v1/made/up/{i}"
        elif kind == 1:
            body["model"] = f"model-{i}"
        elif kind == 2:
            body["cache"] = {"policy": f"policy-{i}"}
        elif kind == 3:
            path = f"/v1/models/model-{i}"
        elif i % 100 == 4:  # a hundredth of them is carried out
            body["cache"] = {"policy": f"kv_crush:share=0.{i + 1000}", "budget": 64 + 16 * (i % 7)}
        else:
            body["logit_bias"] = {f"token-{i}": 1}
        method = "GET" if kind == 3 else ["POST", "PUT", "DELETE"][i % 3] if kind == 0 else "POST"
        connection.request(method, path, json.dumps(body), {**headers, "x-request-id": f"r{i}", "User-Agent": f"agent-{i}"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status in (200, 400, 404), (i, answer.status)
    connection.close()


def ask_worker_for_nonsense(node, numbers):
    for i in numbers:
        request = inference_pb2.GenerateRequest(input=tokens([1]), max_tokens=1, tenant=f"tenant-{i}", label=f"label-{i}")
        if i % 20:
            request.sampling.temperature = -i  # refused
        else:
            request.cache.CopyFrom(cache("streaming_llm", 64 + 16 * (i % 50)))
        try:
            list(node.stub.Generate(request))
        except grpc.RpcError as refused:
            assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT, refused


def in_parallel(function, owner, threads=8):
    failures = []

    def part(first):
        try:
            function(owner, range(first, MADE_UP, threads))
        except Exception as failure:
            failures.append(failure)

    running = [threading.Thread(target=part, args=(first,)) for first in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failures, failures[0]


def test_ten_thousand_names_make_no_series(node):
    with Gateway(node, flags=[*ENDPOINT, "--access_log=false"]) as gateway:
        processes = (node.manager, node.workers["worker"], gateway.process)
        series = lambda: {(process.name, *key) for process in processes for key in Metrics(process).samples}  # noqa: E731
        ask_for_nonsense(gateway, range(200))
        ask_worker_for_nonsense(node, range(200))
        before = series()
        in_parallel(ask_for_nonsense, gateway)
        in_parallel(ask_worker_for_nonsense, node)
        node.assert_all_free()
        new = series() - before
        assert len(new) < 5, new  # the codes of errors that come for the first time
        assert len(before) < 1000
        assert Metrics(gateway.process)("folio:gateway_requests_total", endpoint="other", status="404") >= MADE_UP // 5
