"""Journals that are torn, that are damaged, and that find no room."""

import resource
import time

from folio_chaos import journals
from folio_chaos.faults.fault import LATE
from folio_chaos.faults.managers import LosesManager, OfManager
from node import wait_until

CONTINUES = "continues where the manager before it ended"
DAMAGED = "the journal is damaged, so all sequences are computed again"
FAILED = "the journal failed and is removed"
BEGINS_AGAIN = "the journal begins again"


class TornJournal(LosesManager):
    """A manager dies while it writes an entry, of which nobody has heard. Nothing is lost."""

    kind = "torn journal"

    def lose(self):
        self.kill()
        journals.tear(self.node.journals()[-1], self.chance)
        self.until_log(self.node.manager, CONTINUES, self.node.start_manager, LATE)
        line = [line for line in self.node.manager.words().splitlines() if CONTINUES in line][-1]
        assert "torn_bytes=" in line and "torn_bytes=0" not in line, line


class DamagedJournal(OfManager):
    """The last entries of a dead manager's journal are damaged, so that clients have heard what the next one does not know."""

    kind = "damaged journal"
    loses_sessions = True
    damages_journal = True

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.flips = chance.random() < 0.7
        self.target += ", a bit" if self.flips else ", the last entry"

    def inject(self):
        self.world.count(self.node)
        self.node.kill_manager()
        path = self.node.journals()[-1]
        (journals.flip if self.flips else journals.cut)(path, self.chance)
        # A manager may die between a write and the reply. Then the last entry is one that nobody has heard of.
        missed = self.flips or path.stat().st_size < journals.acknowledged(path)
        self.until_log(self.node.manager, DAMAGED if missed else CONTINUES, self.node.start_manager, LATE)


class FullDisk(LosesManager):
    """No write to the journal succeeds. The manager continues, and when there is room its journal is whole again: it may then be
    killed. One that is killed before leaves nothing, as it has said."""

    kind = "full disk"
    ROOM = 100  # bytes of a file

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.loses_sequences = chance.random() < 0.3
        self.target += ", killed meanwhile" if self.loses_sequences else ", killed later"

    def inject(self):
        # Those that are watched are to lose nothing.
        (self.lose if self.loses_sequences else super().inject)()

    def lose(self):
        manager = self.node.manager
        soft, hard = resource.prlimit(manager.pid, resource.RLIMIT_FSIZE)

        def fill():
            resource.prlimit(manager.pid, resource.RLIMIT_FSIZE, (self.ROOM, hard))

        self.until_log(manager, FAILED, fill, LATE)
        wait_until(lambda: not self.node.journals(), LATE, "the old record is gone")
        time.sleep(self.chance.uniform(0.5, 1.5))
        assert self.node.pool().workers and manager.running(), "the manager answers"
        if not self.loses_sequences:
            self.until_log(
                manager, BEGINS_AGAIN, lambda: resource.prlimit(manager.pid, resource.RLIMIT_FSIZE, (soft, hard)), LATE
            )
            wait_until(lambda: any(map(journals.is_whole, self.node.journals())), LATE, "the journal is whole again")
        self.kill()
        self.node.start_manager()

    def settle(self):
        if self.loses_sequences:
            self.node.forget_ids()


KINDS = [TornJournal, DamagedJournal, FullDisk]
