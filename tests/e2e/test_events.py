"""Events, workers, leases and quarantine: what operators see while real processes come, hang and die."""

import contextlib
import json
import os
import signal
import subprocess

import folio
import grpc
import pytest
from node import BIN, PATIENCE, Node, anonymous_bytes, tokens, wait_until
from streams import PROSE, REQUESTS, alone, asking, kill, refused
from stubs import admin_pb2, admin_pb2_grpc, inference_pb2
from watching import Follower, Refusals, folioctl

WATCHES = 16  # that a manager serves at a time
OF_A_KIND = 1024  # events that it keeps
DRAINED = ("--kind", "session_began", "--kind", "drained")


def in_order(kinds, expected):
    """True if `expected` comes in `kinds` in that order, with others between."""
    rest = iter(kinds)
    return all(kind in rest for kind in expected)


def newest(client):
    """The number of the newest event."""
    return max((event.number for event in client.events(kinds="all") if isinstance(event, folio.Event)), default=0)


@contextlib.contextmanager
def running(stub, name="full"):
    """The id of a sequence that runs. Its stream is over when its worker is."""
    request = inference_pb2.GenerateRequest()
    request.CopyFrom(REQUESTS[name])
    request.max_tokens = 7000
    call = stub.Generate(request)
    started = next(event for event in call if event.HasField("started")).started
    next(event for event in call if event.HasField("chunk"))
    try:
        yield started.sequence_id
    finally:
        call.cancel()


def test_a_killed_worker_is_fenced_gone_and_its_sequence_claimed():
    with Node(pool="512MiB") as node, Follower(node) as one, Follower(node, "--kind", "worker_gone") as other:
        first = node.start_worker("first")
        second = node.start_worker("second")
        expected = alone(second, REQUESTS["sampled"])
        pids = {name: process.pid for name, process in node.workers.items()}
        addresses = [node.worker_address(name) for name in ("first", "second")]
        del first
        with folio.Client(addresses[0], node.manager_address, standby=addresses[1:], resume=60) as client:
            generation = client.generate(
                tokens=PROSE[:200], max_tokens=160, ignore_eos=True, temperature=0.8, top_p=0.9, seed=7, timeout=120,
                label="mine",
            )  # fmt: skip
            for _, _ in zip(range(20), generation, strict=False):
                pass
            sequence = generation.started.sequence_id
            kill(node, "first")
            assert list(generation.result().tokens) == expected.tokens
            claimed = one.wait_for("sequence_claimed")
            gone = other.wait_for("worker_gone")
            numbers = [event["number"] for event in one.events]
            # A stream that does not follow has the same events, with the same numbers.
            again = [event for event in client.events() if event.number <= int(numbers[-1])]
        assert in_order(
            one.kinds(),
            ["pool_created", "worker_attached", "session_began", "worker_attached", "session_began", "worker_fenced",
             "sequences_orphaned", "process_ended", "worker_gone", "sequence_claimed"],
        ), one.kinds()  # fmt: skip
        assert [str(event.number) for event in again] == numbers and [event.kind for event in again] == one.kinds()
        assert sorted(map(int, numbers)) == list(map(int, numbers)) and len(set(numbers)) == len(numbers)
        fenced = one.wait_for("worker_fenced")
        assert fenced["pid"] == pids["first"] and fenced["worker_id"] == gone["worker_id"]
        assert fenced["text"] in {"process ended", "session ended"} and fenced["pages"] > 0
        assert one.wait_for("sequences_orphaned")["sequences"] == 1
        assert one.wait_for("process_ended")["pid"] == pids["first"]
        # Its orphan still holds the pages that it blocked.
        assert gone["pages"] == fenced["pages"] and gone["freed_pages"] == 0
        assert claimed["sequence_id"] == str(sequence) and claimed["label"] == "mine" and claimed["lease_epoch"] == 2
        assert claimed["worker_id"] != fenced["worker_id"]
        assert other.kinds() == ["worker_gone"] and other.events[0] == one.wait_for("worker_gone")
        node.assert_all_free()
        node.assert_alive()


