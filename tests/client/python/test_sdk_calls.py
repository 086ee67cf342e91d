"""Calls against a scripted server: streams, errors, deadlines, cancellation."""

import asyncio
import threading
import time

import grpc
import pytest
from scripted import WHOLE, Refusal, both, chunk, finished, run, started, wait_until

import folio
from folio.v1 import inference_pb2

ERRORS = {
    "INVALID_ARGUMENT": folio.InvalidArgument,
    "RESOURCE_EXHAUSTED": folio.ResourceExhausted,
    "NOT_FOUND": folio.NotFound,
    "FAILED_PRECONDITION": folio.FailedPrecondition,
    "UNAVAILABLE": folio.Unavailable,
    "DEADLINE_EXCEEDED": folio.DeadlineExceeded,
    "CANCELLED": folio.Cancelled,
    "ABORTED": folio.Aborted,
    "UNIMPLEMENTED": folio.Unimplemented,
    "PERMISSION_DENIED": folio.PermissionDenied,
    "INTERNAL": folio.Internal,
    "DATA_LOSS": folio.DataLoss,
    "UNAUTHENTICATED": folio.Unauthenticated,
    "ALREADY_EXISTS": folio.FolioError,
}


@both
def test_a_whole_stream(server, client, kind):
    server.script = [[started(), chunk("He", 1), inference_pb2.GenerateResponse(prefill={"done_tokens": 1}), *WHOLE[2:]]]
    result = run(kind, client, "x")
    assert (result.text, result.tokens, result.evictions) == ("He world", (1, 2, 3), ())
    assert result.started.sequence_id == 7 and result.started.seed == 99
    assert result.finished.reason == "length" and result.finished.usage.generated_tokens == 2


def test_what_is_known_when(server, client):
    server.script = [WHOLE]
    generation = client.generate("x")
    assert generation.finished is None
    assert next(generation) == folio.Chunk("Hello", (1,), ())
    assert generation.started.prompt_tokens == 3 and generation.finished is None
    assert generation.text() == "Hello world", "with what was iterated before"
    assert generation.finished.reason == "length"
    assert list(generation) == [] and generation.text() == "Hello world"


@both
@pytest.mark.parametrize("code", ERRORS)
def test_errors_keep_status_and_words(server, client, kind, code):
    server.script = [[started(), chunk("He", 1), Refusal(code, "for a reason")]]
    with pytest.raises(folio.FolioError) as failure:
        run(kind, client, "x")
    error = failure.value
    assert type(error) is ERRORS[code]
    assert error.status is grpc.StatusCode[code] and error.details == "for a reason"
    assert isinstance(error.__cause__, grpc.RpcError)
    assert str(error) == f'{code}: worker at "{server.address}": for a reason'
    assert len(server.requests) == 1


def test_an_error_stays_one(server, client):
    server.script = [[started(), chunk("He", 1), Refusal("ABORTED")]]
    generation = client.generate("x")
    with pytest.raises(folio.Aborted):
        list(generation)
    assert list(generation) == []
    with pytest.raises(folio.Aborted):
        generation.text()


@both
def test_a_stream_without_an_end(server, client, kind):
    server.script = [[started(), chunk("He", 1)]]
    with pytest.raises(folio.Internal, match="ended without a result"):
        run(kind, client, "x")


@both
def test_deadlines(server, client, kind):
    server.script = [[started(), 60]]
    begin = time.monotonic()
    with pytest.raises(folio.DeadlineExceeded):
        run(kind, client, "x", timeout=0.3)
    assert 0.2 < time.monotonic() - begin < 30
    wait_until(lambda: server.ended == 1)
    server.script = [60]
    with folio.Client(server.address, timeout=0.2) as impatient, pytest.raises(folio.DeadlineExceeded):
        impatient.score("x", continuation="y")
    with folio.Client(server.address, timeout=0.001) as impatient:
        server.script = [WHOLE]
        assert impatient.generate("x", timeout=60).text() == "Hello world", "a call's own comes first"


def stop_by_break(generation):
    for _ in generation:
        break


def stop_by_with(generation):
    with generation:
        next(generation)


STOPS = [stop_by_break, stop_by_with, lambda generation: generation.close(), lambda generation: generation.cancel()]


