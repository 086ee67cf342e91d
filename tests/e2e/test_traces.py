"""Traces of requests through folio-gateway and folio-worker, as a collector with the official definitions gets them."""

import pathlib
import re
import socket
import time

import pytest
from collector import Collector
from gateway import Gateway
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_tools import protoc
from metrics import ENDPOINT, Metrics
from node import PATIENCE, Node, cache, tokens, wait_until
from opentelemetry.proto.trace.v1 import trace_pb2
from streams import kill
from stubs import ROOT, admin_pb2, inference_pb2

SERVER, INTERNAL, ERROR = trace_pb2.Span.SPAN_KIND_SERVER, trace_pb2.Span.SPAN_KIND_INTERNAL, trace_pb2.Status.STATUS_CODE_ERROR
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
EVICTING = {"policy": "paged_eviction", "budget": 32}
ASKED = {"prompt": list(range(5, 105)), "max_tokens": 80, "ignore_eos": True, "cache": EVICTING}
# Two processes read the clocks one after the other.
TICK = 0.001


@pytest.fixture
def collector():
    with Collector() as collector:
        yield collector


@pytest.fixture
def node(long_model, collector):
    with Node(pool="256MiB") as node:
        node.serve = lambda name="worker", *flags: node.start_worker(name, model=long_model, flags=[collector.flag, *flags])
        yield node
        node.assert_alive()
        node.assert_all_free()


def line(process, request_id):
    """The fields of that request's line `request ended`."""

    def found():
        lines = [dict(re.findall(r"(\w+)=(\S*)", text)) for text in process.words().splitlines() if "request ended" in text]
        return [one for one in lines if one["request_id"] == request_id]

    (one,) = wait_until(found, PATIENCE, f"a line of {request_id}")
    return one


def assert_inside(outer, *inner):
    for span in inner:
        assert outer.start - TICK <= span.start <= span.end <= outer.end + TICK, (outer, span)


def test_the_spans_of_a_request(node, collector):
    node.serve()
    with Gateway(node, flags=[collector.flag]) as gateway:
        before, begun = time.time(), time.monotonic()
        answer = gateway.post("/v1/completions", ASKED, {"x-request-id": "r-1", "User-Agent": "tester"})
        took = time.monotonic() - begun
        assert answer.status == 200 and answer.json()["usage"]["completion_tokens"] == 80
        root = collector.one(name="POST /v1/completions")
        (call,) = collector.children(root)["folio.v1.Inference/Generate"]
        parts = collector.children(call, 5)
        (queue,), (prefill,), (decode,), plans = (parts.pop(name) for name in ("queue", "prefill", "decode", "plan"))
        assert not parts
        everything = [root, call, queue, prefill, decode, *plans]
        assert len(collector.spans(trace=root.trace)) == len(everything) == len({span.id for span in everything})

        assert (root.service, root.kind, root.parent, len(root.trace), len(root.id)) == ("folio-gateway", SERVER, "", 32, 16)
        assert (call.service, call.kind, {span.kind for span in everything[2:]}) == ("folio-worker", SERVER, {INTERNAL})
        assert root.message.flags == 0x101 and call.message.flags == 0x301
        assert all(span.message.status == trace_pb2.Status() for span in everything)

        # Each begins and ends within its parent, and the parts of a request follow each other.
        assert_inside(root, call)
        assert_inside(call, queue, prefill, decode, *plans)
        assert queue.end == prefill.start and prefill.end == decode.start and abs(queue.start - call.start) < TICK
        assert before - 60 < root.start and abs(root.start - before) < took + 1
        assert 0 < decode.length < root.length <= took
        # The gateway may get the first token after the worker has said the last one.
        assert decode.start - TICK <= root.events["first_token"] <= root.end

        # The prompt of 100 tokens is compacted to 32, and each 16 tokens of the answer drop a block.
        kinds = [plan.attributes["folio.plan.kind"] for plan in plans]
        assert kinds == ["compaction"] + ["drop"] * (len(kinds) - 1) and 4 <= len(kinds) == call.attributes["folio.plans"]
        assert [plan.attributes["folio.plan.epoch"] for plan in plans] == list(range(1, len(plans) + 1))
        assert all(plan.start <= plan.events["received"] <= plan.end and plan.attributes["folio.plan.freed_pages"] > 0 for plan in plans)
        assert plans[0].start < plans[0].events["received"], "the worker has asked before"

        assert root.attributes.items() >= {
            "http.request.method": "POST", "http.route": "/v1/completions", "url.path": "/v1/completions",
            "http.response.status_code": 200, "user_agent.original": "tester", "folio.request_id": "r-1",
            "gen_ai.operation.name": "text_completion", "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 80,
            "folio.worker": node.worker_address(), "folio.stream": False, "folio.resumed": 0,
        }.items()  # fmt: skip
        assert call.attributes.items() >= {
            "rpc.system": "grpc", "rpc.service": "folio.v1.Inference", "rpc.method": "Generate", "rpc.grpc.status_code": 0,
            "folio.policy": "paged_eviction", "folio.budget": "32", "folio.request_id": "r-1", "gen_ai.usage.output_tokens": 80,
            "gen_ai.response.finish_reasons": ["length"],
        }.items()  # fmt: skip
        assert root.process["process.pid"] == gateway.process.pid and call.process["process.pid"] == node.workers["worker"].pid
        assert root.process["service.version"] == call.process["service.version"] != ""
        assert root.process["service.instance.id"] != call.process["service.instance.id"]
        assert line(gateway.process, request_id="r-1")["trace_id"] == root.trace
        assert line(node.workers["worker"], request_id="r-1")["trace_id"] == root.trace
        assert line(node.workers["worker"], request_id="r-1")["sequence"] == str(call.attributes["folio.sequence"])