def test_a_stopped_worker_is_in_quarantine_until_it_is_killed():
    flags = ["--kill_fenced_after=8s", "--orphan_ttl=0s"]
    with Node(pool="512MiB", lease="2s", manager_flags=flags) as node, Follower(node) as follower:
        stub = node.start_worker("hangs")
        pid = node.workers["hangs"].pid
        with running(stub):
            before = node.pool().held_pages
            live = json.loads(folioctl(node, "workers", "--output", "json"))["workers"][0]
            assert live["sequences"] == 1 and before <= live["held_pages"] <= node.pool().held_pages and "fence" not in live
            assert int(live["steps_done"]) > 0 and live["lease_remaining_ms"] <= 2000
            leases = folioctl(node, "leases").splitlines()
            assert leases[1].split()[0] == live["worker_id"] and leases[-1].startswith("A lease ends 2.00 s after")
            assert "No pages wait" in folioctl(node, "quarantine")
            os.kill(pid, signal.SIGSTOP)
            try:
                fenced = follower.wait_for("worker_fenced")
                held = node.pool().quarantined_pages
                quarantine = json.loads(folioctl(node, "quarantine", "--output", "json"))["workers"]
                table = folioctl(node, "quarantine").splitlines()
                workers, leases = folioctl(node, "workers"), folioctl(node, "leases")
                gone = follower.wait_for("worker_gone")
            finally:
                os.kill(pid, signal.SIGCONT)
        node.workers.pop("hangs").wait()
        (one,) = quarantine
        assert held > 0 and fenced["pages"] == held == one["fence"]["blocked_pages"] == gone["pages"] == gone["freed_pages"]
        assert one["fence"]["reason"] == fenced["text"] == "lease ran out" and one["processes"][0]["pid"] == pid
        assert 0 < one["fence"]["kill_in_ms"] <= 8000 and one["fence"]["silent_ms"] == one["fence"]["fenced_ms"] + 2000
        assert f" {pid} " in table[1] and f" {held:,} " in table[1] and "lease ran out" in table[1] and " in " in table[1]
        assert "fenced: lease ran out" in workers and leases.startswith("No worker has a lease.")
        kinds = follower.kinds()
        lost = ["worker_fenced", "process_killed", "process_ended", "worker_gone"]
        assert kinds[kinds.index("worker_fenced") :] == lost, kinds
        assert {event.get("pid", pid) for event in follower.events[-4:]} == {pid}
        took = int(follower.wait_for("process_killed")["time_us"]) - int(fenced["time_us"])
        assert 7.9e6 < took < 20e6, "it is killed 8 s after the fence"
        assert "No pages wait" in folioctl(node, "quarantine") and "No worker is attached" in folioctl(node, "workers")
        node.assert_all_free()


def test_refusals_and_waiting():
    with Node(pool="64MiB") as node, Follower(node, "--kind", "all") as follower:
        stub = node.start_worker()
        code, words = refused(stub, asking(prompt=PROSE[:100] * 40))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
        event = follower.wait_for("sequence_refused")
        assert event["code"] == "RESOURCE_EXHAUSTED" and event["text"] in words and "never fits" in words
        assert event["label"] == "full" and "sequence_id" not in event
        # A request that waits for room is one event, however often its worker asks.
        held = asking(prompt=PROSE[:200] * 10)
        held.max_tokens = 850
        call = stub.Generate(held)
        next(event for event in call if event.HasField("chunk"))
        second = asking(prompt=PROSE[:200] * 7)
        second.label, second.max_tokens = "waits", 1000
        waits = stub.Generate(second)
        assert next(waits).prefill.queue_position == 1
        event = follower.wait_for("sequence_waiting")
        for _ in range(60):
            next(call)
        assert event["label"] == "waits" and event["text"].startswith("pool is full for now")
        call.cancel()
        next(event for event in waits if event.HasField("chunk"))
        waits.cancel()
        wait_until(lambda: follower.kinds().count("sequence_closed") == 2, PATIENCE, "both are closed")
        rest = [kind for kind in follower.kinds() if kind.startswith("sequence_") and kind != "sequence_refused"]
        assert rest == ["sequence_opened", "sequence_waiting", "sequence_closed", "sequence_opened", "sequence_closed"]
        assert {one["text"] for one in follower.events if one["kind"].endswith("CLOSED")} == {"cancelled"}
        # By default none of these is shown.
        shown = [json.loads(line)["event"]["kind"] for line in folioctl(node, "events", "--output", "json").splitlines()]
        assert "EVENT_KIND_SEQUENCE_REFUSED" in shown and "EVENT_KIND_SEQUENCE_OPENED" not in shown
        node.assert_all_free()


def test_evictions_add_up_to_what_the_sequence_lost(nothing_lost):
    node = nothing_lost
    request = inference_pb2.GenerateRequest()
    request.CopyFrom(REQUESTS["paged_eviction"])
    with folio.Client(manager=node.manager_address, timeout=60) as client:
        before = newest(client)
        events = list(node.stub.Generate(request, timeout=120))
        sequence = next(event for event in events if event.HasField("started")).started.sequence_id
        # The worker may have closed it before the manager has carried this out.
        wait_until(lambda: not node.sequences(), PATIENCE, "it is closed")
        mine = [event for event in client.events(before, kinds="all") if event.sequence_id == sequence]
    freed = [event.pages for event in mine if event.kind == "pages_evicted"]
    assert mine[0].kind == "sequence_opened" and mine[0].policy == "paged_eviction" and mine[0].tokens == 200
    assert mine[-1].kind == "sequence_closed" and mine[-1].text == "finished"
    assert sum(freed) == events[-1].finished.cache.evicted_pages > 0 and len(freed) == events[-1].finished.cache.plans


