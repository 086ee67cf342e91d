"""Generations whose worker is lost."""

import asyncio
import concurrent.futures
import socketserver
import threading
import time

import pytest
from scripted import Refusal, Scripted, both, chunk, finished, run, started

import folio

KILLED = Refusal("UNAVAILABLE", "killed")


def resumable():
    event = started()
    event.started.resume_token = b"secret"
    return event


@pytest.fixture
def other(tmp_path):
    with Scripted(f"unix:{tmp_path}/other.sock") as other:
        yield other


@both
def test_it_goes_on_at_another(server, other, kind):
    server.script = [[resumable(), chunk("Hello", 1), chunk(" wor", 2), KILLED]]
    other.script = [[resumable(), chunk("ld", 3, 4), finished()]]
    with folio.Client(server.address, standby=[other.address], timeout=60) as client:
        result = run(kind, client, "x")
    assert result.text == "Hello world" and result.tokens == (1, 2, 3, 4)
    assert result.started.resume_token == b"secret"
    (request,) = other.requests
    assert not request.HasField("input")
    assert request.resume.sequence_id == 7 and request.resume.resume_token == b"secret"
    assert list(request.resume.received_tokens) == [1, 2]


@both
def test_it_goes_on_at_the_same_address_and_more_than_once(server, kind):
    not_yet = [Refusal("UNAVAILABLE", "its process has not ended")]
    server.script = [
        [resumable(), chunk("a", 1), KILLED],
        not_yet,
        not_yet,
        [resumable(), chunk("b", 2), KILLED],
        not_yet,
        [resumable(), chunk("c", 3), finished()],
    ]
    with folio.Client(server.address, timeout=60) as client:
        assert run(kind, client, "x").tokens == (1, 2, 3)
    assert [list(request.resume.received_tokens) for request in server.requests[3:]] == [[1], [1, 2], [1, 2]]


@both
@pytest.mark.parametrize("first", [[], [resumable(), chunk("a", 1)]], ids=["before the start", "after a token"])
def test_it_goes_on_after_a_cancellation_that_is_not_its_own(server, other, kind, first):
    """gRPC gives CANCELLED to calls that reach a worker in the moment in which it ends."""
    server.script = [[*first, Refusal("CANCELLED", "")]]
    other.script = [[resumable(), chunk("b", 2), finished()]]
    with folio.Client(server.address, standby=[other.address], timeout=60) as client:
        assert run(kind, client, "x").tokens == ((1, 2) if first else (2,))


@both
def test_it_says_that_it_was_cancelled_where_the_worker_did_so(server, kind):
    server.script = [[resumable(), chunk("a", 1), Refusal("CANCELLED", "")], [Refusal("NOT_FOUND", "it has ended")]]
    with folio.Client(server.address, timeout=60) as client, pytest.raises(folio.Cancelled, match="it has ended"):
        run(kind, client, "x")


@both
def test_it_says_why_it_cannot_go_on(server, kind):
    server.script = [[resumable(), chunk("a", 1), KILLED], [Refusal("NOT_FOUND", "sequence 7 is not open")]]
    with (
        folio.Client(server.address, timeout=60, replay=False) as client,
        pytest.raises(folio.Unavailable, match="killed; not resumed: sequence 7 is not open"),
    ):
        run(kind, client, "x")
    assert len(server.requests) == 2


@both
def test_it_is_not_looked_for_for_ever(server, kind):
    server.script = [[resumable(), chunk("a", 1), KILLED], [Refusal("UNAVAILABLE", "not yet")]]
    begin = time.monotonic()
    with folio.Client(server.address, resume=1.2) as client, pytest.raises(folio.Unavailable, match="not yet"):
        run(kind, client, "x")
    assert 0.9 < time.monotonic() - begin < 20
    assert 2 < len(server.requests) < 16


@both
def test_not_without_a_token_nor_without_time(server, kind):
    server.script = [[started(), chunk("a", 1), KILLED]]
    with folio.Client(server.address) as client, pytest.raises(folio.Unavailable, match="killed"):
        run(kind, client, "x")
    server.script = [[resumable(), chunk("a", 1), KILLED]]
    with folio.Client(server.address, resume=0) as client, pytest.raises(folio.Unavailable, match="killed"):
        run(kind, client, "x")
    assert len(server.requests) == 2


def test_cancel_ends_the_wait(server):
    server.script = [[resumable(), chunk("a", 1), KILLED], [Refusal("UNAVAILABLE", "not yet")]]
    with folio.Client(server.address, resume=1000) as client:
        generation = client.generate("x")
        timer = threading.Timer(0.5, generation.cancel)
        timer.start()
        with pytest.raises(folio.Cancelled):
            generation.result()
        timer.join()


def test_cancelling_the_task_ends_the_wait(server):
    server.script = [[resumable(), chunk("a", 1), KILLED], [Refusal("UNAVAILABLE", "not yet")]]

    async def give_up(client):
        await asyncio.wait_for(client.agenerate("x").result(), 0.5)

    with folio.Client(server.address, resume=1000) as client, pytest.raises((asyncio.TimeoutError, TimeoutError)):
        asyncio.run(give_up(client))


BAD = [
    ({"resume": -1}, "resume"),
    ({"standby": ["nowhere"]}, r"standby\[0\]"),
    ({"keepalive": 4.9}, "keepalive must be 0, or at least 5, is 4.9"),
    ({"keepalive": -1}, "keepalive"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=str)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        folio.Client("unix:/x.sock", **arguments)


class Deaf(socketserver.StreamRequestHandler):
    """Greets as HTTP/2 wants it, and answers nothing from then on."""

    def handle(self):
        self.wfile.write(bytes.fromhex("000000040000000000"))  # SETTINGS
        while self.connection.recv(4096):
            pass
        self.server.left.release()


def test_a_server_that_does_not_answer_is_lost(server, tmp_path):
    server.script = [[started(), chunk("a", 1), finished()]]
    with (
        socketserver.ThreadingUnixStreamServer(f"{tmp_path}/deaf.sock", Deaf) as deaf,
        folio.Client(f"unix:{tmp_path}/deaf.sock", standby=[server.address], keepalive=5) as client,
        concurrent.futures.ThreadPoolExecutor(3) as threads,
    ):
        deaf.daemon_threads, deaf.left = True, threading.Semaphore(0)
        threads.submit(deaf.serve_forever)
        begin = time.monotonic()
        asked = [threads.submit(run, kind, client, "x", timeout=60) for kind in ("sync", "async")]
        assert [one.result().text for one in asked] == ["a", "a"]
        assert 5 < time.monotonic() - begin < 50
        assert deaf.left.acquire(timeout=60) and deaf.left.acquire(timeout=60)
        deaf.shutdown()
