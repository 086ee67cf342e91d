"""Daemons whose stderr is a small pipe, which a test may leave unread."""

import fcntl
import os
import select
import subprocess
import threading

from metrics import Metrics
from node import BIN, Node, Process

SMALLEST_PIPE = 4096


def start_piped(name, arguments, environment=None, **more):
    """The daemon's process, whose stderr is a pipe that takes SMALLEST_PIPE bytes unread. `more` is for Popen."""
    popen = subprocess.Popen(
        [BIN / name, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})}, **more,
    )  # fmt: skip
    fcntl.fcntl(popen.stderr, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
    return popen


class Piped(Process):
    """A daemon whose log is read until `neglect`. What it writes later stays in the pipe."""

    def __init__(self, name, arguments, log, environment=None):
        self.name, self.log, self.text = name, log, b""
        self.popen = start_piped(name, arguments, environment)
        self.pid = self.popen.pid
        self.pipe = self.popen.stderr.fileno()
        self.enough = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while not self.enough.is_set():
            if not select.select([self.pipe], [], [], 0.05)[0]:
                continue
            more = os.read(self.pipe, 1 << 16)
            if not more:
                return
            self.text += more

    def neglect(self):
        self.enough.set()
        self.reader.join()

    def words(self):
        return self.text.decode(errors="replace")

    def dropped(self):
        return Metrics(self)("folio:log_lines_dropped_total")


class PipedNode(Node):
    process = Piped
