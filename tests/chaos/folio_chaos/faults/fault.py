"""The base of all faults, and what they may do with the world that they are injected into."""

import contextlib
import faulthandler
import os
import random
import signal

from node import wait_until
from processes import children, stop

BRIEFLY = 1.0  # seconds, less than a lease by far
LATE = 30  # seconds more than a timeout, for a busy machine


class Fault:
    """One fault. It draws its target and its parameters from `chance`, so that a seed repeats it."""

    kind = ""
    loses_sessions = False  # a worker is lost, or its session with the manager
    awaits_reports = False  # but none before the answers that report evictions have ended
    loses_sequences = False  # all those of its node
    damages_journal = False  # what its last entries say is lost
    cuts_clients = False  # connections of clients end

    def __init__(self, world, chance: random.Random):
        self.world, self.chance = world, chance
        self.node, self.worker = chance.choice([(node, name) for node in world.nodes for name in node.names])
        self.target = self.worker

    def inject(self):
        """Does it under load, and returns when it is over, or when the rest can be seen only in calm."""
        raise NotImplementedError

    def settle(self):
        """Looks at the rest while no client of the crowd asks."""

    @property
    def process(self):
        return self.node.workers[self.worker]

    def ranks(self):
        """The processes of the worker, its leader first."""
        return [self.process.pid, *children(self.process.pid)]

    def stop_all(self, processes):
        for pid in processes:
            stop(pid)

    def cont_all(self, processes):
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def holds_sequences(self):
        """Whether the worker runs sequences that have pages. Parked ones have none."""
        ids = {worker.worker_id for worker in self.node.pool().workers if worker.pid == self.process.pid}
        return any(one.worker_id in ids and one.held_pages for one in self.node.sequences())

    def until_log(self, process, words, action, timeout):
        """Does something, and returns when the log of a process has these words once more."""
        before = process.words().count(words)
        action()
        wait_until(lambda: process.words().count(words) > before, timeout, f"{process.name} says {words}")

    def until_end(self, action, timeout):
        """Does something that ends the worker, and gives its exit code."""
        before = len(self.node.ended(self.worker))
        self.node.expect_end(self.worker)
        action()
        try:
            return wait_until(
                lambda: self.node.ended(self.worker)[before:], timeout, f"worker {self.worker} ends"
            )[0]
        except AssertionError:
            # Says where the supervisor is, which should have seen the end.
            faulthandler.dump_traceback()
            raise
