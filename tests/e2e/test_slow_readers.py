"""Clients that do not read their answers: they cost a bounded amount of memory, and others do not wait for them."""

import grpc
import pytest
from metrics import ENDPOINT, Metrics
from node import Node, anonymous_bytes, tokens, wait_until
from processes import threads
from raw_http2 import Unwilling
from streams import Stream, whole
from stubs import inference_pb2, inference_pb2_grpc

# Enough for the flow control of HTTP/2, which takes 64 KiB of each answer, and for the worker's buffer.
ANSWER = 1800


@pytest.fixture
def node(tiny_model):
    with Node(pool="8MiB") as node:
        node.serve = lambda name, *flags: node.start_worker(name, model=tiny_model, flags=[*ENDPOINT, *flags])
        yield node
        node.assert_alive()
        node.assert_all_free()


def asking(first, length=ANSWER, **settings):
    return inference_pb2.GenerateRequest(
        input=tokens(range(first, first + 20)), max_tokens=length, ignore_eos=True, **settings)  # fmt: skip


def slow_channel(node, name):
    # Without this option gRPC makes the window of flow control larger and larger.
    channel = grpc.insecure_channel(node.worker_address(name), options=[("grpc.http2.bdp_probe", 0)])
    node.channels.append(channel)
    return channel


def slow_client(node, name):
    return inference_pb2_grpc.InferenceStub(slow_channel(node, name))


def unread_answers(node, name, method, request, count):
    """Calls with one answer each, which the client does not read. To gRPC's client they have many answers, because it reads the
    one answer of other calls without being asked."""
    call = slow_channel(node, name).unary_stream(f"/folio.v1.Inference/{method}", request_serializer=type(request).SerializeToString)
    return [call(request, timeout=120) for _ in range(count)]


def assert_cancelled(calls):
    for call in calls:
        with pytest.raises(grpc.RpcError) as failure:
            list(call)
        assert failure.value.code() == grpc.StatusCode.CANCELLED


def paused(node, name):
    return Metrics(node.workers[name])("folio:num_requests_paused")


def ended(node):
    return Metrics(node.workers["worker"])("folio:slow_clients_total")


def test_a_sequence_waits_for_its_client(node):
    stub = node.serve("worker")
    request = asking(10, logprobs=20)
    expected = whole(stub, request)
    stream = Stream()
    call = slow_client(node, "worker").Generate(request, timeout=120)
    stream.take(next(call))
    wait_until(lambda: paused(node, "worker") == 1, 60, "the sequence stands still")

    def length():
        (sequence,) = [each for each in node.sequences() if each.sequence_id == stream.started.sequence_id]
        return sequence.logical_length

    stands = length()
    assert stands < 20 + ANSWER - 200
    assert whole(stub, asking(30, 400)).finished  # others run
    assert length() <= stands + 2  # steps that were under way

    stream.follow(call)
    assert stream.tokens == expected.tokens and stream.text == expected.text
    wait_until(lambda: paused(node, "worker") == 0, 60, "nothing stands still")


def test_a_call_ends_that_is_never_read(node):
    stub = node.serve("worker", "--slow_client_timeout=1s")
    slow = slow_client(node, "worker")
    in_time = asking(50, 40, logprobs=20)
    expected = whole(stub, in_time)

    calls = [slow.Generate(asking(first, logprobs=20), timeout=120) for first in (10, 30)]
    short = slow.Generate(in_time, timeout=120)  # it all fits on the way, so that the worker does not wait for the client

    wait_until(lambda: ended(node) == 2, 60, "both calls have ended")
    node.assert_all_free()
    for call in calls:
        with pytest.raises(grpc.RpcError) as failure:
            list(call)
        assert failure.value.code() == grpc.StatusCode.CANCELLED
    assert [token for event in short for token in event.chunk.tokens] == expected.tokens
    assert ended(node) == 2


def test_unread_answers_cost_little_memory(node):
    stub, pid = node.serve("worker"), node.workers["worker"].pid
    requests = [asking(first, logprobs=20) for first in range(10, 90, 10)]
    expected = [whole(stub, request) for request in requests[:2]]  # buffers are as large as a step after this
    before = anonymous_bytes(pid)
    slow = slow_client(node, "worker")
    calls = [slow.Generate(request, timeout=120) for request in requests]
    wait_until(lambda: paused(node, "worker") == len(calls), 60, "all sequences stand still")
    growth = anonymous_bytes(pid) - before
    print(f"{len(calls)} unread answers: the worker grew by {growth / (1 << 20):.1f} MiB")
    # A message with its alternatives takes about 2.5 KB, and 256 of each call may wait.
    assert growth < len(calls) << 20, f"the worker grew by {growth / (1 << 20):.1f} MiB"
    streams = [Stream() for _ in expected]
    for stream, call in zip(streams, calls, strict=False):
        stream.follow(call)
    assert [stream.tokens for stream in streams] == [stream.tokens for stream in expected]
    for call in calls:
        call.cancel()


def test_a_call_ends_whose_rest_is_never_read(node):
    stub = node.serve("worker", "--slow_client_timeout=1s")
    # More than the flow control takes, and too little beyond that to pause the sequence.
    request = asking(50, 350, logprobs=20, label="unread")
    sizes = [event.ByteSize() for event in stub.Generate(request, timeout=120)]
    taken = next(count for count in range(len(sizes)) if sum(sizes[:count]) > 1 << 16)
    assert 20 < len(sizes) - taken < 200
    call = slow_client(node, "worker").Generate(request, timeout=120)
    wait_until(lambda: ended(node) == 1, 60, "the call has ended")
    with pytest.raises(grpc.RpcError) as failure:
        list(call)
    assert failure.value.code() == grpc.StatusCode.CANCELLED
    # The sequence had ended before, with all of its tokens.
    line = wait_until(lambda: [line for line in node.workers["worker"].words().splitlines() if "unread=true" in line], 60, "its line")
    assert len(line) == 1 and "label=unread" in line[0] and "generated_tokens=350" in line[0] and "end=length" in line[0]


