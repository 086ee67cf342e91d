"""What is tried again: what cannot have had an effect, and not for ever."""

import threading
import time

import pytest
from scripted import WHOLE, Refusal, Scripted, both, run

import folio
from folio.v1 import inference_pb2


def test_reads_are_tried_again(server, client):
    down = Refusal("UNAVAILABLE", "starting")
    server.script = [down, down, inference_pb2.TokenizeResponse(ids=[4], pieces=[b"x"])]
    assert client.tokenize("x") == (4,)
    assert len(server.requests) == 3
    server.script = [Refusal("RESOURCE_EXHAUSTED")]
    with pytest.raises(folio.ResourceExhausted):
        client.sequences()
    assert len(server.requests) == 4, "only what is unavailable now may be there later"


def test_reads_are_not_tried_for_ever(server):
    server.script = [Refusal("UNAVAILABLE", "draining")]
    with folio.Client(server.address, retries=2) as client, pytest.raises(folio.Unavailable, match="draining"):
        client.model()
    assert len(server.requests) == 3
    for timeout in (0.6, 0.8, 1.0, 1.2):  # however much is left for the last attempt
        server.requests.clear()
        with folio.Client(server.address, retries=100) as client, pytest.raises(folio.Unavailable, match="draining"):
            client.model(timeout=timeout)
        assert 1 < len(server.requests) < 6


def test_work_that_reached_a_server_is_not_tried_again(server, client):
    server.script = [[Refusal("UNAVAILABLE", "failing")]]
    with pytest.raises(folio.Unavailable):
        client.score("x", continuation="y")
    assert len(server.requests) == 1


@both
def test_a_generation_of_which_nothing_came_is_begun_again(server, client, kind):
    server.script = [[Refusal("UNAVAILABLE", "cut")], [Refusal("UNAVAILABLE", "cut")], WHOLE]
    assert run(kind, client, "x").tokens == (1, 2, 3)
    assert len(server.requests) == 3
    assert all(request == server.requests[0] and request.input.text == "x" for request in server.requests)


@both
def test_it_is_begun_at_a_standby(server, tmp_path, kind):
    with Scripted(f"unix:{tmp_path}/other.sock", [WHOLE]) as other:
        server.script = [[Refusal("UNAVAILABLE", "cut")]]
        with folio.Client(server.address, standby=[other.address], timeout=60) as client:
            assert run(kind, client, "x").tokens == (1, 2, 3)
            assert (len(server.requests), len(other.requests)) == (1, 1)
            server.stop()  # then the standby is asked too
            assert run(kind, client, "x").tokens == (1, 2, 3)
        assert other.requests[0] == other.requests[1] == server.requests[0]


@both
def test_it_is_not_begun_for_ever_nor_without_time(server, kind):
    server.script = [[Refusal("UNAVAILABLE", "draining")]]
    begin = time.monotonic()
    with folio.Client(server.address, resume=1) as client, pytest.raises(folio.Unavailable, match="draining"):
        run(kind, client, "x")
    assert 0.5 < time.monotonic() - begin < 20
    assert 2 < len(server.requests) < 8
    server.requests.clear()
    with folio.Client(server.address, resume=0) as client, pytest.raises(folio.Unavailable, match="draining"):
        run(kind, client, "x")
    assert len(server.requests) == 1


@both
def test_other_refusals_end_it(server, client, kind):
    server.script = [[Refusal("UNAVAILABLE", "cut")], [Refusal("RESOURCE_EXHAUSTED", "full")]]
    with pytest.raises(folio.ResourceExhausted, match="full"):
        run(kind, client, "x")
    assert len(server.requests) == 2


def later(server, seconds):
    """Starts the server after a while."""
    timer = threading.Timer(seconds, server.start)
    timer.start()
    return timer


def score(client):
    return client.score("x", continuation="y").tokens


ASK = [lambda client: run("sync", client, "x").tokens, lambda client: run("async", client, "x").tokens, score]


@pytest.mark.parametrize("ask", ASK, ids=["sync", "async", "score"])
def test_work_that_reached_no_server_is_tried_again(server, ask):
    server.script = [inference_pb2.ScoreResponse(tokens=[{"token": 5, "logprob": -0.5}]) if ask is score else WHOLE]
    server.stop()
    timer = later(server, 0.4)
    with folio.Client(server.address, timeout=60, retries=9) as client:
        assert ask(client) == ((5,) if ask is score else (1, 2, 3))
    timer.join()
    assert len(server.requests) == 1


@both
def test_nobody_there(tmp_path, kind):
    address = f"unix:{tmp_path}/nobody.sock"
    with folio.Client(address, retries=1) as client:
        with pytest.raises(folio.Unavailable, match="nobody.sock.*failed to connect"):
            run(kind, client, "x")
        with pytest.raises(folio.Unavailable):
            client.detokenize([1])


def test_cancel_ends_the_wait_for_the_next_attempt(tmp_path):
    with folio.Client(f"unix:{tmp_path}/nobody.sock", retries=1000) as client:
        generation = client.generate("x")
        timer = threading.Timer(1.0, generation.cancel)
        begin = time.monotonic()
        timer.start()
        with pytest.raises(folio.Cancelled):
            next(generation)
        assert time.monotonic() - begin < 60
        timer.join()
