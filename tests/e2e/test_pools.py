"""One manager serves two models at a time, each in a pool of its own with a share of the memory."""

import concurrent.futures
import json
import os
import subprocess

import pytest
from metrics import ENDPOINT, Metrics
from node import BIN, PATIENCE, Node, cache, side_by_side, tokens, wait_until, write_model
from streams import Stream, go_on, kill, whole
from stubs import admin_pb2, inference_pb2
from test_restart import Kept

MODELS = {"chat": "llama", "embed": "qwen2"}
POOLS = "--pools=chat:75%,embed:25%"
LONG = inference_pb2.GenerateRequest(input=tokens(range(3, 103)), max_tokens=60_000, ignore_eos=True)


def asking(most=40, start=3, **settings):
    return inference_pb2.GenerateRequest(input=tokens(range(start, start + 100)), max_tokens=most, ignore_eos=True, **settings)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two tiny models whose layouts differ, by the name of their pool."""
    directory = tmp_path_factory.mktemp("models")
    return {pool: write_model(directory / family, family, 1 << 16) for pool, family in MODELS.items()}


def join(node, models, pool, name=None, flags=()):
    return node.start_worker(name or pool, model=models[pool], flags=[f"--pool={pool}", *flags])


def by_name(node):
    return {pool.name: pool for pool in node.pools()}


def all_free(node):
    def free():
        return all(pool.free_pages == pool.total_pages and not pool.sequences for pool in node.pools())

    wait_until(free, PATIENCE, "all pages of all pools are free")


def folioctl(node, *arguments):
    done = subprocess.run(
        [BIN / "folioctl", *arguments, "--address", node.manager_address],
        capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "300"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_models_at_a_time(models):
    swap = "--host_swap_bytes=4MiB"
    with Node(pool="8MiB", manager_flags=[POOLS, swap, *ENDPOINT]) as node:
        stubs = {pool: join(node, models, pool) for pool in MODELS}
        pools = by_name(node)
        assert {pool.name: pool.layout.model for pool in pools.values()} != {} and pools["chat"].layout != pools["embed"].layout
        for name, share in (("chat", 0.75), ("embed", 0.25)):
            pool = pools[name]
            of_all = share * (8 << 20)
            assert of_all - pool.page_bytes < pool.pool_bytes <= of_all
            assert 0 < pool.total_swap_slots * pool.page_bytes <= share * (4 << 20)
            assert pool.free_pages + pool.held_pages + pool.quarantined_pages == pool.total_pages
        assert [pools[name].pool_id for name in ("chat", "embed")] == [1, 2]

        # A budget holds in each, and answers do not depend on the company.
        request = asking(200, cache=cache("streaming_llm", 64))
        before = {pool: whole(stub, request) for pool, stub in stubs.items()}
        both = side_by_side(*[lambda stub=stub: whole(stub, request) for stub in stubs.values()])
        assert [stream.tokens for stream in both] == [stream.tokens for stream in before.values()]
        assert before["chat"].tokens != before["embed"].tokens
        assert all(stream.finished.cache.resident_tokens <= 64 + 16 for stream in both)

        # Ids are those of one manager.
        opened = [event for event in node.events("sequence_opened")]
        ids = sorted(event.sequence_id for event in opened)
        assert ids == list(range(ids[0], ids[0] + 4))
        assert {event.worker_id: event.pool for event in opened} == {"w1": "chat", "w2": "embed"}

        metrics = Metrics(node.manager)
        for name, pool in by_name(node).items():
            pages = [
                metrics("folio:pool_pages", pool=name, state=state)
                for state in ("free", "held", "quarantined")
            ]
            assert sum(pages) == pool.total_pages
            assert metrics("folio:attached_workers", pool=name) == 1
        all_free(node)
        node.assert_alive()


def test_operators_see_pools_apart(models):
    with Node(pool="512MiB", manager_flags=[POOLS]) as node:
        stubs = {pool: join(node, models, pool) for pool in MODELS}
        calls = {pool: stub.Generate(LONG, timeout=120) for pool, stub in stubs.items()}
        started = {pool: next(event for event in call if event.HasField("started")) for pool, call in calls.items()}
        ids = {pool: event.started.sequence_id for pool, event in started.items()}
        assert {one.sequence_id: one.pool for one in node.sequences()} == {id: pool for pool, id in ids.items()}
        (only,) = node.admin.ListSequences(admin_pb2.ListSequencesRequest(pool="embed")).sequences
        assert only.sequence_id == ids["embed"] and node.sequence(ids["embed"]).sequence.pool == "embed"
        (worker,) = node.admin.ListWorkers(admin_pb2.ListWorkersRequest(pool="chat")).workers
        assert worker.pool == "chat"
        (tenant,) = node.admin.ListTenants(admin_pb2.ListTenantsRequest(pool="chat")).tenants
        assert (tenant.pool, tenant.sequences) == ("chat", 1)

        assert [line.split()[0] for line in folioctl(node, "pools").splitlines()[1:3]] == ["chat", "embed"]
        wide = folioctl(node, "sequences", "--output", "wide")
        assert " pool " in wide and "embed" in wide
        runs = json.loads(folioctl(node, "pages", "--pool", "embed", "--output", "json"))["runs"]
        assert sum(run["pages"] for run in runs) == by_name(node)["embed"].total_pages

        # An order for a sequence finds its pool.
        folioctl(node, "close", str(ids["embed"]))
        wait_until(lambda: [one.pool for one in node.sequences()] == ["chat"], PATIENCE, "the sequence has ended")
        assert [event.pool for event in node.events("close_ordered")] == ["embed"]
        for call in calls.values():
            call.cancel()
        all_free(node)


def test_a_worker_without_a_pool_of_the_manager_is_refused_with_the_names(models):
    with Node(pool="8MiB", manager_flags=[POOLS]) as node:
        for name, flags in (("none", []), ("wrong", ["--pool=chatt"])):
            worker = node.launch_worker(name, model=models["chat"], flags=flags)
            assert worker.wait() == 1 and "chat, embed" in worker.words(), worker.words()
            node.workers.pop(name)
        refused = node.events("attach_refused")
        assert [event.code for event in refused] == ["INVALID_ARGUMENT", "NOT_FOUND"]
        # A pool is of the first model that comes, and of that one alone.
        join(node, models, "chat")
        other = node.launch_worker("other", model=models["embed"], flags=["--pool=chat"])
        assert other.wait() == 1 and "pool chat" in other.words() and "fingerprint" in other.words()
        node.workers.pop("other")
        assert whole(join(node, models, "embed"), asking()).finished


def test_a_full_pool_holds_the_other_one_back_not_at_all(models):
    with Node(pool="8MiB", manager_flags=[POOLS]) as node:
        stubs = {pool: join(node, models, pool) for pool in MODELS}
        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            calls = [stubs["embed"].Generate(asking(1000, start=3 + i), timeout=120) for i in range(16)]
            streams = [Stream() for _ in calls]
            ends = [threads.submit(stream.follow, call) for stream, call in zip(streams, calls, strict=True)]
            wait_until(lambda: node.events("sequence_waiting"), PATIENCE, "the pool is full")
            while not all(end.done() for end in ends):
                assert whole(stubs["chat"], asking()).finished.cache is not None
            for end in ends:
                end.result()
        waited = node.events("sequence_waiting", "sequence_parked")
        assert {event.pool for event in waited} == {"embed"}
        all_free(node)


def test_a_killed_worker_leaves_the_other_pool_alone(models):
    with Node(pool="512MiB", manager_flags=[POOLS, "--orphan_ttl=1h"]) as node:
        stubs = {pool: join(node, models, pool) for pool in MODELS}
        expected = whole(stubs["chat"], asking(3000)).tokens
        embed, chat = Stream(), Stream()
        held = stubs["embed"].Generate(LONG, timeout=120)  # or the call ends with the object
        embed.follow(held, stop=lambda stream: len(stream.tokens) >= 5)
        call = stubs["chat"].Generate(asking(3000), timeout=120)
        chat.follow(call, stop=lambda stream: len(stream.tokens) >= 5)
        kill(node, "embed")
        wait_until(lambda: by_name(node)["embed"].orphans == 1, PATIENCE, "its sequence waits")
        chat.follow(call)
        assert chat.tokens == expected
        assert not by_name(node)["chat"].orphans and by_name(node)["chat"].quarantined_pages == 0
        # The next worker of that pool continues it, and one of the other pool knows nothing of it.
        second = join(node, models, "embed", "second")
        refused = stubs["chat"].Generate(embed.resume(), timeout=PATIENCE)
        assert refused.code().name == "NOT_FOUND", refused.details()
        stream = second.Generate(embed.resume(), timeout=120)
        assert next(stream).started.sequence_id == embed.started.sequence_id
        stream.cancel()
        all_free(node)


def test_streams_of_both_models_outlive_the_manager(models):
    with Kept(pool="256MiB", manager_flags=[POOLS]) as node:
        stubs = {pool: join(node, models, pool) for pool in MODELS}
        request = asking(4_000)
        expected = {pool: whole(stub, request).tokens for pool, stub in stubs.items()}
        streams = {pool: Stream() for pool in stubs}
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            calls = {pool: stub.Generate(request, timeout=120) for pool, stub in stubs.items()}
            ends = [threads.submit(streams[pool].follow, calls[pool]) for pool in stubs]
            wait_until(lambda: all(len(one.tokens) > 20 for one in streams.values()), PATIENCE, "both models answer")
            node.kill_the_manager()
            for end in ends:
                end.result()
        assert all(stream.finished is None for stream in streams.values())
        assert (node.state / "pools" / "chat").is_dir() and (node.state / "pools" / "embed").is_dir()
        node.start_manager()
        for stream in streams.values():
            stream.prefilled = 0
        side_by_side(*[lambda pool=pool: go_on(stubs[pool], streams[pool]) for pool in stubs])
        assert {pool: stream.tokens for pool, stream in streams.items()} == expected
        assert not any(stream.prefilled for stream in streams.values()), "a token of a prompt was computed again"
        node.manager.says("the pool's memory is back", times=2)

        # Ids continue behind those of both pools.
        known = {stream.started.sequence_id for stream in streams.values()}
        new = [whole(stub, asking()).started.sequence_id for stub in stubs.values()]
        assert min(new) > max(known) and len({*new}) == 2
        assert len({worker.worker_id for pool in node.pools() for worker in pool.workers}) == 2
        all_free(node)
        node.assert_alive()
