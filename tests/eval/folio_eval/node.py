"""A manager and a worker of our own, as processes on Unix sockets in a temporary directory."""

import ctypes
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import folio

ROOT = pathlib.Path(__file__).resolve().parents[3]
START_SECONDS = 300
STOP_SECONDS = 15
REQUEST_SECONDS = 1800  # what takes longer hangs, and fails its cell


class NodeError(Exception):
    """A daemon is missing, did not start, or has ended."""


def _end_with_parent():
    """In the child: SIGTERM when we are killed, so that nothing is left behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Daemon:
    def __init__(self, binary, arguments, log):
        self.name, self.log = binary.name, log
        if not binary.exists():
            raise NodeError(f"{binary} does not exist: build first, or set FOLIO_BIN or --bin")
        with open(log, "wb") as out:
            # A session of its own: Ctrl-C is for us, and we end the daemons in order.
            self.popen = subprocess.Popen(
                [binary, *arguments], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                start_new_session=True, preexec_fn=_end_with_parent,
            )  # fmt: skip

    def check(self):
        """Raises NodeError once it has ended."""
        if self.popen.poll() is not None:
            words = self.log.read_text(errors="replace").strip().splitlines()[-5:]
            raise NodeError(f"{self.name} ended with {self.popen.returncode}: " + "\n  ".join(["", *words]))

    def stop(self):
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


class Node:
    """`with Node(model) as node:` has `node.client`. The daemons end with the block, whatever happens."""

    def __init__(self, model, binaries=None, pool=None, threads=0, worker_flags=()):
        if not model or not os.path.exists(model):
            raise NodeError(f"no model at {model!r}: give --model or FOLIO_MODEL")
        self.binaries = pathlib.Path(binaries or os.environ.get("FOLIO_BIN") or ROOT / "build/bin").resolve()
        self._directory = tempfile.TemporaryDirectory(prefix="folio-eval.")
        self._path = pathlib.Path(self._directory.name)
        self._daemons = []
        addresses = f"unix:{self._path}/worker.sock", f"unix:{self._path}/manager.sock"
        self.client = folio.Client(*addresses, timeout=REQUEST_SECONDS)
        try:
            self._start("folio-manager", [f"--listen={self.client.manager_address}"]
                        + ([f"--pool_bytes={pool}"] if pool else []))  # fmt: skip
            self._start("folio-worker", [
                f"--listen={self.client.address}", f"--manager={self.client.manager_address}",
                # All that is recorded is of weights in bfloat16. A later flag wins.
                f"--model={model}", f"--threads={threads}", "--weights=bfloat16", *worker_flags,
            ])  # fmt: skip
            self._wait()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _start(self, name, arguments):
        self._daemons.append(Daemon(self.binaries / name, arguments, self._path / f"{name}.log"))

    def _wait(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.client.model(timeout=30)
                return
            except folio.FolioError as error:
                self.check()
                if time.monotonic() > deadline:
                    raise NodeError(f"the worker does not serve after {START_SECONDS} s: {error}") from error
                time.sleep(0.05)

    def check(self):
        """Raises NodeError when a daemon has ended."""
        for daemon in self._daemons:
            daemon.check()

    def close(self):
        # The worker first: it closes its sequences while the manager is there.
        self.client.close()
        for daemon in reversed(self._daemons):
            daemon.stop()
        self._directory.cleanup()


class Elsewhere:
    """Running processes of somebody else, in the place of a Node."""

    def __init__(self, address, manager=None):
        self.client = folio.Client(address, manager, timeout=REQUEST_SECONDS)
        try:
            self.client.model(timeout=10)
        except folio.FolioError as error:
            self.client.close()
            raise NodeError(str(error)) from error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def check(self):
        """Whether they run is not ours to say: a request tells."""
