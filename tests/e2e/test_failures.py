"""Processes that die, drain or do not belong: pages come back and the rest goes on."""

import datetime
import os
import signal
import threading
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from node import PATIENCE, Node, Process, cache, tokens, wait_until
from oracle_cases import CASES
from stubs import admin_pb2, inference_pb2

PROSE = next(case.prompt for case in CASES if case.name == "prose")


def endless(label="endless", policy="streaming_llm", budget=128):
    return inference_pb2.GenerateRequest(
        input=tokens(PROSE), cache=cache(policy, budget, "pipelined"), max_tokens=7000, ignore_eos=True, label=label
    )


def short():
    return inference_pb2.GenerateRequest(input=tokens(PROSE[:30]), max_tokens=12, ignore_eos=True)


def text_of(call):
    return "".join(event.chunk.text for event in call)


def begin(stub, request):
    """A call that has given its first token."""
    call = stub.Generate(request)
    next(event for event in call if event.HasField("chunk"))
    return call


def health(node, address, process):
    stub = health_pb2_grpc.HealthStub(node.connect(address, process))
    return stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE).status


# What outlives its worker is in test_orphans.py.
ORPHANLESS = ["--orphan_ttl=0s"]


@pytest.fixture
def node():
    with Node(pool="256MiB", manager_flags=ORPHANLESS) as node:
        yield node


def test_a_killed_worker_gives_back_everything_and_another_takes_over(node):
    stub = node.start_worker("first")
    before = text_of(stub.Generate(short(), timeout=60))
    calls = [begin(stub, endless(f"call {number}")) for number in range(3)]
    assert node.pool().held_pages > 0 and len(node.sequences()) == 3
    os.kill(node.workers["first"].pid, signal.SIGKILL)
    for call in calls:
        with pytest.raises(grpc.RpcError) as failure:
            list(call)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
    node.assert_all_free()
    assert not node.sequences() and not node.pool().workers
    node.workers.pop("first").wait()

    second = node.start_worker("second")
    assert text_of(second.Generate(short(), timeout=60)) == before
    assert [worker.pid for worker in node.pool().workers] == [node.workers["second"].pid]
    node.assert_all_free()


def test_a_worker_that_hangs_is_fenced_and_its_pages_wait_for_its_end():
    with Node(pool="256MiB", lease="2s", manager_flags=[*ORPHANLESS, "--kill_fenced_after=0s"]) as node:
        stub = node.start_worker()
        call = begin(stub, endless())
        worker = node.workers["worker"]
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            # It might write once more: nobody else gets its pages.
            pool = wait_until(lambda: (p := node.pool()).quarantined_pages and p, PATIENCE, "its pages are set aside")
            assert pool.held_pages == 0 and not node.sequences()
            assert pool.free_pages + pool.quarantined_pages == pool.total_pages
            time.sleep(1)
            assert node.pool().quarantined_pages == pool.quarantined_pages
        finally:
            os.kill(worker.pid, signal.SIGKILL)
        node.workers.pop("worker").wait()
        node.assert_all_free()
        call.cancel()


def test_two_workers_share_a_pool(node):
    one, two = node.start_worker("one"), node.start_worker("two")
    expected = text_of(one.Generate(short(), timeout=60))
    calls = [begin(one, endless("on one")), begin(two, endless("on two"))]
    assert {sequence.label for sequence in node.sequences()} == {"on one", "on two"}
    assert len({sequence.worker_id for sequence in node.sequences()}) == 2
    os.kill(node.workers["one"].pid, signal.SIGKILL)
    node.workers.pop("one").wait()
    wait_until(lambda: len(node.sequences()) == 1, 20, "the killed worker's sequence is gone")
    assert next(calls[1]) is not None
    calls[1].cancel()
    assert text_of(two.Generate(short(), timeout=60)) == expected
    node.assert_all_free()


def test_a_worker_with_other_pages_is_refused(node):
    node.start_worker()
    other = node.launch_worker("other", flags=["--page_tokens=32", "--attach_timeout=5s"])
    assert other.wait(60) == 1
    assert "page_tokens" in other.words() and "32" in other.words()
    node.workers.pop("other")
    assert len(node.pool().workers) == 1
    node.assert_alive()