# An answer of 130 KB, twice of what HTTP/2 takes unread, for a request of 10 KB.
LARGE = inference_pb2.DetokenizeRequest(ids=[0] * 10_000)


@pytest.fixture
def long_node(long_model):
    with Node(pool="64MiB") as node:
        node.serve = lambda *flags: node.start_worker(model=long_model, flags=[*ENDPOINT, *flags])
        yield node
        node.assert_alive()
        node.assert_all_free()


def test_single_answers_end_that_are_never_read(long_node):
    stub, count = long_node.serve("--slow_client_timeout=3s"), 200
    pid = long_node.workers["worker"].pid
    assert len(stub.Detokenize(LARGE, timeout=60).text) == 130_000
    before = anonymous_bytes(pid)
    calls = unread_answers(long_node, "worker", "Detokenize", LARGE, count)
    most = 0

    def all_ended():
        nonlocal most
        most = max(most, anonymous_bytes(pid) - before)
        assert len(stub.Detokenize(LARGE, timeout=60).text) == 130_000  # others are served
        return ended(long_node) == count

    wait_until(all_ended, 60, "all calls have ended")
    assert_cancelled(calls)
    print(f"{count} unread answers: the worker grew by {most / (1 << 20):.1f} MiB at most")
    assert most < 4 * count * 130_000  # each is there as a message and as bytes, and there is more
    # A second wave takes the memory of the first.
    grown = anonymous_bytes(pid)
    calls = unread_answers(long_node, "worker", "Detokenize", LARGE, count)
    wait_until(lambda: ended(long_node) == 2 * count, 60, "all of these have ended too")
    assert_cancelled(calls)
    print(f"by {(anonymous_bytes(pid) - grown) / (1 << 20):.1f} MiB more with as many again")
    assert anonymous_bytes(pid) - grown < 16 << 20


def test_scores_end_that_are_never_read(long_node):
    stub = long_node.serve("--slow_client_timeout=1s")
    request = inference_pb2.ScoreRequest(input=tokens([5]), continuation=tokens([7] * 12_000), label="unread")
    assert stub.Score(request, timeout=120).ByteSize() > 100_000
    calls = unread_answers(long_node, "worker", "Score", request, 1)
    wait_until(lambda: ended(long_node) == 1, 60, "the call has ended")
    assert_cancelled(calls)
    long_node.workers["worker"].says("request ended", times=2)
    read, unread = [line for line in long_node.workers["worker"].words().splitlines() if "request ended" in line]
    assert "end=scored unread=false" in read and "end=scored unread=true" in unread


def test_single_answers_share_a_bound(long_node):
    stub, count = long_node.serve(), 1000
    assert len(stub.Detokenize(LARGE, timeout=60).text) == 130_000
    calls = unread_answers(long_node, "worker", "Detokenize", LARGE, count)
    # 64 MiB may stay, which are 516 answers. The other ones end long before --slow_client_timeout of 60 s.
    wait_until(lambda: ended(long_node) >= count - 516, 30, "the oldest have ended")
    assert ended(long_node) == count - 516
    assert len(stub.Detokenize(LARGE, timeout=60).text) == 130_000
    for call in calls:
        call.cancel()


def test_another_worker_gets_the_pages_of_a_client_that_does_not_read(tiny_model):
    with Node(pool="2MiB") as node:
        stubs = {name: node.start_worker(name, model=tiny_model, flags=ENDPOINT) for name in ("one", "other")}
        requests = [asking(first, 600, logprobs=20) for first in (10, 30)]
        expected = [whole(stubs["one"], request) for request in requests]
        large = asking(100, 20)
        large.input.CopyFrom(tokens([10 + at % 250 for at in range(700)]))
        slow = slow_client(node, "one")
        calls = [slow.Generate(request, timeout=120) for request in requests]
        wait_until(lambda: paused(node, "one") == 2, 60, "both sequences stand still")
        pool = node.pool()
        needed = pool.layout.num_layers * (700 // pool.layout.page_tokens + 1)
        assert pool.free_pages < needed < pool.total_pages
        assert whole(stubs["other"], large).finished
        # Their calls have not ended.
        assert paused(node, "one") == 2 and "sequence asked back" in node.manager.words()
        streams = [Stream() for _ in requests]
        for stream, call in zip(streams, calls, strict=True):
            stream.follow(call)
        assert [stream.tokens for stream in streams] == [stream.tokens for stream in expected]
        node.assert_alive()
        node.assert_all_free()


def test_answers_that_nobody_takes_hold_few_threads(node, tiny_model):
    node.serve("worker")
    before = threads(node.manager.pid)
    clients = [Unwilling(node.manager_address) for _ in range(4)]
    try:
        for client in clients:
            client.call("/folio.v1.Admin/ListPools", times=100)
        wait_until(lambda: sum(len(client.ended) for client in clients) >= 300, 60, "the oldest calls have ended")
        assert sum(len(client.ended) for client in clients) < 400
        assert not any(client.closed for client in clients)
        held = threads(node.manager.pid) - before
        print(f"400 unread answers hold {held} threads")
        assert held < 200  # without the limit it is one for each
        assert len(node.pool().workers) == 1
        other = node.serve("other")
        assert whole(other, asking(10, 20)).finished
        assert len(node.pool().workers) == 2
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: threads(node.manager.pid) <= before + 8, 60, "the threads have ended")