def traced(flags="01", trace=TRACE):
    return {"traceparent": f"00-{trace}-{PARENT}-{flags}", "tracestate": "vendor=1,other=2"}


def test_the_caller_decides(node, collector):
    node.serve("worker", "--trace_sample=0")
    with Gateway(node, flags=[collector.flag, "--trace_sample=0"]) as gateway:
        small = {"prompt": "a", "max_tokens": 2}
        cases = {"none": {}, "unsampled": traced("00"), "malformed": {"traceparent": f"00-{TRACE}-{PARENT}-0"}, "sampled": traced()}
        for name, headers in cases.items():
            assert gateway.post("/v1/completions", small, {**headers, "x-request-id": name}).status == 200
        # The order of the spans is that of the requests' ends.
        (call,) = collector.until(1, name="folio.v1.Inference/Generate")
        root = collector.one(name="POST /v1/completions")
        assert (root.trace, root.parent, call.trace, call.parent) == (TRACE, PARENT, TRACE, root.id)
        assert root.message.trace_state == call.message.trace_state == "vendor=1,other=2"
        assert root.message.flags == 0x301  # sampled, and its parent is in another process
        assert {span.attributes["folio.request_id"] for span in collector.spans(kind=SERVER)} == {"sampled"}
        # Each request has a trace, and the worker has that of the gateway.
        for name in cases:
            ours, workers = line(gateway.process, request_id=name), line(node.workers["worker"], request_id=name)
            assert ours["trace_id"] == workers["trace_id"] and len(ours["trace_id"]) == 32
            assert (ours["trace_id"] == TRACE) == (name in ("unsampled", "sampled"))
            assert workers["traceparent"].endswith("-01" if name == "sampled" else "-00")


def test_a_gateway_without_traces_passes_them_on(node, collector):
    node.serve()
    with Gateway(node) as gateway:
        assert gateway.post("/v1/completions", {"prompt": "a", "max_tokens": 2}, {**traced(), "x-request-id": "r"}).status == 200
        call = collector.one(name="folio.v1.Inference/Generate")
        assert (call.trace, call.parent, call.message.trace_state) == (TRACE, PARENT, "vendor=1,other=2")
        assert line(gateway.process, request_id="r")["trace_id"] == TRACE
        assert not collector.spans(service="folio-gateway")