@pytest.mark.parametrize("stop", STOPS, ids=["break", "with", "close", "cancel"])
def test_ending_early_ends_the_request(server, client, stop):
    server.script = [[started(), chunk("He", 1), 20]]
    generation = client.generate("x")
    wait_until(lambda: server.requests)
    stop(generation)
    del generation  # no cycle keeps it
    wait_until(lambda: server.ended == 1)


def test_what_the_iterator_says_then(server, client):
    server.script = [[started(), chunk("He", 1), 20]]
    closed, cancelled = client.generate("x"), client.generate("x")
    for generation in (closed, cancelled):
        next(generation)
    closed.close()
    assert list(closed) == []
    with pytest.raises(folio.Cancelled, match="closed before its end"):
        closed.text()
    timer = threading.Timer(0.1, cancelled.cancel)
    timer.start()
    with pytest.raises(folio.Cancelled):
        list(cancelled)
    timer.join()


def test_closing_the_client_ends_its_calls(server):
    server.script = [[started(), chunk("He", 1), 20]]
    client = folio.Client(server.address)
    generation = client.generate("x")
    next(generation)
    client.close()
    with pytest.raises(folio.Cancelled):
        next(generation)
    with pytest.raises(ValueError, match="client is closed"):
        client.generate("x")


async def ways_to_end(server):
    async with folio.Client(server.address) as client:
        generation = client.agenerate("x")
        assert (await anext(generation)).text == "He" and generation.started.seed == 99
        generation.cancel()
        with pytest.raises(folio.Cancelled):
            await anext(generation)
        async with client.agenerate("x") as generation:
            await anext(generation)
        assert [chunk async for chunk in generation] == []
        with pytest.raises(folio.Cancelled):
            await generation.text()
        task = asyncio.create_task(client.agenerate("x").text())
        await asyncio.to_thread(wait_until, lambda: len(server.requests) == 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        left = client.agenerate("x")
        await anext(left)
        del left
        await asyncio.to_thread(wait_until, lambda: server.ended == 4)
        running = client.agenerate("x")
        await anext(running)
    with pytest.raises(folio.Cancelled):
        await anext(running)


def test_ending_early_in_an_event_loop(server):
    server.script = [[started(), chunk("He", 1), 20]]
    asyncio.run(ways_to_end(server))
    wait_until(lambda: server.ended == 5)


def test_one_client_in_several_loops_and_threads(server, client):
    server.script = [WHOLE]

    async def gather():
        return [result.text for result in await asyncio.gather(*(client.agenerate("x").result() for _ in range(3)))]

    texts = []
    threads = [threading.Thread(target=lambda: texts.append(client.generate("x").text())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        texts += asyncio.run(gather())
    for thread in threads:
        thread.join()
    assert texts == ["Hello world"] * 10
    with pytest.raises(RuntimeError, match="no running event loop"):
        client.agenerate("x")


def test_addresses_of_the_environment(monkeypatch):
    for name in ("FOLIO_ADDRESS", "FOLIO_MANAGER_ADDRESS", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    client = folio.Client()
    assert (client.address, client.manager_address) == ("unix:/run/folio/worker.sock", "unix:/run/folio/manager.sock")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert folio.Client().address == "unix:/run/user/7/folio/worker.sock"
    monkeypatch.setenv("FOLIO_ADDRESS", "localhost:7000")
    assert folio.Client().address == "localhost:7000"
    assert folio.Client("unix:/a", "unix:/b").manager_address == "unix:/b"


def test_large_answers(server, client):
    rivals = [{"token": 1, "logprob": -1.0, "bytes": b"x" * 50}] * 20
    server.script = [inference_pb2.ScoreResponse(tokens=[{"token": 5, "logprob": -0.5, "top": rivals}] * 5000)]
    score = client.score("x", continuation="y", top_logprobs=20)
    assert score.logprobs == (-0.5,) * 5000 and score.top[-1][-1] == folio.Candidate(1, -1.0, b"x" * 50)
    assert server.requests[0].ByteSize() < 100


def test_a_result_after_which_the_server_went(server, client):
    server.script = [[started(), finished(), Refusal("UNAVAILABLE")]]
    assert client.generate("x").text() == ""
