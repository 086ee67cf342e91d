"""A manager and its workers as real processes, and short ways to ask them things."""

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import grpc
from stubs import ROOT, admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc, types_pb2

BIN = pathlib.Path(os.environ.get("FOLIO_BIN") or ROOT / "build/bin").resolve()
MODEL = os.environ.get("FOLIO_MODEL", "")
# Seconds for what takes milliseconds on an idle machine. Builds beside the tests may make it a hundred times slower.
PATIENCE = 60


def wait_until(condition, timeout, what):
    """What `condition` gives once it is true; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.02)


def cache(policy="full", budget=0, mode="synchronous", sink=None, recent=None, stride=None):
    """Cache options; with a stride, the prompt is compacted while it is prefilled."""
    options = types_pb2.CacheOptions(budget_tokens=budget)
    getattr(options.policy, policy).SetInParent()
    options.eviction_mode = types_pb2.EvictionMode.Value("EVICTION_MODE_" + mode.upper())
    if sink is not None:
        options.sink_tokens = sink
    if recent is not None:
        options.recent_tokens = recent
    if stride is not None:
        options.compaction = types_pb2.COMPACTION_STREAMED
        options.compaction_stride_tokens = stride
    return options


def tokens(ids):
    return inference_pb2.Input(tokens=inference_pb2.TokenIds(ids=ids))


def side_by_side(*calls):
    """Runs the calls in a thread each and gives their results; a failure of one is the caller's."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(call) for call in calls]]


class Process:
    """A daemon of ours with its log in a file."""

    def __init__(self, name, arguments, log, environment=None):
        self.name, self.log = name, log
        with open(log, "w") as out:
            self.popen = subprocess.Popen(
                [BIN / name, *arguments],
                stdout=out, stderr=out, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})},
            )  # fmt: skip
        self.pid = self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def words(self):
        """Its log, without a line that is being written."""
        running = self.running()
        text = pathlib.Path(self.log).read_text(errors="replace")
        return text[: text.rfind("\n") + 1] if running else text

    def says(self, words, times=1):
        """Waits until its log has these words. A daemon writes its log in a thread of its own, so that a reply may come first."""
        wait_until(lambda: self.words().count(words) >= times, PATIENCE, f"{self.name} says {words}")

    def wait(self, timeout=PATIENCE):
        return self.popen.wait(timeout)

    def signal(self, number):
        self.popen.send_signal(number)

    def stop(self, timeout=PATIENCE):
        if self.running():
            self.signal(signal.SIGTERM)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.wait()
                raise AssertionError(f"{self.name} did not end within {timeout} s of SIGTERM:\n{self.words()}") from None


