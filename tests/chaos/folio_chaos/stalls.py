"""The times for which the machine gives this run no processor. A lease that runs out meanwhile is not Folio's fault."""

import threading
import time

PERIOD = 0.05
# Leases and pings of a run bear less than this. A machine that is only slow stays far below it.
STALL = 1.0


class Stalls(threading.Thread):
    """Sleeps again and again, and notes by how much it wakes too late."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock, self.longest, self.over = threading.Lock(), 0.0, False
        self.start()

    def run(self):
        while not self.over:
            start = time.monotonic()
            time.sleep(PERIOD)
            late = time.monotonic() - start - PERIOD
            with self.lock:
                self.longest = max(self.longest, late)

    def take(self):
        """The longest one since the last call, in seconds."""
        with self.lock:
            longest, self.longest = self.longest, 0.0
        return longest

    def close(self):
        self.over = True
        self.join()
