"""Generations whose worker is lost."""

import asyncio
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
    with folio.Client(server.address, standby=[other.address], timeout=20) as client:
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
    with folio.Client(server.address, timeout=20) as client:
        assert run(kind, client, "x").tokens == (1, 2, 3)
    assert [list(request.resume.received_tokens) for request in server.requests[3:]] == [[1], [1, 2], [1, 2]]


@both
def test_it_says_why_it_cannot_go_on(server, kind):
    server.script = [[resumable(), chunk("a", 1), KILLED], [Refusal("NOT_FOUND", "sequence 7 is not open")]]
    with (
        folio.Client(server.address, timeout=20) as client,
        pytest.raises(folio.Unavailable, match="killed; not resumed: sequence 7 is not open"),
    ):
        run(kind, client, "x")
    assert len(server.requests) == 2


@both
def test_it_is_not_looked_for_for_ever(server, kind):
    server.script = [[resumable(), chunk("a", 1), KILLED], [Refusal("UNAVAILABLE", "not yet")]]
    begin = time.monotonic()
    with folio.Client(server.address, resume=0.5) as client, pytest.raises(folio.Unavailable, match="not yet"):
        run(kind, client, "x")
    assert 0.3 < time.monotonic() - begin < 5
    assert 2 < len(server.requests) < 10


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


@pytest.mark.parametrize(("arguments", "words"), [({"resume": -1}, "resume"), ({"standby": ["nowhere"]}, r"standby\[0\]")])
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        folio.Client("unix:/x.sock", **arguments)
