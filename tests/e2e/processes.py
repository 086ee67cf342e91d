"""What /proc says of processes, and ways to stop one of them or one of its threads."""

import contextlib
import ctypes
import os
import pathlib
import signal
import threading

from node import PATIENCE, wait_until


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(pid):
    """Of its threads, the living ones."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if alive(child)]


def threads(pid):
    """How many threads a process has."""
    return len(os.listdir(f"/proc/{pid}/task"))


def stop(pid):
    """Stops a process, and returns when none of its threads runs any more. Until then one may still act."""
    os.kill(pid, signal.SIGSTOP)

    def stands_still():
        try:
            stats = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
        except OSError:  # a thread ended meanwhile
            return False
        return {stat.rsplit(")", 1)[1].split()[0] for stat in stats} == {"T"}

    wait_until(stands_still, PATIENCE, "the process stands still")


@contextlib.contextmanager
def stopped(pid):
    """Stops a process for the length of the block."""
    try:
        stop(pid)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_SEIZE, _INTERRUPT, _DETACH, _ANY_THREAD = 0x4206, 0x4207, 17, 0x40000000  # of Linux


class Frozen:
    """Inside the block a thread of a child process stands still, as it would in a call that never returns. The other
    threads run. `name` is the thread's; of several the first one counts, because threads inherit their name."""

    def __init__(self, pid, name):
        tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
        self.thread = min(int(task.name) for task in tasks if (task / "comm").read_text().strip() == name)
        self.holds, self.lets_go = threading.Event(), threading.Event()
        self.holder = threading.Thread(target=self.hold)

    def trace(self, request):
        if _LIBC.ptrace(request, self.thread, None, None) < 0:
            raise OSError(ctypes.get_errno(), f"ptrace({request:#x}) of thread {self.thread}")

    def hold(self):
        """All calls of ptrace come from one thread."""
        self.trace(_SEIZE)
        self.trace(_INTERRUPT)
        os.waitpid(self.thread, _ANY_THREAD)
        self.holds.set()
        while not self.lets_go.wait(0.02):
            # While nobody waits for its end, the process is not over either.
            if os.waitpid(self.thread, _ANY_THREAD | os.WNOHANG)[0]:
                return
        self.trace(_DETACH)

    def __enter__(self):
        self.holder.start()
        assert self.holds.wait(PATIENCE), f"thread {self.thread} does not stop"
        return self

    def __exit__(self, *_):
        self.lets_go.set()
        self.holder.join()
