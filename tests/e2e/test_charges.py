"""Which control group pays for the pages of the pool: the claims of docs/kubernetes.md, on real daemons.

It needs root and a machine with the memory controller of cgroup v1, whose groups can be made beside those in use.
"""

import contextlib
import os
import pathlib
import signal

import pytest
from node import PATIENCE, Node, cache, wait_until
from test_memory import long_prompt, run

CONTROLLER = pathlib.Path("/sys/fs/cgroup/memory")
MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    not (CONTROLLER / "cgroup.procs").exists() or not os.access(CONTROLLER, os.W_OK) or os.geteuid() != 0,
    reason="control groups need root and the memory controller of cgroup v1",
)


class Group:
    def __init__(self, path):
        self.path = path
        path.mkdir()

    def add(self, process):
        (self.path / "cgroup.procs").write_text(str(process.pid))

    def shared_memory(self):
        """Bytes of memfds and the like that this group pays, with the groups below it."""
        with open(self.path / "memory.stat") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("total_shmem "))

    def remove(self):
        wait_until(lambda: not (self.path / "cgroup.procs").read_text(), PATIENCE, f"no process is in {self.path}")
        self.path.rmdir()


@pytest.fixture
def groups():
    """A group like that of a node's pods, and a way to make the groups of pods in it."""
    with contextlib.ExitStack() as stack:
        node = Group(CONTROLLER / f"folio-test-{os.getpid()}")
        (node.path / "memory.use_hierarchy").write_text("1")

        def remove_all():
            for path in node.path.iterdir():
                if path.is_dir():
                    path.rmdir()
            node.path.rmdir()

        stack.callback(remove_all)
        yield node, lambda name: Group(node.path / name)


def test_pages_are_charged_to_the_worker_that_fills_them(groups):
    parent, make = groups
    manager, first, second = make("manager"), make("first"), make("second")
    # The pool has little more than one run needs, so that the second run meets the pages of the first.
    with Node(pool="40MiB") as node:
        manager.add(node.manager)
        stub = node.start_worker("first")
        first.add(node.workers["first"])
        run(stub, long_prompt(1500), cache("full"), 2)
        layout, pool = node.pool().layout, node.pool()
        filled = 1500 // layout.page_tokens * layout.num_layers * pool.page_bytes
        assert filled > 30 * MIB  # most of the pool
        assert first.shared_memory() >= filled
        assert manager.shared_memory() < 4 * MIB  # it reads scores
        node.assert_all_free()  # the manager has heard that the sequence ended

        # The pages stay when their worker and its group are gone. The parent still pays for them.
        node.workers["first"].signal(signal.SIGKILL)
        node.workers.pop("first").wait()
        assert first.shared_memory() >= filled
        first.remove()
        assert parent.shared_memory() >= filled

        # The next worker uses them again without a charge of its own.
        stub = node.start_worker("second")
        second.add(node.workers["second"])
        run(stub, long_prompt(1500), cache("full"), 2)
        assert second.shared_memory() < filled / 4
        assert filled <= parent.shared_memory() < 45 * MIB
    wait_until(lambda: parent.shared_memory() < MIB, PATIENCE, "the pages end with the manager and its workers")
    for group in (manager, second):
        group.remove()
