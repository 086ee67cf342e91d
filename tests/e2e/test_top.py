"""folioctl top in a terminal, against a real manager."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

import pytest
from node import BIN, PATIENCE, wait_until
from stubs import inference_pb2


class Screen:
    """folioctl in a terminal of its own, and what it drew last. It knows the few sequences that folioctl writes."""

    def __init__(self, arguments, rows=24, columns=80):
        self.rows, self.columns = rows, columns
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(arguments[0], arguments, {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        self.resize(rows, columns)
        self.text, self.frames, self.status = "", "", None

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.1):
        with contextlib.suppress(OSError):
            while select.select([self.terminal], [], [], seconds)[0]:
                data = os.read(self.terminal, 65536)
                if not data:
                    break
                self.frames += data.decode("utf-8", "replace")
        last = self.frames.rsplit("\x1b[H", 1)
        if len(last) == 2 and "\x1b[J" in last[1]:
            self.text = last[1].split("\x1b[J")[0]
        elif self.frames.count("\x1b[H") > 1:
            self.text = self.frames.rsplit("\x1b[H", 2)[1].split("\x1b[J")[0]
        for colour in ("\x1b[K", "\x1b[1m", "\x1b[7m", "\x1b[0m"):
            self.text = self.text.replace(colour, "")
        return self.text

    def lines(self):
        # The terminal adds a carriage return to each line break.
        return [line.rstrip("\r") for line in self.read().split("\n")]

    def shows(self, words):
        wait_until(lambda: words in self.read(), PATIENCE, f"the screen shows {words!r}:\n{self.text}")

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def end(self):
        """Waits for the program, and returns its exit code or the negative number of its signal."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, "folioctl does not end"

    def restored(self):
        """The alternate screen was left and the cursor is back."""
        return self.frames.rstrip().endswith("\x1b[?7h\x1b[?25h\x1b[?1049l")


@contextlib.contextmanager
def top(node, *flags, **size):
    screen = Screen([str(BIN / "folioctl"), "top", "--address", node.manager_address, "--interval", "100ms", *flags], **size)
    try:
        yield screen
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if screen.status is None:
                os.kill(screen.pid, signal.SIGKILL)
                os.waitpid(screen.pid, 0)
        os.close(screen.terminal)


@contextlib.contextmanager
def running(node, *labels):
    calls = []
    for label in labels:
        request = inference_pb2.GenerateRequest(label=label, max_tokens=6000, ignore_eos=True)
        request.input.text = "Count: 1, 2, 3,"
        request.cache.policy.paged_eviction.SetInParent()
        request.cache.budget_tokens = 64
        calls.append(node.stub.Generate(request))
    try:
        for call in calls:
            next(event for event in call if event.HasField("chunk"))
        yield
    finally:
        for call in calls:
            call.cancel()


def test_shows_what_runs_and_opens_a_sequence(nothing_lost):
    with running(nothing_lost, "first", "second"), top(nothing_lost) as screen:
        screen.shows('"second"')
        screen.shows("sorted by: slowest")
        lines = screen.lines()
        assert len(lines) == 24 and all(len(line) <= 80 for line in lines)
        assert any(line.startswith("per second: ") for line in lines)
        screen.type("/first\r")
        screen.shows("filter: first")
        wait_until(lambda: '"second"' not in screen.read(), PATIENCE, "the filter hides the second one")
        screen.type("\r")
        screen.shows("back to the list")
        screen.shows("paged_eviction, budget 64")
        screen.type("\x1b")
        screen.shows("sorted by")
        screen.resize(40, 120)
        os.kill(screen.pid, signal.SIGWINCH)
        wait_until(lambda: len(screen.lines()) == 40, PATIENCE, "the frame grows with the terminal")
        screen.type("q")
        assert screen.end() == 0
        assert screen.restored()


@pytest.mark.parametrize("how", ["ctrl-c", "term", "hangup", "interrupt"])
def test_gives_the_terminal_back(nothing_lost, how):
    with top(nothing_lost) as screen:
        before = termios.tcgetattr(screen.terminal)
        screen.shows("sorted by")
        during = termios.tcgetattr(screen.terminal)
        assert not during[3] & termios.ICANON
        if how == "ctrl-c":
            screen.type("\x03")
        else:
            numbers = {"term": signal.SIGTERM, "hangup": signal.SIGHUP, "interrupt": signal.SIGINT}
            os.kill(screen.pid, numbers[how])
        code = screen.end()
        assert code == {"ctrl-c": 0, "interrupt": 0, "term": -signal.SIGTERM, "hangup": -signal.SIGHUP}[how]
        assert screen.restored(), repr(screen.frames[-80:])
        with contextlib.suppress(termios.error):  # the terminal's other end may be gone
            after = termios.tcgetattr(screen.terminal)
            assert after[3] == before[3] | (after[3] & ~before[3]) or after[3] & termios.ICANON


def test_needs_a_terminal_unless_once(nothing_lost, folioctl):
    with running(nothing_lost, "once"):
        text = folioctl("top", "--once", "--interval", "200ms")
    assert '"once"' in text and "per second: " in text
    folioctl("top", code=2)
