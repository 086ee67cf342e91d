"""Generations whose sequence is gone: the request is sent again with the tokens that have come."""

import pytest
from scripted import Refusal, Scripted, both, chunk, finished, run, started

import folio

KILLED = Refusal("UNAVAILABLE", "killed")
GONE = [Refusal("NOT_FOUND", "sequence 7 is not open")]
ANOTHERS = [Refusal("PERMISSION_DENIED", "resume_token: is not the one that sequence 7 was opened with")]


def begun(replayed=0):
    event = started()
    event.started.resume_token = b"secret"
    event.started.replayed_tokens = replayed
    return event


@both
@pytest.mark.parametrize("gone", [GONE, ANOTHERS], ids=["not found", "the number is another one's"])
def test_it_is_computed_again(server, kind, gone):
    server.script = [[begun(), chunk("Hello", 1), chunk(" wor", 2), KILLED], gone, [begun(2), chunk("ld", 3), finished()]]
    with folio.Client(server.address, timeout=60) as client:
        result = run(kind, client, "x", label="greeting", temperature=0.5, stop="!", max_tokens=9)
    assert result.text == "Hello world" and result.tokens == (1, 2, 3)
    assert result.finished.replays == 1
    first, resumed, replayed = server.requests
    assert resumed.HasField("resume")
    assert list(replayed.replay.received_tokens) == [1, 2] and replayed.sampling.seed == 99
    replayed.ClearField("replay")
    replayed.sampling.ClearField("seed")
    assert replayed == first


@both
def test_it_begins_where_the_sequence_is_known_to_be_gone(server, tmp_path, kind):
    server.script = [[begun(), chunk("a", 1), KILLED]]
    with Scripted(f"unix:{tmp_path}/other.sock") as other:
        other.script = [GONE, [begun(1), chunk("b", 2), finished()]]
        with folio.Client(server.address, standby=[other.address], timeout=60) as client:
            assert run(kind, client, "x").tokens == (1, 2)
    assert len(server.requests) == 1 and len(other.requests) == 2


@both
def test_it_is_resumed_and_computed_again_by_turns(server, kind):
    server.script = [
        [begun(), chunk("a", 1), KILLED],
        GONE,
        [Refusal("UNAVAILABLE", "it looks for a manager")],
        [begun(1), chunk("b", 2), KILLED],
        [begun(), chunk("c", 3), KILLED],
        GONE,
        [begun(3), chunk("d", 4), finished()],
    ]
    with folio.Client(server.address, timeout=60) as client:
        result = run(kind, client, "x")
    assert result.tokens == (1, 2, 3, 4) and result.finished.replays == 2
    assert [len(request.replay.received_tokens) for request in server.requests] == [0, 0, 1, 1, 0, 0, 3]
    assert [len(request.resume.received_tokens) for request in server.requests] == [0, 1, 0, 0, 2, 3, 0]


@both
def test_not_for_ever(server, kind):
    lost = [[begun(n), chunk("a", n + 1), KILLED] for n in range(4)]
    server.script = [lost[0], GONE, lost[1], GONE, lost[2], GONE, lost[3], GONE, [begun(4), chunk("no", 5), finished()]]
    with folio.Client(server.address, timeout=60) as client, pytest.raises(folio.Unavailable, match="killed; not resumed"):
        run(kind, client, "x")
    assert len(server.requests) == 8


@both
@pytest.mark.parametrize("code", ["ABORTED", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "INTERNAL"])
def test_not_unless_it_is_gone(server, kind, code):
    """ABORTED: the manager has given it up, because it may be what ends its workers."""
    server.script = [[begun(), chunk("a", 1), KILLED], [Refusal(code, "no")]]
    with folio.Client(server.address, timeout=60) as client, pytest.raises(folio.Unavailable, match="not resumed: no"):
        run(kind, client, "x")
    assert len(server.requests) == 2


@both
def test_not_without_leave_nor_with_evictions(server, kind):
    server.script = [[begun(), chunk("a", 1), KILLED], GONE]
    with (
        folio.Client(server.address, timeout=60, replay=False) as client,
        pytest.raises(folio.Unavailable, match="not resumed: sequence 7 is not open"),
    ):
        run(kind, client, "x")
    assert len(server.requests) == 2
    server.script = [[started(), chunk("a", 1), KILLED]]
    with folio.Client(server.address, timeout=60) as client, pytest.raises(folio.Unavailable, match="killed"):
        run(kind, client, "x", report_evictions=True)


@both
@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "DATA_LOSS", "DEADLINE_EXCEEDED", "ABORTED"])
def test_a_refusal_of_the_replay_is_the_end(server, kind, code):
    server.script = [[begun(), chunk("a", 1), KILLED], GONE, [Refusal(code, "no")]]
    with folio.Client(server.address, timeout=60) as client, pytest.raises(folio.Unavailable, match="killed; not replayed: no"):
        run(kind, client, "x")
    assert len(server.requests) == 3


@both
@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "DATA_LOSS", "INTERNAL", "ABORTED"])
def test_other_ends_are_not_repeated(server, kind, code):
    server.script = [[begun(), chunk("a", 1), Refusal(code, "no")]]
    with folio.Client(server.address, timeout=60) as client, pytest.raises(folio.FolioError, match="no"):
        run(kind, client, "x")
    assert len(server.requests) == 1


@both
def test_a_worker_that_knows_no_replays_is_not_believed(server, kind):
    server.script = [[begun(), chunk("a", 1), KILLED], GONE, [begun(), chunk("a", 1), chunk("b", 2), finished()]]
    with folio.Client(server.address, timeout=60) as client, pytest.raises(folio.Unavailable, match="not replayed: .* older"):
        run(kind, client, "x")
