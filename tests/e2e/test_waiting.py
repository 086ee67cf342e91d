"""A full pool is a waiting line: requests wait for room in their order, and are refused only if they can't ever have it."""

import concurrent.futures

import folio
import grpc
import pytest
from node import PATIENCE, Node, side_by_side, tokens, wait_until
from stubs import inference_pb2, types_pb2


def asking(first=1000, prompt=20, length=20, **settings):
    return inference_pb2.GenerateRequest(
        input=tokens(range(first, first + prompt)), max_tokens=length, ignore_eos=True, **settings)  # fmt: skip


def generated(stub, request, timeout=240):
    """The tokens of a generation, and the places in the line that its client was told."""
    ids, places = [], []
    for event in stub.Generate(request, timeout=timeout):
        if event.prefill.queue_position:
            places.append(event.prefill.queue_position)
        ids += event.chunk.tokens
    return ids, places


def refused(stub, request):
    with pytest.raises(grpc.RpcError) as failure:
        generated(stub, request)
    return failure.value.code(), failure.value.details()


def begun(stub, request):
    """A call whose sequence has its pages."""
    call = stub.Generate(request, timeout=240)
    assert next(call).HasField("started")
    return call


@pytest.fixture
def node():
    """Its pool holds some 4,360 tokens, which are promised to those that run, so that one of them can hold it for long."""
    with Node(pool="96MiB", manager_flags=["--admission=reserve"]) as node:
        yield node
        node.assert_alive()
        node.assert_all_free()


def test_many_clients_that_ask_for_more_than_they_need(node):
    stub = node.start_worker()
    message = inference_pb2.ChatMessage(role="user", content="Answer in one word: what is the capital of France?")
    request = inference_pb2.GenerateRequest(
        input=inference_pb2.Input(chat=inference_pb2.Chat(messages=[message])),
        max_tokens=4000,
        sampling=types_pb2.SamplingParams(temperature=0),
    )
    answers = side_by_side(*[lambda: generated(stub, request)] * 16)
    assert len(answers) == 16 and len({tuple(ids) for ids, _ in answers}) == 1 and answers[0][0]


def test_small_requests_do_not_pass_a_large_one(node):
    stub = node.start_worker()
    first = begun(stub, asking(length=3750))
    with concurrent.futures.ThreadPoolExecutor(5) as threads:
        large = threads.submit(generated, stub, asking(2000, prompt=150, length=500))
        wait_until(lambda: not large.done() and len(node.events("sequence_waiting")) == 1, PATIENCE, "the large one waits")
        small = [threads.submit(generated, stub, asking(3000 + 100 * i)) for i in range(3)]
        for _ in range(50):
            next(first)
        assert not any(one.done() for one in small)  # although there is room for them
        first.cancel()
        assert len(large.result()[0]) == 500
        assert all(len(one.result()[0]) == 20 for one in small)


def test_workers_share_the_room(node):
    one, other = node.start_worker("one"), node.start_worker("other")
    alone, _ = generated(other, asking(length=500))
    holder = begun(one, asking(length=4000))
    waiting = other.Generate(asking(length=500), timeout=240)
    assert next(waiting).prefill.queue_position == 1
    assert next(event for event in holder if event.HasField("chunk"))
    holder.cancel()
    assert [token for event in waiting for token in event.chunk.tokens] == alone


def test_places_and_limits():
    # The one that runs takes longer than the others may wait, on a fast machine too.
    with Node(pool="192MiB", manager_flags=["--admission=reserve"]) as node:
        stub = node.start_worker(flags=["--max_queue=2", "--queue_timeout=10s"])
        holder = begun(stub, asking(length=8100))
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            calls = [stub.Generate(asking(length=1000), timeout=120) for _ in range(2)]
            assert sorted(next(call).prefill.queue_position for call in calls) == [1, 2]
            code, words = refused(stub, asking(length=1000))
            assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "--max_queue" in words
            for failure in threads.map(lambda call: call.exception(timeout=120), calls):
                assert failure.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
                assert "--queue_timeout" in failure.details() and "pages" in failure.details()
        assert next(event for event in holder if event.HasField("chunk"))
        holder.cancel()


def test_what_never_fits_does_not_wait(node):
    stub = node.start_worker()
    code, words = refused(stub, asking(length=8000))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "never fits" in words


def test_the_sdk_tells_the_place(node):
    stub = node.start_worker()
    holder = begun(stub, asking(length=4100))
    with folio.Client(node.worker_address()) as client:
        generation = client.generate(tokens=range(1000, 1020), max_tokens=400, ignore_eos=True)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            text = threads.submit(generation.text)
            wait_until(lambda: generation.queue_position == 1, PATIENCE, "the client knows its place")
            holder.cancel()
            assert text.result()
        assert generation.queue_position is None


