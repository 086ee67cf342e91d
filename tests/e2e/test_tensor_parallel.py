"""Workers of several tensor-parallel ranks: they say what one says, and live and die as one."""

import os
import signal
import time

import grpc
import pytest
from node import PATIENCE, Node, cache, tokens, wait_until
from oracle_cases import CASES
from processes import alive, children
from stubs import admin_pb2, inference_pb2
from test_failures import ORPHANLESS, begin, check_next_manager, endless

SHORT = next(case for case in CASES if case.name == "short" and case.policy == "full")
PROSE = next(case for case in CASES if case.name == "prose" and case.policy == "paged_eviction")


def generated(stub):
    request = inference_pb2.GenerateRequest(input=tokens(SHORT.prompt), max_tokens=len(SHORT.tokens), ignore_eos=True)
    return [token for event in stub.Generate(request, timeout=120) for token in event.chunk.tokens]


def scored(stub):
    """A continuation's log-probabilities with an eviction now and then, the same tokens for whoever is asked."""
    request = inference_pb2.ScoreRequest(
        input=tokens(PROSE.prompt),
        continuation=tokens(PROSE.tokens),
        cache=cache("paged_eviction", PROSE.budget),
        report_evictions=True,
    )
    response = stub.Score(request, timeout=120)
    assert len(response.evictions) > 1
    return [token.logprob for token in response.tokens]


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.long)])
def test_ranks_say_what_one_worker_says(float32, ranks):
    with Node(pool="256MiB") as node:
        stub = node.start_worker(compute="float32", flags=[f"--tp={ranks}"])
        assert list(node.pool().layout.rank_kv_heads) == {2: [1, 2], 4: [1, 1, 1, 1]}[ranks]
        assert len(children(node.workers["worker"].pid)) == ranks - 1
        assert generated(stub) == generated(float32.stub) == list(SHORT.tokens)
        # What another order of sums makes of these: tests/model/oracle_executor_test.cc.
        differences = [abs(one - other) for one, other in zip(scored(stub), scored(float32.stub), strict=True)]
        assert max(differences) < 0.5 and sum(differences) / len(differences) < 0.05
        node.assert_all_free()
        node.assert_alive()


@pytest.mark.parametrize("victim", ["leader", "other"])
def test_a_killed_rank_ends_the_worker_and_nothing_else(victim):
    with Node(pool="256MiB", manager_flags=ORPHANLESS) as node:
        calls = [begin(node.start_worker("first", flags=["--tp=3"]), endless())]
        leader = node.workers.pop("first")
        ranks = [leader.pid, *children(leader.pid)]
        assert len(ranks) == 3
        killed = time.monotonic()
        os.kill(ranks[0 if victim == "leader" else 1], signal.SIGKILL)
        with pytest.raises(grpc.RpcError) as failure:
            list(calls[0])
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        assert time.monotonic() - killed < 30, "the client was left waiting"
        assert leader.wait() == (-signal.SIGKILL if victim == "leader" else 1)
        wait_until(lambda: not any(alive(pid) for pid in ranks), PATIENCE, "all ranks have ended")
        node.assert_all_free()
        assert not node.sequences() and not node.pool().workers
        if victim == "other":
            assert f"process {ranks[1]}" in leader.words()
        # Another group works on the same pages.
        assert len(generated(node.start_worker("second", flags=["--tp=3"]))) == len(SHORT.tokens)
        node.assert_all_free()
        node.assert_alive()


def test_an_idle_worker_ends_with_its_rank():
    with Node(pool="256MiB", manager_flags=ORPHANLESS) as node:
        node.start_worker("first", flags=["--tp=2"])
        leader = node.workers.pop("first")
        (rank,) = children(leader.pid)
        os.kill(rank, signal.SIGKILL)
        assert leader.wait() == 1 and f"process {rank}" in leader.words()
        wait_until(lambda: not node.pool().workers, PATIENCE, "the manager knows")


def test_ranks_outlive_a_manager():
    with Node(pool="256MiB") as node:
        stub = node.start_worker(flags=["--tp=2"])
        before = generated(stub)
        ranks = children(node.workers["worker"].pid)
        node.manager.signal(signal.SIGKILL)
        node.manager.wait()
        check_next_manager(node, stub)
        assert generated(stub) == before
        assert children(node.workers["worker"].pid) == ranks


def test_ranks_that_are_started_apart():
    with Node(pool="256MiB") as node:
        apart = ["--tp=2", f"--group={node.path}/group.sock"]
        other = node.launch_worker("other", flags=[*apart, "--rank=1"])
        stub = node.start_worker("leader", flags=apart)
        assert len(generated(stub)) == len(SHORT.tokens)
        leader = node.workers.pop("leader")
        # It is the leader that ends, and the other with it.
        other.signal(signal.SIGTERM)
        assert len(generated(stub)) == len(SHORT.tokens)
        leader.stop()
        assert leader.wait() == 0 and other.wait() == 0
        node.workers.pop("other")
        node.assert_all_free()


def test_ranks_that_do_not_agree():
    with Node(pool="256MiB") as node:
        apart = ["--tp=2", f"--group={node.path}/group.sock"]
        other = node.launch_worker("other", compute="float32", flags=[*apart, "--rank=1"])
        leader = node.launch_worker("leader", flags=apart)
        assert leader.wait(60) == 1 and other.wait(60) == 1
        for process in (leader, other):
            assert "rank 1 has" in process.words() and "float32 by plain kernels" in process.words()
        node.workers.clear()


def test_a_leader_that_ends_early_takes_its_ranks_along():
    with Node(pool="256MiB") as node:
        leader = node.launch_worker("worker", flags=["--tp=3"])
        ranks = wait_until(lambda: len(found := children(leader.pid)) == 2 and found, PATIENCE, "it starts the others")
        leader.signal(signal.SIGTERM)
        assert leader.wait() == 0
        wait_until(lambda: not any(alive(pid) for pid in ranks), PATIENCE, "the others have ended")
        node.workers.pop("worker")


def test_cuts_that_cannot_be(float32):
    """More ranks than heads; and other ranks than the pool was created for."""
    for flags, words in (["--tp=16"], "number of heads: 9"), (["--tp=3", "--attach_timeout=5s"], "rank_kv_heads"):
        worker = float32.launch_worker("cut", flags=flags)
        assert worker.wait(60) == 1
        assert words in worker.words()
        float32.workers.pop("cut")
    assert len(float32.admin.ListPools(admin_pb2.ListPoolsRequest(), timeout=PATIENCE).pools[0].workers) == 1
