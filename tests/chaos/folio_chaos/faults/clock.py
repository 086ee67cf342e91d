"""The time of day of all daemons is set forward or back."""

import time

from folio_chaos.bounds import LEASE
from folio_chaos.faults.fault import Fault

STEPS = (-3600, -600, -60, 15, 600, 3600, 86400)  # seconds


class StepClock(Fault):
    kind = "step clock"

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.seconds = chance.choice(STEPS)
        self.target = f"all daemons by {self.seconds} s"

    def inject(self):
        self.world.clock.step(self.seconds)
        # A lease that counts by the time of day would end within this time.
        time.sleep(LEASE / 2)


KINDS = [StepClock]
