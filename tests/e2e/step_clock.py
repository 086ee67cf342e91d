"""A time of day of their own for some processes, which steps as an administrator or NTP would step the machine's."""

import datetime
import os
import pathlib
import struct
import subprocess

SHIM = pathlib.Path(__file__).with_name("step_clock.c")


def build_shim(directory):
    """The library for LD_PRELOAD, made in that directory."""
    library = directory / "step_clock.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SHIM, "-ldl"], check=True)
    return library


class StepClock:
    """The time of day of the processes that get its environment. It begins as the real one."""

    def __init__(self, shim, path):
        self.path, self.added = path, 0
        self.step(0)
        self.environment = {"LD_PRELOAD": str(shim), "FOLIO_TEST_CLOCK": str(path)}

    def step(self, seconds):
        self.added += seconds
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("q", self.added * 10**9))

    def wrong_by(self, line):
        """How far ahead of the real time of day a line of a log is, in seconds, if it was written just now."""
        written = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00"))
        return (written - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
