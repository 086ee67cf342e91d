"""The time of day is set forward and back under running daemons, as by NTP: leases and orphans do not notice."""

import os
import signal
import time

import pytest
from node import PATIENCE, Node, tokens, wait_until
from step_clock import StepClock, build_shim
from streams import Stream, go_on, start_and_kill
from stubs import inference_pb2


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def node(shim, tmp_path, tiny_model):
    clock = StepClock(shim, tmp_path / "clock")
    with Node(pool="32MiB", lease="3s", environment=clock.environment) as node:
        node.clock = clock
        node.start = lambda name: node.start_worker(name, model=tiny_model)
        node.stubs = {name: node.start(name) for name in ("one", "two")}
        yield node


def asking(most):
    return inference_pb2.GenerateRequest(input=tokens(range(3, 40)), max_tokens=most, ignore_eos=True)


def answers(stub):
    stream = Stream()
    stream.follow(stub.Generate(asking(5), timeout=PATIENCE))
    return len(stream.tokens) == 5


def log_line(process, words):
    """The last line of a log that has these words, once there is one."""
    return wait_until(
        lambda: next((line for line in reversed(process.words().splitlines()) if words in line), None),
        PATIENCE, f"{process.name} says {words}",
    )  # fmt: skip


def test_steps_forward_end_no_lease_and_no_orphan(node):
    (orphan,) = start_and_kill(node, node.start("third"), "third", [asking(1900)])
    wait_until(lambda: node.pool().orphans, PATIENCE, "the third worker's sequence is an orphan")
    before = node.manager.words().count("worker fenced")
    for _ in range(5):
        node.clock.step(15)
        # Long enough for the manager to look for leases that have ended: it does so every 0.3 s.
        time.sleep(0.7)
        assert len(node.pool().workers) == 2
    assert node.manager.words().count("worker fenced") == before
    assert all(answers(stub) for stub in node.stubs.values())
    # More than its --orphan_ttl has passed by the time of day.
    node.clock.step(3600)
    time.sleep(0.7)
    go_on(node.stubs["two"], orphan)
    assert len(orphan.tokens) == 1900
    node.assert_all_free()
    node.assert_alive()
    # The processes did see the steps.
    node.start("fourth")
    assert node.clock.wrong_by(log_line(node.manager, "session began")) > 3600


def test_a_hung_worker_is_fenced_after_a_step_back(node):
    assert all(answers(stub) for stub in node.stubs.values())
    # A worker that stands still before it has closed its sequence would leave an orphan.
    node.assert_all_free()
    node.clock.step(-600)
    os.kill(node.workers["one"].pid, signal.SIGSTOP)
    try:
        line = log_line(node.manager, "worker fenced")
        assert "lease ran out" in line
        # The process did see the step.
        assert -660 < node.clock.wrong_by(line) < -540
        # The other one sends heartbeats as before, and keeps its lease.
        assert len(node.pool().workers) == 1
        wait_until(lambda: node.pool().workers[0].lease_remaining_ms < 2500, PATIENCE, "the lease runs down")
        wait_until(lambda: node.pool().workers[0].lease_remaining_ms > 2500, PATIENCE, "the lease is renewed")
        assert answers(node.stubs["two"])
    finally:
        os.kill(node.workers["one"].pid, signal.SIGKILL)
    node.workers.pop("one").wait()
    node.assert_all_free()


def test_the_next_manager_is_found_after_a_step_back(node):
    """The timers of gRPC, with which a channel connects again, do not wait for the old time of day to come back."""
    assert all(answers(stub) for stub in node.stubs.values())
    node.clock.step(-3600)
    time.sleep(2)  # timers that were set before the step should have run by now
    os.kill(node.manager.pid, signal.SIGKILL)
    node.manager.popen.wait(PATIENCE)
    for worker in node.workers.values():
        log_line(worker, "trying again")
    node.start_manager()
    for worker in node.workers.values():
        wait_until(lambda worker=worker: worker.words().count("attached to the manager") == 2, PATIENCE,
                   f"{worker.name} attaches to the next manager: {worker.words()[-3000:]}")  # fmt: skip
    wait_until(lambda: all(answers(stub) for stub in node.stubs.values()), PATIENCE, "both workers answer")
    node.assert_all_free()
