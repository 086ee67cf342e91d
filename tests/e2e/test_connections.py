"""More connections than a daemon may have, and fewer descriptors than it needs: it answers afterwards, and often meanwhile."""

import os
import resource
import socket
import subprocess

import pytest
from node import BIN, Node, Process, tokens, wait_until
from stubs import inference_pb2

DAEMONS = ["manager", "worker"]
FEW = 64
# Above it the limit is not raised.
MOST = 1 << 20


class LimitedNode(Node):
    """A node whose daemons start with limits of descriptors, given as arguments of `ulimit`."""

    def __init__(self, limits, **options):
        self.limits = limits
        super().__init__(**options)

    def limited(self, program):
        script = self.path / program
        lines = ["#!/bin/sh", *(f"ulimit {limit}" for limit in self.limits), f'exec "{BIN / program}" "$@"']
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o755)
        return script

    def start_manager(self):
        self.worker_binary = self.limited("folio-worker")
        self.manager = Process(
            self.limited("folio-manager"), self.manager_arguments, self.path / "manager.log", self.environment
        )


def serve(node, tiny_model):
    with node:
        node.stub = node.start_worker(model=tiny_model)
        yield node
        node.assert_alive()
        node.assert_all_free()


@pytest.fixture
def narrow(tiny_model):
    yield from serve(LimitedNode([f"-n {FEW}"], pool="8MiB"), tiny_model)


@pytest.fixture
def pair(tiny_model):
    yield from serve(Node(pool="8MiB"), tiny_model)


def process(node, daemon):
    return node.manager if daemon == "manager" else node.workers["worker"]


def address(node, daemon):
    return node.manager_address if daemon == "manager" else node.worker_address()


def connect(node, daemon):
    """A connection that says nothing."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    client.connect(address(node, daemon).removeprefix("unix:"))
    client.setblocking(False)  # with a timeout, recv would wait in spite of MSG_DONTWAIT
    return client


def is_closed(client):
    try:
        while client.recv(4096, socket.MSG_DONTWAIT):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def answers(node, daemon):
    """Whether it serves a new client."""
    command = [BIN / "folioctl", "health", "--address", address(node, daemon)]
    return subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def generate(node):
    request = inference_pb2.GenerateRequest(input=tokens(range(3, 20)), max_tokens=4, ignore_eos=True)
    events = list(node.stub.Generate(request, timeout=60))
    assert events[-1].HasField("finished")


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_burst_above_the_limit_of_descriptors(narrow, daemon):
    assert answers(narrow, daemon)
    burst = [connect(narrow, daemon) for _ in range(100)]
    # Half of the descriptors are for connections.
    wait_until(lambda: sum(map(is_closed, burst)) >= 100 - FEW // 2, 60, "those above the limit are closed at once")
    generate(narrow)  # connections that were there before are as good as ever
    for client in burst:
        client.close()
    wait_until(lambda: answers(narrow, daemon), 60, "a new client is served")
    assert process(narrow, daemon).words().count("a connection was refused") == 1


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_daemon_that_ran_out_of_descriptors_accepts_again(pair, daemon):
    pid, words = process(pair, daemon).pid, process(pair, daemon).words
    used = max(int(number) for number in os.listdir(f"/proc/{pid}/fd"))
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 5, hard))
    burst = [connect(pair, daemon) for _ in range(100)]
    wait_until(lambda: "cannot accept connections" in words(), 60, "there is no descriptor")
    generate(pair)
    for client in burst:
        client.close()
    wait_until(lambda: answers(pair, daemon), 60, "a new client is served")
    wait_until(lambda: "connections are accepted again" in words(), 60, "the log says that it is over")
    assert words().count("cannot accept connections") == 1
    assert words().count("connections are accepted again") == 1


def test_connections_that_say_nothing_hinder_no_call(pair):
    mute = [connect(pair, daemon) for daemon in DAEMONS for _ in range(300)]
    generate(pair)
    assert answers(pair, "manager") and answers(pair, "worker")
    assert not any("a connection was refused" in process(pair, daemon).words() for daemon in DAEMONS)
    for client in mute:
        client.close()


def test_daemons_raise_the_limit_of_descriptors(tiny_model):
    with LimitedNode(["-S -n 256"], pool="8MiB") as node:
        node.start_worker(model=tiny_model)
        for daemon in DAEMONS:
            soft, hard = resource.prlimit(process(node, daemon).pid, resource.RLIMIT_NOFILE)
            assert hard > 256, "this machine allows too few descriptors for the test"
            assert soft == min(hard, MOST)
            most = min(8192, soft - min(512, soft // 2))
            assert f"descriptors={soft} max_connections={most}" in process(node, daemon).words()