def test_a_watcher_that_does_not_read_costs_nothing_and_is_told(tiny_model):
    many = 40_000
    with Node(pool="8MiB", manager_flags=["--kill_fenced_after=0s"]) as node:
        node.start_worker(model=tiny_model)
        with Refusals(node) as refusals:
            refusals.make(5000)
            with folio.Client(manager=node.manager_address) as client:
                after = newest(client)
            request = admin_pb2.WatchEventsRequest(after=after, follow=True, kinds=[admin_pb2.EVENT_KIND_SEQUENCE_REFUSED])
            # gRPC reads ahead for a client that does not, and this makes it stop at 64 KiB instead of some MiB.
            channels = [grpc.insecure_channel(node.manager_address, options=[("grpc.http2.bdp_probe", 0)]) for _ in range(3)]
            watchers = [admin_pb2_grpc.AdminStub(channel).WatchEvents(request) for channel in channels]
            refusals.make(5000)
            memory = anonymous_bytes(node.manager.pid)
            refusals.make(many - 5000)
            assert anonymous_bytes(node.manager.pid) < memory + (4 << 20), "the manager keeps nothing for watchers"
            for channel, watcher in zip(channels, watchers, strict=True):
                seen = lost = last = 0
                for response in watcher:
                    if response.HasField("lost"):
                        lost += response.lost.events
                    else:
                        assert response.event.number > max(last, after)
                        seen, last = seen + 1, response.event.number
                    if last == after + many:
                        break
                channel.close()
                assert seen + lost == many and lost > many // 2 and seen >= OF_A_KIND, (seen, lost)
            # One that asks for what is long gone is told too, and rare events have not been pushed out.
            with folio.Client(manager=node.manager_address) as client:
                first, *rest = client.events(after, kinds=["sequence_refused"])
                assert first == folio.LostEvents(many - OF_A_KIND) and len(rest) == OF_A_KIND
                assert "pool_created" in [event.kind for event in client.events(kinds=["pool_created"])]
        node.assert_all_free()
        node.assert_alive()


def test_watchers_are_bounded_and_hold_nobody_else_up(tiny_model):
    with Node(pool="8MiB") as node:
        stub = node.start_worker(model=tiny_model)
        calls = [node.admin.WatchEvents(admin_pb2.WatchEventsRequest(follow=True)) for _ in range(WATCHES)]
        for call in calls:
            assert next(call).event.kind == admin_pb2.EVENT_KIND_POOL_CREATED
        words = folioctl(node, "events", "--follow", code=6)
        assert f"RESOURCE_EXHAUSTED: {WATCHES} streams of events are open" in words and "end one of them" in words
        request = inference_pb2.GenerateRequest(input=tokens(range(3, 12)), max_tokens=8, ignore_eos=True)
        *_, last = stub.Generate(request, timeout=60)
        assert last.finished.usage.generated_tokens == 8
        node.start_worker("second", model=tiny_model)
        assert folioctl(node, "workers").count(" live ") == 2
        # A client that is gone makes room.
        calls.pop().cancel()
        wait_until(
            lambda: subprocess.run(
                [BIN / "folioctl", "events", "--address", node.manager_address], capture_output=True
            ).returncode == 0,
            PATIENCE, "a place is free",
        )  # fmt: skip
        for call in calls:
            call.cancel()
        node.assert_alive()


@pytest.mark.parametrize("number, code, words", [(signal.SIGTERM, 0, "The manager has ended."), (signal.SIGKILL, 3, "UNAVAILABLE")])
def test_a_manager_that_ends_ends_its_followers(tiny_model, number, code, words):
    with Node(pool="8MiB") as node, Follower(node) as follower, Follower(node, *DRAINED) as other:
        node.start_worker(model=tiny_model)
        for one in (follower, other):
            one.wait_for("session_began")
        node.manager.signal(number)
        node.manager.wait()
        for one in (follower, other):
            ended, said = one.end()
            assert ended == code and words in said, said
        if number == signal.SIGTERM:
            assert follower.kinds()[-2:] == ["draining", "drained"] and other.kinds() == ["session_began", "drained"]
            assert follower.events[-1]["sequences"] == 0
        node.workers.pop("worker").popen.kill()


def test_requests_that_cannot_be(tiny_cpu):
    said = folioctl(tiny_cpu, "events", "--after", "123456789", code=5)
    assert "after: 123456789 is beyond the newest event" in said
    for request, words in (
        (admin_pb2.WatchEventsRequest(kinds=[99]), "kinds[0]: 99 is not a kind of event"),
        (admin_pb2.WatchEventsRequest(kinds=[1, 0]), "kinds[1]: 0 is not a kind of event"),
        (admin_pb2.WatchEventsRequest(after=2**64 - 1, follow=True), "after: 18446744073709551615 is beyond"),
    ):
        with pytest.raises(grpc.RpcError) as failure:
            list(tiny_cpu.admin.WatchEvents(request, timeout=PATIENCE))
        assert failure.value.code() == grpc.StatusCode.INVALID_ARGUMENT and words in failure.value.details()
