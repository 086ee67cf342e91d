"""Events and workers of a manager by both interfaces: what is asked, what comes, and how a stream ends."""

import asyncio
import datetime
import threading

import pytest
from scripted import Refusal, both, wait_until

import folio
from folio.v1 import admin_pb2

FENCED = admin_pb2.WatchEventsResponse(
    event=admin_pb2.Event(
        number=7, time_us=1795500086123456, kind=admin_pb2.EVENT_KIND_WORKER_FENCED, worker_id="w1", pages=0, text="lease ran out"
    ),
    boot_id="b007",
)
LOST = admin_pb2.WatchEventsResponse(lost=admin_pb2.LostEvents(events=12))
LATER = admin_pb2.WatchEventsResponse()  # a later version may say more


def gather(kind, client, **options):
    """All of a stream, by either interface."""
    if kind == "sync":
        return list(client.events(**options))

    async def run():
        return [one async for one in client.aevents(**options)]

    return asyncio.run(run())


@both
def test_events_as_dataclasses(server, client, kind):
    server.script = [[LOST, LATER, FENCED]]
    lost, fenced = gather(kind, client)
    assert lost == folio.LostEvents(12)
    assert isinstance(fenced, folio.Event) and fenced.kind == "worker_fenced" and fenced.number == 7
    assert fenced.worker_id == "w1" and fenced.text == "lease ran out"
    assert fenced.pages == 0 and fenced.sequence_id is None, "a field of another kind is None"
    assert fenced.time == datetime.datetime(2026, 11, 24, 6, 1, 26, 123456, datetime.timezone.utc)
    assert server.requests == [admin_pb2.WatchEventsRequest()]


@both
def test_a_stream_tells_which_manager_it_is_of(server, client, kind):
    server.script = [[FENCED]]

    async def run():
        events = client.aevents()
        before = events.boot_id
        return before, await anext(events), events.boot_id

    if kind == "sync":
        events = client.events()
        said = events.boot_id, next(events), events.boot_id
    else:
        said = asyncio.run(run())
    assert said[0] == "" and said[2] == "b007"


@both
def test_arguments_become_the_request(server, client, kind):
    server.script = [[]]
    assert gather(kind, client, after=3, follow=True, kinds=["worker_gone", "pages_evicted"]) == []
    assert gather(kind, client, kinds="all") == []
    assert server.requests[0] == admin_pb2.WatchEventsRequest(
        after=3, follow=True, kinds=[admin_pb2.EVENT_KIND_WORKER_GONE, admin_pb2.EVENT_KIND_PAGES_EVICTED]
    )
    assert list(server.requests[1].kinds) == sorted(set(admin_pb2.EventKind.values()) - {0})


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"after": -1}, "after must be at least 0"),
        ({"after": 1.5}, "after must be an int"),
        ({"follow": 1}, "follow must be a bool"),
        ({"kinds": "worker_gone"}, 'kinds must be "all" or several words'),
        ({"kinds": ["worker_gone", "lost"]}, r'kinds\[1\] "lost" is not a kind of event; the kinds are pool_created, '),
    ],
)
def test_arguments_that_cannot_be_right(client, arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        client.events(**arguments)


@both
def test_errors(server, client, kind):
    server.script = [[FENCED, Refusal("RESOURCE_EXHAUSTED", "16 streams")]]
    with pytest.raises(folio.ResourceExhausted, match="16 streams"):
        gather(kind, client)
    server.stop()
    with pytest.raises(folio.Unavailable):
        gather(kind, client, timeout=5)


def test_another_thread_cancels(server, client):
    server.script = [[FENCED, 60]]
    events = client.events(follow=True)
    assert next(events).number == 7
    threading.Timer(0.1, events.cancel).start()
    with pytest.raises(folio.Cancelled):
        next(events)


def test_leaving_a_block_ends_the_stream(server, client):
    server.script = [[FENCED, 60]]
    with client.events(follow=True) as events:
        assert next(events).number == 7
    assert list(events) == []
    wait_until(lambda: server.ended == 1)


def test_dropping_it_ends_the_stream(server, client):
    server.script = [[FENCED, 60]]
    events = client.events(follow=True)
    next(events)
    del events
    wait_until(lambda: server.ended == 1)


def test_in_an_event_loop(server, client):
    server.script = [[FENCED, 60]]

    async def cancelled():
        events = client.aevents(follow=True)
        assert (await anext(events)).number == 7
        events.cancel()
        with pytest.raises(folio.Cancelled):
            await anext(events)

    async def left():
        async with client.aevents(follow=True) as events:
            assert (await anext(events)).number == 7
        assert [one async for one in events] == []

    async def task_cancelled():
        events = client.aevents(follow=True)
        await anext(events)
        task = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for number, way in enumerate((cancelled, left, task_cancelled), 1):
        asyncio.run(way())
        wait_until(lambda number=number: server.ended == number)


def test_workers(server, client):
    answer = admin_pb2.ListWorkersResponse(lease_ttl_ms=10000)
    answer.workers.add(worker_id="w1", name="a", processes=[{"pid": 5, "has_pages": True}], lease_remaining_ms=7, steps_done=3)
    answer.workers.add(worker_id="w2", fence={"reason": "lease ran out", "blocked_pages": 9, "kill_in_ms": 0})
    server.script = [answer]
    live, lost = client.workers()
    assert live.fence is None and live.lease_remaining_ms == 7 and live.steps_done == 3
    assert live.processes == (folio.WorkerProcess(rank=0, pid=5, has_pages=True, ended=False),)
    assert lost.lease_remaining_ms is None and lost.steps_done is None
    assert lost.fence == folio.Fence("lease ran out", 0, 0, 9, 0, 0, False, None)
