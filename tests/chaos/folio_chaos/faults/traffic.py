"""Messages between workers, their manager and their clients that are late, in their order."""

import time

from folio_chaos.faults.fault import Fault

SIDES = ("manager", "clients")


class Late(Fault):
    """A fault of what passes between a worker and its manager, or its clients. Nothing is lost by it."""

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.side = chance.choice(SIDES)
        self.target = f"between {self.worker} and its {self.side}"


class DelayMessages(Late):
    """Each piece of a message waits for a moment of its own."""

    kind = "delay messages"
    MOST, LASTS = 0.3, 3.0  # seconds

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.most = chance.uniform(0.05, self.MOST)
        self.target += f", up to {self.most * 1000:.0f} ms"

    def inject(self):
        try:
            self.node.delay(self.worker, self.side, self.most)
            time.sleep(self.LASTS)
        finally:
            self.node.delay(self.worker, self.side, 0)


class StallOneDirection(Late):
    """Nothing passes in one direction for seconds, within the lease and the time that a slow client has."""

    kind = "stall one direction"
    LASTS = {"manager": 2.0, "clients": 5.0}  # seconds

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.from_client = chance.random() < 0.5
        side, worker = ("the worker", "its manager") if self.side == "manager" else ("clients", "the worker")
        self.target += f", from {side if self.from_client else worker}"

    def inject(self):
        try:
            self.node.stall(self.worker, self.side, self.from_client)
            time.sleep(self.chance.uniform(0.5, 1) * self.LASTS[self.side])
        finally:
            self.node.stall(self.worker, self.side, None)


KINDS = [DelayMessages, StallOneDirection]
