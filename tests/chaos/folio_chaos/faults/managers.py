"""Managers that stand still, and managers that are lost and followed by the next one."""

import os
import signal
import time

from folio_chaos.faults.fault import BRIEFLY, LATE, Fault
from folio_chaos.witnesses import Witnesses
from processes import stop

LOST = "lost the session with the manager"
NEW_MEMORY = "the pool has new memory"


class OfManager(Fault):
    """A fault of a manager."""

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.target = f"the manager of {self.node.name}"


class StopManagerBriefly(OfManager):
    """SIGSTOP and SIGCONT of a manager within the lease."""

    kind = "stop manager briefly"

    def inject(self):
        stop(self.node.manager.pid)
        time.sleep(BRIEFLY)
        os.kill(self.node.manager.pid, signal.SIGCONT)


class StopManagerPastLease(OfManager):
    """SIGSTOP of a manager until all its workers have given it up, and SIGCONT."""

    kind = "stop manager past the lease"
    loses_sessions = True

    def inject(self):
        manager, workers = self.node.manager.pid, [self.node.workers[name] for name in self.node.names]

        def stop_and_wait(others):
            if not others:
                return stop(manager)
            return self.until_log(others[0], LOST, lambda: stop_and_wait(others[1:]), LATE)

        try:
            stop_and_wait(workers)
        finally:
            os.kill(manager, signal.SIGCONT)


class LosesManager(OfManager):
    """A fault after which the next manager continues. Requests that are watched through it get the tokens that they had before,
    and no token of their prompts is computed again while a worker keeps the memory."""

    loses_sessions = True
    keeps_memory = True

    def inject(self):
        with Witnesses(self.world, self.node, self.keeps_memory) as witnesses:
            witnesses.await_tokens()
            before = self.node.manager.words().count(NEW_MEMORY)
            self.lose()
        if self.keeps_memory and self.node.manager.words().count(NEW_MEMORY) > before:
            self.world.fail(witnesses.wrong("its worker lives, and the manager has taken new memory"))

    def lose(self):
        """Ends the manager and starts the next one."""
        raise NotImplementedError

    def kill(self):
        self.world.count(self.node)
        self.node.kill_manager()


class KillManager(LosesManager):
    """SIGKILL of a manager, which is started again."""

    kind = "kill manager"

    def lose(self):
        self.kill()
        self.node.start_manager()


class KillManagerTwice(LosesManager):
    """SIGKILL of a manager, and of the next one while it recovers."""

    kind = "kill manager twice"
    RECOVERS = 0.6  # seconds

    def lose(self):
        self.kill()
        self.node.start_manager()
        time.sleep(self.chance.uniform(0, self.RECOVERS))
        self.node.kill_manager()
        self.node.start_manager()


class KillManagerAndWorker(LosesManager):
    """SIGKILL of a manager and a worker together. Another worker keeps the memory, if there is one."""

    kind = "kill manager and worker"

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.target += f" and {self.worker}"
        self.keeps_memory = len(self.node.names) > 1

    def lose(self):
        self.world.count(self.node)

        def kill_both():
            os.kill(self.process.pid, signal.SIGKILL)
            self.node.kill_manager()

        code = self.until_end(kill_both, LATE)
        assert code == -signal.SIGKILL, code
        time.sleep(self.chance.uniform(0, 0.5))
        self.node.start_manager()


class EndManager(LosesManager):
    """SIGTERM of a manager under load, and the start of the next one. It waits for those that cannot outlive it."""

    kind = "end manager"
    awaits_reports = True

    def lose(self):
        self.world.count(self.node)
        code = self.node.end_manager()
        assert code == 0, code
        self.node.start_manager()


KINDS = [StopManagerBriefly, StopManagerPastLease, KillManager, KillManagerTwice, KillManagerAndWorker, EndManager]
