"""Workers and ranks that are killed, that stand still for a moment, and that hang."""

import os
import signal
import time

from folio_chaos.bounds import KILL_FENCED_AFTER, LEASE, STEP_TIMEOUT
from folio_chaos.faults.fault import BRIEFLY, LATE, Fault
from node import wait_until
from processes import children, stop

FENCED = "worker fenced"


class KillWorker(Fault):
    """SIGKILL of a worker, of the leader if it has several ranks."""

    kind = "kill worker"
    loses_sessions = True

    def inject(self):
        code = self.until_end(lambda: os.kill(self.process.pid, signal.SIGKILL), LATE)
        assert code == -signal.SIGKILL, code


class OfRanks(Fault):
    """A fault of a worker of several ranks."""

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.node = next(node for node in world.nodes if node.ranks > 1)
        self.worker = self.target = chance.choice(self.node.names)


class KillRank(OfRanks):
    """SIGKILL of a rank that does not lead. Its worker ends."""

    kind = "kill rank"
    loses_sessions = True

    def inject(self):
        code = self.until_end(lambda: os.kill(children(self.process.pid)[0], signal.SIGKILL), LATE)
        assert code == 1, code


class StopRankBriefly(OfRanks):
    """SIGSTOP and SIGCONT of a rank that does not lead."""

    kind = "stop rank briefly"

    def inject(self):
        (rank,) = children(self.process.pid)
        stop(rank)
        time.sleep(BRIEFLY)
        os.kill(rank, signal.SIGCONT)


class HangRank(OfRanks):
    """SIGSTOP of a rank that does not lead. The leader's step loop stands still, and the worker ends itself."""

    kind = "hang rank"
    loses_sessions = True

    def inject(self):
        code = self.until_end(lambda: stop(children(self.process.pid)[0]), STEP_TIMEOUT + LATE)
        assert code == 3, code


class StopWorkerBriefly(Fault):
    """SIGSTOP and SIGCONT of all processes of a worker within its lease."""

    kind = "stop worker briefly"

    def inject(self):
        ranks = self.ranks()
        self.stop_all(ranks)
        time.sleep(BRIEFLY)
        self.cont_all(ranks)


class StopWorkerPastLease(Fault):
    """SIGSTOP of all processes of a worker until its lease has run out, and SIGCONT before it is killed."""

    kind = "stop worker past its lease"
    loses_sessions = True

    def inject(self):
        ranks = self.ranks()
        try:
            self.until_log(self.node.manager, FENCED, lambda: self.stop_all(ranks), LEASE + LATE)
        finally:
            self.cont_all(ranks)


class HangWorker(Fault):
    """SIGSTOP of all processes of a worker until the manager kills them. It does so because they block pages."""

    kind = "hang worker"
    loses_sessions = True

    def inject(self):
        ranks = self.ranks()

        def stop_at_work():
            self.stop_all(ranks)
            if not self.holds_sequences():
                self.cont_all(ranks)
                return False
            return True

        try:
            action = lambda: wait_until(stop_at_work, LATE, "the worker is stopped at work")  # noqa: E731
            code = self.until_end(action, LEASE + KILL_FENCED_AFTER + LATE)
            assert code == -signal.SIGKILL, code
        except AssertionError:
            self.cont_all(ranks)
            raise


KINDS = [KillWorker, KillRank, StopRankBriefly, HangRank, StopWorkerBriefly, StopWorkerPastLease, HangWorker]
