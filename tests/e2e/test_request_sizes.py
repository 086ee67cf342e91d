"""Requests are bounded by the model's context: memory stays, and other calls are answered meanwhile."""

import random
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from node import status_bytes, wait_until
from stubs import inference_pb2

MIB = 1 << 20
CONTEXT = 8192


def field(number, contents):
    """A field of bytes, such as packed integers."""
    size, length = b"", len(contents)
    while True:
        size += bytes([length & 0x7F | (0x80 if length > 0x7F else 0)])
        length >>= 7
        if not length:
            return bytes([number << 3 | 2]) + size + contents


# Requests with that many ids of one byte each.
MANY_IDS = {
    "Detokenize": lambda count: field(1, b"\x0e" * count),
    "Generate": lambda count: field(1, field(2, field(1, b"\x0e" * count))),
    "Score": lambda count: field(1, field(2, field(1, b"\x0e" * count))),
}


def resume(count):
    return field(10, field(2, b"0" * 16) + field(3, b"\x0e" * count))


def refusal(node, method, request):
    channel = node.channels[-1]
    call = channel.unary_stream(f"/folio.v1.Inference/{method}", request_serializer=None, response_deserializer=None)
    try:
        list(call(request, timeout=60))
    except grpc.RpcError as error:
        return error.code().name, error.details()
    raise AssertionError(f"{method} of {len(request)} bytes was not refused")


def test_more_ids_than_the_context_are_refused_before_they_are_copied(nothing_lost):
    pid = nothing_lost.workers["worker"].pid
    nothing_lost.stub.Tokenize(inference_pb2.TokenizeRequest(input=inference_pb2.Input(text="a")))
    before = status_bytes(pid, "VmHWM")
    count = 3 * MIB
    words = f"has {count} tokens, more than the model's context of {CONTEXT}"
    for method, request in MANY_IDS.items():
        code, details = refusal(nothing_lost, method, request(count))
        assert code == "INVALID_ARGUMENT" and words in details, (method, code, details)
    code, details = refusal(nothing_lost, "Generate", resume(count))
    assert code == "INVALID_ARGUMENT" and f"resume.received_tokens {words}" in details, (code, details)
    # Protocol buffers hold an id in four bytes; a copy of ours would add as much again.
    assert status_bytes(pid, "VmHWM") - before < 100 * MIB


def test_messages_far_beyond_the_context_are_refused_unread(nothing_lost):
    pid = nothing_lost.workers["worker"].pid
    before = status_bytes(pid, "VmHWM")
    for method, request in MANY_IDS.items():
        code, details = refusal(nothing_lost, method, request(60 * MIB))
        assert code == "RESOURCE_EXHAUSTED" and "larger than max" in details, (method, code, details)
    # gRPC receives a message whole before it judges it, in a few pieces at a time.
    assert status_bytes(pid, "VmHWM") - before < 200 * MIB


def test_as_many_ids_as_the_context_are_turned_into_text(nothing_lost):
    answer = nothing_lost.stub.Detokenize(inference_pb2.DetokenizeRequest(ids=[14] * CONTEXT), timeout=60)
    assert answer.text


def test_roles_count_as_content_does(nothing_lost):
    message = inference_pb2.ChatMessage(role="user" * (MIB // 2), content="Hi")
    request = inference_pb2.TokenizeRequest(input=inference_pb2.Input(chat=inference_pb2.Chat(messages=[message])))
    code, details = refusal(nothing_lost, "Tokenize", request.SerializeToString())
    assert code == "INVALID_ARGUMENT" and "input.chat is" in details and "bytes long" in details


def long_text(seed):
    """It has words that no cache knows."""
    source = random.Random(seed)
    return " ".join(f"{source.getrandbits(40):x}" for _ in range(90_000))[: MIB - 1]


def test_other_calls_are_answered_while_long_texts_are_tokenized(nothing_lost):
    health = health_pb2_grpc.HealthStub(nothing_lost.channels[-1])
    requests = [inference_pb2.TokenizeRequest(input=inference_pb2.Input(text=long_text(seed))) for seed in range(6)]
    began = time.monotonic()
    running = [nothing_lost.stub.Tokenize.future(request, timeout=120) for request in requests]
    waits = []

    def timed(call):
        start = time.monotonic()
        call()
        waits.append(time.monotonic() - start)

    def ask():
        timed(lambda: nothing_lost.stub.GetModel(inference_pb2.GetModelRequest(), timeout=60))
        timed(lambda: health.Check(health_pb2.HealthCheckRequest(), timeout=60))
        return all(call.done() for call in running)

    wait_until(ask, 120, "all texts are tokenized")
    took = time.monotonic() - began
    assert all(len(call.result().ids) > CONTEXT for call in running)
    assert len(waits) >= 4 and max(waits) < took / 2, f"{max(waits):.3f} s of {took:.3f} s"
