"""A sequence outlives its worker: another one goes on with it, token for token."""

import concurrent.futures
import os
import signal
import subprocess
import threading

import grpc
import pytest
from node import BIN, PATIENCE, Node, wait_until
from processes import children
from streams import LONG, MOST, REQUESTS, Stream, all_alone, alone, asking, go_on, kill, refused, start_and_kill, whole


@pytest.fixture
def node():
    # However long the streams before them take.
    with Node(pool="512MiB", manager_flags=["--orphan_ttl=1h"]) as node:
        yield node
        node.assert_all_free()
        node.assert_alive()


def test_another_worker_goes_on_token_for_token(node):
    first, second = node.start_worker("first"), node.start_worker("second")
    expected = all_alone(REQUESTS.values())
    streams = start_and_kill(node, first, "first", list(REQUESTS.values()))
    for name, stream, unbroken in zip(REQUESTS, streams, expected, strict=True):
        before = len(stream.tokens)
        stream.prefilled = 0
        go_on(second, stream)
        assert stream.tokens == unbroken.tokens, f"{name}, resumed after {before} tokens"
        assert stream.text == unbroken.text
        assert stream.prefilled == 0, "a token of the prompt was computed again"
        assert stream.finished.reason == unbroken.finished.reason
        assert stream.finished.usage.generated_tokens == MOST
        assert stream.finished.cache.resident_tokens == unbroken.finished.cache.resident_tokens
    node.manager.says("orphan claimed", times=len(REQUESTS))
    assert node.manager.words().count("orphan claimed") == len(REQUESTS)
    assert "sequences orphaned" in node.manager.words()


def test_pipelined_sequences_go_on_within_their_budget(node):
    first, second = node.start_worker("first"), node.start_worker("second")
    (stream,) = start_and_kill(node, first, "first", [asking("paged_eviction", 64, mode="pipelined")])
    go_on(second, stream)
    assert len(stream.tokens) == MOST
    assert stream.finished.cache.peak_resident_tokens <= 64 + 2 * 16