def test_errors_and_probes(node, collector):
    stub = node.serve()
    with Gateway(node, flags=[collector.flag]) as gateway:
        assert gateway.ask("PUT", "/v1/models").status == 405
        assert gateway.complete(prompt="a", max_tokens=0).status == 400
        assert gateway.ask("BREW", "/coffee").status == 404
        node.workers["worker"].stop()
        wait_until(lambda: gateway.get("/health").status == 503, PATIENCE, "no worker serves")
        assert gateway.complete(prompt="a").status == 503
        spans = {span.attributes["http.response.status_code"]: span for span in collector.until(4, service="folio-gateway")}
        assert spans.keys() == {405, 400, 404, 503} and "/health" not in {span.attributes["url.path"] for span in spans.values()}
        assert [code for code, span in spans.items() if span.message.status.code == ERROR] == [503]
        assert spans[503].attributes["error.type"] == "503" and "worker" in spans[503].message.status.message
        assert (spans[404].name, spans[404].attributes["http.request.method"]) == ("HTTP", "_OTHER")
        assert spans[405].name == "PUT /v1/models" and "http.route" not in spans[404].attributes
    stub = node.serve()
    call = stub.Generate(inference_pb2.GenerateRequest(input=tokens([5, 6]), max_tokens=30_000, ignore_eos=True, label="left"))
    next(event for event in call if event.HasField("chunk"))
    call.cancel()
    left = collector.one(name="folio.v1.Inference/Generate")
    assert (left.attributes["error.type"], left.attributes["rpc.grpc.status_code"]) == ("CANCELLED", 1)
    assert left.attributes["folio.label"] == "left" and left.message.status == trace_pb2.Status()


def test_a_long_answer_has_a_bounded_number_of_plans(node, collector):
    stub = node.serve()
    request = inference_pb2.GenerateRequest(input=tokens(range(5, 45)), max_tokens=2000, ignore_eos=True, cache=cache("paged_eviction", 32))
    list(stub.Generate(request))
    call = collector.one(name="folio.v1.Inference/Generate")
    assert call.attributes["folio.plans"] > 100
    assert len(collector.children(call, 67)["plan"]) == 64


def test_a_parked_sequence_says_so(node, collector):
    stub = node.serve()
    call = stub.Generate(inference_pb2.GenerateRequest(input=tokens(range(5, 45)), max_tokens=3000, ignore_eos=True))
    started = next(event for event in call if event.HasField("started")).started
    node.admin.ParkSequence(admin_pb2.ParkSequenceRequest(sequence_id=started.sequence_id))
    assert sum(len(event.chunk.tokens) for event in call) == 3000
    span = collector.one(name="folio.v1.Inference/Generate")
    assert span.start < span.events["parked"] < span.events["unparked"] < span.end


def test_another_worker_continues_the_trace(node, collector):
    for name in ("first", "second"):
        node.serve(name)
    with Gateway(node, "first", "second", flags=[collector.flag]) as gateway:
        asked = {"prompt": "a", "max_tokens": 3000, "ignore_eos": True, "stream": True}
        connection, response = gateway.open("/v1/completions", asked)
        begun = response.readline()
        running = gateway.get("/metrics").body.decode()
        (worker,) = (name for name in ("first", "second")
                     if f'folio:gateway_worker_requests{{worker="{node.worker_address(name)}"}} 1' in running)  # fmt: skip
        kill(node, worker)
        assert b"[DONE]" in begun + response.read()
        connection.close()
        root = collector.one(name="POST /v1/completions")
        assert root.attributes["folio.resumed"] == 1 and root.attributes["gen_ai.usage.output_tokens"] == 3000
        (call,) = collector.children(root)["folio.v1.Inference/Generate"]
        assert call.process["process.pid"] == next(iter(node.workers.values())).pid
        assert 0 < call.attributes["folio.resumed_tokens"] and call.attributes["gen_ai.usage.output_tokens"] < 3000
        assert_inside(root, call)


