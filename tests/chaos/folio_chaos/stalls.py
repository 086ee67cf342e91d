"""The times for which the machine gives this run no processor. A lease that runs out meanwhile is not Folio's fault."""

import os
import pathlib
import threading
import time

PERIOD = 0.05
# Leases and pings of a run bear less than this. A machine that is only slow stays far below it.
STALL = 1.0
# Threads of others for each processor that want to run. With more of them this run has a small part of the machine.
BUSY = 3.0
LOOKS_EVERY = 20  # periods


def running_of(session):
    """How many threads of a session's processes run or want to."""
    count = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int((process / "stat").read_text().rsplit(")", 1)[1].split()[3]) != session:
                continue
            for task in (process / "task").iterdir():
                count += (task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "R"
        except OSError:  # it has ended
            continue
    return count


def running():
    """The same of all processes of the machine."""
    return int(pathlib.Path("/proc/loadavg").read_text().split()[3].split("/")[0])


class Stalls(threading.Thread):
    """Sleeps again and again, and notes by how much it wakes too late, and how many threads of others want to run."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock, self.longest, self.over = threading.Lock(), 0.0, False
        self.looks = []
        self.start()

    def run(self):
        turns = 0
        while not self.over:
            start = time.monotonic()
            time.sleep(PERIOD)
            late = time.monotonic() - start - PERIOD
            turns += 1
            looked = [max(0, running() - running_of(os.getsid(0)))] if turns % LOOKS_EVERY == 0 else []
            with self.lock:
                self.longest = max(self.longest, late)
                self.looks += looked

    def take(self):
        """Since the last call: the longest one in seconds, and the mean number of those threads for each processor."""
        with self.lock:
            longest, self.longest = self.longest, 0.0
            looks, self.looks = self.looks, []
        return longest, sum(looks) / max(1, len(looks)) / os.cpu_count()

    def close(self):
        self.over = True
        self.join()


def why_repeated(stall, others):
    """Why a round counts for nothing in which some bound of time did not hold, or None."""
    if stall > STALL:
        return f"the machine stood still for {stall:.1f} s"
    if others > BUSY:
        return f"others had {others:.1f} threads that wanted each processor"
    return None