class Node:
    """One manager; workers join with start_worker. Everything ends with the `with` block."""

    worker_binary = "folio-worker"
    process = Process

    def __init__(self, pool="1GiB", lease="10s", manager_flags=(), environment=None):
        self.environment = environment or {}
        self.directory = tempfile.TemporaryDirectory(prefix="folio-e2e.")
        self.path = pathlib.Path(self.directory.name)
        self.manager_address = f"unix:{self.path}/manager.sock"
        self.workers, self.channels = {}, []
        self.manager_arguments = [
            f"--listen={self.manager_address}",
            f"--export_socket={self.path}/export.sock",
            f"--pool_bytes={pool}",
            *([f"--lease_ttl={lease}"] if lease else []),
            *manager_flags,
        ]
        self.start_manager()
        self.admin = admin_pb2_grpc.AdminStub(self.connect(self.manager_address, self.manager))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Workers first: they close their sequences while the manager is there.
        try:
            for process in [*reversed(self.workers.values()), self.manager]:
                process.stop()
        finally:
            for process in [*self.workers.values(), self.manager]:
                process.popen.kill()
                process.wait()
            for channel in self.channels:
                channel.close()
            self.directory.cleanup()

    def start_manager(self):
        """The first one, or the next after one that has ended."""
        self.manager = self.process(
            "folio-manager", self.manager_arguments, self.path / "manager.log", self.environment
        )

    def connect(self, address, process):
        channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
        self.channels.append(channel)
        ready = grpc.channel_ready_future(channel)
        deadline = time.monotonic() + 120
        while True:
            try:
                ready.result(timeout=0.2)
                return channel
            except grpc.FutureTimeoutError:
                assert process.running(), f"{process.name} ended:\n{process.words()}"
                assert time.monotonic() < deadline, f"{process.name} does not answer:\n{process.words()}"

    def launch_worker(self, name, compute="bfloat16", flags=(), model=MODEL, environment=None):
        """Starts the process without waiting for it to serve."""
        self.workers[name] = self.process(
            self.worker_binary,
            [
                f"--listen={self.worker_address(name)}",
                f"--manager={self.manager_for(name)}",
                f"--model={model}",
                f"--compute={compute}",
                *flags,
            ],
            self.path / f"{name}.log",
            {**self.environment, **(environment or {})},
        )
        return self.workers[name]

    def start_worker(self, name="worker", compute="bfloat16", flags=(), model=MODEL, environment=None):
        """A stub of a new worker that serves."""
        return self.serving(name, self.launch_worker(name, compute, flags, model, environment))

    def serving(self, name, process):
        """A stub of that worker once it serves."""
        return inference_pb2_grpc.InferenceStub(self.connect(self.worker_address(name), process))

    def worker_address(self, name="worker"):
        return f"unix:{self.path}/{name}.sock"

    def manager_for(self, name):
        """The address at which that worker looks for the manager."""
        return self.manager_address

    def pools(self):
        """One, or none before the first worker has attached to the manager."""
        return self.admin.ListPools(admin_pb2.ListPoolsRequest(), timeout=PATIENCE).pools

    def pool(self):
        (pool,) = self.pools()
        return pool

    def sequences(self):
        return self.admin.ListSequences(admin_pb2.ListSequencesRequest(), timeout=PATIENCE).sequences

    def decoding(self, count=1):
        """The sequences, once there are this many and all decode. A client may have a chunk before the manager hears of its step."""

        def found():
            listed = self.sequences()
            return len(listed) == count and all(one.state == admin_pb2.SEQUENCE_STATE_DECODE for one in listed) and listed

        return wait_until(found, PATIENCE, "the sequences decode")

    def sequence(self, sequence_id):
        return self.admin.GetSequence(admin_pb2.GetSequenceRequest(sequence_id=sequence_id), timeout=PATIENCE)

    def events(self, *kinds, after=0):
        """Events of these kinds, such as "sequence_closed", or of all kinds, in the order of the manager."""
        wanted = [f"EVENT_KIND_{kind.upper()}" for kind in kinds] or admin_pb2.EventKind.keys()[1:]
        request = admin_pb2.WatchEventsRequest(after=after, kinds=wanted)
        return [one.event for one in self.admin.WatchEvents(request, timeout=PATIENCE) if one.HasField("event")]

    @contextlib.contextmanager
    def closing(self, *reasons):
        """The sequences that are opened in the block are closed for one of the reasons, such as "cancelled", and leave no page."""
        before = max((event.number for event in self.events()), default=0)
        yield

        def found():
            opened = {event.sequence_id for event in self.events("sequence_opened", after=before)}
            closed = {event.sequence_id: event.text for event in self.events("sequence_closed", after=before)}
            return opened and opened <= closed.keys() and {closed[one] for one in opened}

        assert wait_until(found, PATIENCE, "the sequences are closed") <= {*reasons}
        self.assert_all_free()

    def assert_all_free(self, timeout=PATIENCE):
        """Every page comes back, soon."""

        def free():
            pool = self.pool()
            return pool.free_pages == pool.total_pages and not pool.sequences and not pool.reserved_pages

        wait_until(free, timeout, f"all pages free: {self.pool()}")

    def assert_alive(self):
        for process in [self.manager, *self.workers.values()]:
            assert process.running(), f"{process.name} ended:\n{process.words()}"


@contextlib.contextmanager
def pair(pool="1GiB", lease="10s", **worker):
    """A node with one worker. Both live at the end of the block, and have all pages back."""
    with Node(pool=pool, lease=lease) as node:
        node.stub = node.start_worker(**worker)
        yield node
        node.assert_alive()
        node.assert_all_free()


def write_model(directory, *arguments):
    """A tiny model of random weights in a new directory: a family, the length of its context, and the size of its heads."""
    subprocess.run([BIN / "write_tiny_model", directory, *map(str, arguments)], check=True)
    return directory


def status_bytes(pid, field):
    """A size of /proc/PID/status, such as VmHWM."""
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def anonymous_bytes(pid):
    """Memory of a process that belongs to no file: neither weights that are mapped nor the pool."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))