def test_a_worker_waits_for_its_manager_and_drains_on_sigterm(node):
    stub = node.start_worker(flags=["--drain_timeout=60s"])
    result = {}

    def finish():
        result["events"] = list(
            stub.Generate(inference_pb2.GenerateRequest(input=tokens(PROSE), max_tokens=150, ignore_eos=True), timeout=120)
        )

    long = begin(stub, endless())  # the worker drains until it is cancelled
    running = threading.Thread(target=finish)
    running.start()
    wait_until(lambda: len(node.sequences()) == 2, PATIENCE, "both sequences run")
    worker = node.workers["worker"]
    worker.signal(signal.SIGTERM)
    wait_until(
        lambda: health(node, node.worker_address(), worker) == health_pb2.HealthCheckResponse.NOT_SERVING,
        PATIENCE,
        "health says NOT_SERVING",
    )
    with pytest.raises(grpc.RpcError) as refused:
        list(stub.Generate(short(), timeout=PATIENCE))
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "shutting down" in refused.value.details()
    running.join()
    assert result["events"][-1].finished.usage.generated_tokens == 150
    long.cancel()
    assert worker.wait(60) == 0
    node.workers.pop("worker")
    node.assert_all_free()


def written_at(process, words):
    """The time of the last line of a log that has these words."""
    line = next(line for line in reversed(process.words().splitlines()) if words in line)
    return datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00"))


def test_a_worker_that_is_started_before_its_manager_attaches_as_soon_as_that_listens(node, tiny_model):
    # gRPC looks at a connection that no thread waits for every 5 seconds, so one attempt may be lucky.
    for number in range(3):
        node.manager.signal(signal.SIGKILL)
        node.manager.wait()
        worker = node.launch_worker(f"worker{number}", model=tiny_model)
        wait_until(lambda worker=worker: "trying again" in worker.words(), 60, "it has met no manager")
        node.start_manager()
        node.serving(f"worker{number}", worker)
        took = written_at(worker, "attached to the manager") - written_at(node.manager, "listening address")
        assert took.total_seconds() < 2
        worker.stop()
        node.workers.pop(f"worker{number}")


def check_next_manager(node, stub):
    """Without a manager the worker says so, and it serves again when there is another."""
    worker = node.workers["worker"]
    wait_until(
        lambda: health(node, node.worker_address(), worker) == health_pb2.HealthCheckResponse.NOT_SERVING,
        PATIENCE,
        "health says NOT_SERVING",
    )
    with pytest.raises(grpc.RpcError) as refused:
        list(stub.Generate(short(), timeout=PATIENCE))
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE and "try again" in refused.value.details()
    node.start_manager()
    wait_until(
        lambda: health(node, node.worker_address(), worker) == health_pb2.HealthCheckResponse.SERVING,
        PATIENCE,
        "health says SERVING again",
    )
    assert len(list(stub.Generate(short(), timeout=60))) > 10
    node.assert_all_free()


def test_a_manager_drains_on_sigterm():
    with Node(pool="256MiB", manager_flags=["--drain_timeout=60s"]) as node:
        stub = node.start_worker()
        calls = [
            stub.Generate(inference_pb2.GenerateRequest(input=tokens(PROSE), max_tokens=150, ignore_eos=True), timeout=120)
            for _ in range(2)
        ]
        for call in calls:
            next(event for event in call if event.HasField("chunk"))
        long = begin(stub, endless())  # the manager drains until it is cancelled
        node.manager.signal(signal.SIGTERM)
        wait_until(
            lambda: health(node, node.manager_address, node.manager) == health_pb2.HealthCheckResponse.NOT_SERVING,
            PATIENCE,
            "health says NOT_SERVING",
        )
        with pytest.raises(grpc.RpcError) as refused:
            list(stub.Generate(short(), timeout=PATIENCE))
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "draining" in refused.value.details()
        for call in calls:
            *_, last = call
            assert last.finished.usage.generated_tokens == 150
        long.cancel()
        assert node.manager.wait() == 0
        assert not list(node.path.glob("manager.sock")) and not list(node.path.glob("export.sock"))
        check_next_manager(node, stub)


def test_a_killed_manager_ends_running_calls():
    with Node(pool="256MiB") as node:
        stub = node.start_worker()
        call = begin(stub, endless())
        node.manager.signal(signal.SIGKILL)
        with pytest.raises(grpc.RpcError) as failure:
            list(call)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "the worker cannot continue" in failure.value.details()
        node.manager.wait()
        check_next_manager(node, stub)


def test_a_second_manager_does_not_take_the_sockets(node):
    node.start_worker()
    second = Process(
        "folio-manager",
        [f"--listen={node.manager_address}", f"--export_socket={node.path}/export2.sock", "--pool_bytes=64MiB"],
        node.path / "second.log",
    )
    assert second.wait() == 1
    assert "manager.sock" in second.words()
    assert node.admin.ListPools(admin_pb2.ListPoolsRequest(), timeout=PATIENCE).pools[0].workers