def test_a_prompt_goes_on_from_its_last_chunk(node):
    request = asking("paged_eviction", 128, prompt=LONG)
    # Many chunks, of which most are left when the worker is killed.
    flags = ["--prefill_chunk=32"]
    first, second = node.start_worker("first", flags=flags), node.start_worker("second", flags=flags)
    expected = whole(second, request)
    chunks = -(-len(LONG) // 32)
    assert expected.prefilled == chunks > 32
    stream = Stream()
    call = first.Generate(request, timeout=120)
    stream.follow(call, stop=lambda stream: stream.prefilled == 3)
    kill(node, "first")
    stream.follow(call)
    assert not stream.tokens
    done, stream.prefilled = stream.prefilled, 0
    go_on(second, stream)
    assert stream.tokens == expected.tokens
    # The manager may not have heard of the last one.
    assert 0 < stream.prefilled <= chunks - done + 1


def test_a_hung_worker_keeps_its_sequences_until_it_has_gone():
    with Node(pool="256MiB", lease="2s") as node:
        second = node.start_worker("second")
        expected = alone(second, REQUESTS["full"])
        first = node.start_worker("first")
        stream = Stream()
        call = first.Generate(REQUESTS["full"], timeout=120)
        stream.follow(call, stop=lambda stream: len(stream.tokens) >= 5)
        assert refused(second, stream.resume())[0] == grpc.StatusCode.UNAVAILABLE, "its worker lives"
        os.kill(node.workers["first"].pid, signal.SIGSTOP)
        try:
            wait_until(lambda: node.pool().orphans, PATIENCE, "its lease runs out")
            (shown,) = node.sequences()
            assert shown.state == 4 and 0 < shown.orphan_ms <= 60_000
            # It might write once more: nobody else gets its pages.
            held = node.pool().held_pages
            code, words = refused(second, stream.resume())
            assert code == grpc.StatusCode.UNAVAILABLE and "could still write" in words
            assert len(whole(second, REQUESTS["paged_eviction"]).tokens) == MOST
            wait_until(lambda: node.pool().held_pages == held, PATIENCE, "the other one's pages are back")
            assert node.sequence(shown.sequence_id).sequence.state == 4
            table = subprocess.run(
                [BIN / "folioctl", "sequences", "--address", node.manager_address],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            assert "orphaned" in table.stdout
        finally:
            os.kill(node.workers["first"].pid, signal.SIGKILL)
        node.workers.pop("first").wait()
        call.cancel()
        # What it sent before it hung, and nobody read, comes from the record.
        go_on(second, stream)
        assert stream.tokens == expected.tokens and stream.text == expected.text
        node.assert_all_free()


def test_orphans_end_when_nobody_comes():
    with Node(pool="256MiB", manager_flags=["--orphan_ttl=1s"]) as node:
        first, second = node.start_worker("first"), node.start_worker("second")
        (stream,) = start_and_kill(node, first, "first", [REQUESTS["full"]])
        node.assert_all_free()
        code, words = refused(second, stream.resume())
        assert code == grpc.StatusCode.NOT_FOUND and "was not resumed within 1s" in words
        node.manager.says("no worker claimed it in time")


def test_others_wait_while_a_client_may_come_back():
    with Node(pool="32MiB", manager_flags=["--admission=reserve"]) as node:
        first, second = node.start_worker("first"), node.start_worker("second")
        expected = alone(first, REQUESTS["full"])
        (stream,) = start_and_kill(node, first, "first", [REQUESTS["full"]])
        call = second.Generate(asking(prompt=LONG[:1100]), timeout=120)
        assert next(call).prefill.queue_position == 1 and node.pool().orphans == 1
        go_on(second, stream)
        assert stream.tokens == expected.tokens and stream.text == expected.text
        large = Stream()
        large.follow(call)
        assert len(large.tokens) == MOST
        node.assert_all_free()


def test_orphans_make_room_when_their_grace_is_over():
    with Node(pool="32MiB", manager_flags=["--orphan_grace=1s"]) as node:
        first, second = node.start_worker("first"), node.start_worker("second")
        (stream,) = start_and_kill(node, first, "first", [REQUESTS["full"]])
        node.manager.says("process ended")
        # Nearly all of the pool.
        assert len(whole(second, asking(prompt=LONG[:1100])).tokens) == MOST
        assert refused(second, stream.resume())[0] == grpc.StatusCode.NOT_FOUND
        node.manager.says("others need its pages")
        node.assert_all_free()


def test_one_gets_it_and_only_with_the_token(node):
    first = node.start_worker("first")
    others = [node.start_worker(name) for name in ("second", "third")]
    expected = alone(first, REQUESTS["sampled"])
    (stream,) = start_and_kill(node, first, "first", [REQUESTS["sampled"]])
    node.manager.says("process ended")
    assert refused(others[0], stream.resume(resume_token=bytes(16)))[0] == grpc.StatusCode.PERMISSION_DENIED
    code, words = refused(others[0], stream.resume(resume_token=b"short"))
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "resume.resume_token" in words
    mixed = stream.resume()
    mixed.max_tokens = 5
    code, words = refused(others[0], mixed)
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "resume goes alone" in words

    start, lost, outcomes = threading.Barrier(2), threading.Event(), [None, None]
    workers = [node.workers[name] for name in ("second", "third")]

    def race(at):
        mine = Stream()
        start.wait()
        try:
            for event in others[at].Generate(stream.resume(), timeout=120):
                mine.take(event)
                if lost.is_set():
                    continue
                # It stands still, so that the other one does not come after its end.
                workers[at].signal(signal.SIGSTOP)
                lost.wait(5)
                workers[at].signal(signal.SIGCONT)
            outcomes[at] = mine
        except grpc.RpcError as error:
            outcomes[at] = error
            lost.set()

    racing = [threading.Thread(target=race, args=(at,)) for at in range(2)]
    for one in racing:
        one.start()
    for one in racing:
        one.join()
    (winner,) = [one for one in outcomes if isinstance(one, Stream)]
    (loser,) = [one for one in outcomes if isinstance(one, grpc.RpcError)]
    assert stream.tokens + winner.tokens == expected.tokens
    assert loser.code() == grpc.StatusCode.UNAVAILABLE and "whose lease is live" in loser.details()


@pytest.mark.long
def test_another_group_of_ranks_goes_on(node):
    first, second = (node.start_worker(name, flags=["--tp=2"]) for name in ("first", "second"))
    requests = [asking("paged_eviction", 64), asking(temperature=0.8, seed=7), asking("query_diff", 96)]
    for request in requests:
        request.max_tokens = 70
    expected = [whole(first, request) for request in requests]
    leader = node.workers["first"]
    (rank,) = children(leader.pid)
    streams = [Stream() for _ in requests]
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as threads:
        calls = [first.Generate(request, timeout=120) for request in requests]
        following = [threads.submit(stream.follow, call) for stream, call in zip(streams, calls, strict=True)]
        wait_until(lambda: all(len(stream.tokens) >= 5 for stream in streams), 120, "all streams have begun")
        os.kill(rank, signal.SIGKILL)
        for one in following:
            one.result()
    assert leader.wait() == 1
    node.workers.pop("first")
    for stream, unbroken in zip(streams, expected, strict=True):
        assert stream.finished is None
        go_on(second, stream)
        assert stream.tokens == unbroken.tokens