def test_a_collector_that_is_away_comes_back(node, collector):
    collector.stop()
    stub = node.serve("worker", *ENDPOINT)
    worker = node.workers["worker"]
    request = inference_pb2.GenerateRequest(input=tokens([5, 6]), max_tokens=2)
    list(stub.Generate(request))
    worker.says("traces cannot be exported")
    list(stub.Generate(request))
    wait_until(lambda: Metrics(worker)("folio:trace_export_failures_total") >= 2, PATIENCE, "a second try")
    collector.start()
    assert len(collector.until(2, name="folio.v1.Inference/Generate")) == 2
    worker.says("traces are exported again")
    list(stub.Generate(request))
    collector.until(3, name="folio.v1.Inference/Generate")
    assert worker.words().count("traces cannot be exported") == worker.words().count("traces are exported again") == 1
    wait_until(lambda: Metrics(worker)("folio:trace_spans_exported_total") == len(collector.spans()), PATIENCE, "all are counted")
    assert all(Metrics(worker)("folio:trace_spans_dropped_total", reason=why) == 0 for why in ("queue_full", "export_failed", "rejected"))


def test_the_end_sends_what_waits(node, collector):
    node.serve()
    with Gateway(node, flags=[collector.flag]) as gateway:
        for _ in range(3):
            assert gateway.complete(prompt="a", max_tokens=2).status == 200
        gateway.process.stop()
        node.workers.pop("worker").stop()
    # Nothing comes any more.
    assert len(collector.spans(service="folio-gateway")) == 3
    assert len(collector.spans(name="folio.v1.Inference/Generate")) == 3
    assert len(collector.spans(service="folio-worker")) == 12


def test_a_silent_collector_delays_neither_requests_nor_the_end(node, long_model):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        flag = f"--otlp_endpoint=127.0.0.1:{silent.getsockname()[1]}"
        stub = node.start_worker(model=long_model, flags=[flag])
        begun = time.monotonic()
        for _ in range(20):
            list(stub.Generate(inference_pb2.GenerateRequest(input=tokens([5, 6]), max_tokens=2)))
        worker = node.workers.pop("worker")
        worker.stop()
        took = time.monotonic() - begun
        assert took < PATIENCE / 2, took
        assert "spans of traces were dropped at the end" in worker.words() and worker.popen.returncode == 0


def fields(prefix, messages):
    """(message, field or value, what it is) of message types and those within."""
    for message in messages:
        name = f"{prefix}.{message.name}"
        yield from ((name, field.name, (field.number, field.type, field.label)) for field in message.field)
        for enum in message.enum_type:
            yield from ((name, f"{enum.name}.{value.name}", value.number) for value in enum.value)
        yield from fields(name, message.nested_type)


def test_our_definitions_are_a_part_of_the_official_ones(tmp_path):
    proto = ROOT / "proto"
    files = [path.relative_to(proto).as_posix() for path in sorted((proto / "opentelemetry").rglob("*.proto"))]
    out = tmp_path / "descriptors"
    assert protoc.main(["protoc", f"-I{proto}", f"--descriptor_set_out={out}", *files]) == 0
    pool, count = descriptor_pool.Default(), 0
    for file in descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out).read_bytes()).file:
        official = descriptor_pb2.FileDescriptorProto.FromString(pool.FindFileByName(file.name).serialized_pb)
        assert official.package == file.package
        theirs = {(message, name): what for message, name, what in fields(file.package, official.message_type)}
        for message, name, what in fields(file.package, file.message_type):
            assert theirs[message, name] == what, (message, name)
            count += 1
        ours = [(service.name, [(call.name, call.input_type, call.output_type) for call in service.method]) for service in file.service]
        assert ours == [(service.name, [(call.name, call.input_type, call.output_type) for call in service.method])
                        for service in official.service]  # fmt: skip
    assert count > 30
