"""What is tried again: what cannot have had an effect, and not for ever."""

import threading
import time

import pytest
from scripted import WHOLE, Refusal, both, run

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
    with folio.Client(server.address, retries=100) as client, pytest.raises((folio.Unavailable, folio.DeadlineExceeded)):
        client.model(timeout=0.5)
    assert len(server.requests) < 10


@both
def test_work_that_reached_a_server_is_not_tried_again(server, client, kind):
    server.script = [[Refusal("UNAVAILABLE", "failing")]]
    with pytest.raises(folio.Unavailable, match="failing"):
        run(kind, client, "x")
    with pytest.raises(folio.Unavailable):
        client.score("x", continuation="y")
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
    with folio.Client(server.address, timeout=20, retries=9) as client:
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
        assert time.monotonic() - begin < 10
        timer.join()
