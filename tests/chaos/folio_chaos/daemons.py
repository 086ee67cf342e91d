"""A manager and its workers, whose logs go through pipes, whose sockets can be cut, and which a supervisor starts again."""

import fcntl
import os
import random
import signal
import socket
import threading
import time

import grpc
from folio_chaos.bounds import DRAIN, LEASE, MANAGER_FLAGS, SERVES_AGAIN, WORKER_FLAGS
from folio_chaos.callers import ACCESS
from grpc_health.v1 import health_pb2, health_pb2_grpc
from metrics import ENDPOINT
from node import Node, Process, wait_until
from piped import start_piped
from stubs import inference_pb2_grpc, kv_manager_pb2_grpc

# A channel that finds its server again as soon as it listens.
CHANNEL = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]


class PipedProcess(Process):
    """A daemon whose stderr is a small pipe. A thread passes the lines to the log until `reads` is cleared. A log that
    exists is continued."""

    def __init__(self, name, arguments, log, environment=None):
        self.name, self.log = name, log
        # Python ignores SIGXFSZ, and so does the daemon then: a limit of its files is a full disk to it.
        self.popen = start_piped(name, arguments, environment, restore_signals=False)
        self.pid = self.popen.pid
        self.reads = threading.Event()
        self.reads.set()
        threading.Thread(target=self.pass_on, daemon=True).start()

    def pass_on(self):
        with open(self.log, "ab", buffering=0) as log:
            while data := os.read(self.popen.stderr.fileno(), 65536):
                log.write(data)
                self.reads.wait()
        self.popen.stderr.close()

    def unread_bytes(self):
        return int.from_bytes(fcntl.ioctl(self.popen.stderr, 0x541B, bytes(4)), "little")  # FIONREAD


def free_port(first=20000, last=32000):
    """A port below those that connections get, so that it is still free when its worker is started again."""
    while True:
        port = random.randint(first, last)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class ChaosNode(Node):
    """One manager, which leaves its record to the next one, with workers of `ranks` ranks each. Clients and workers may connect
    through sockets that can be cut, and clients by TLS with the `certificates`."""

    process = PipedProcess

    def __init__(self, name, ranks, workers, model, proxies, certificates, environment, pool, swap):
        self.name, self.ranks, self.model, self.proxies = name, ranks, model, proxies
        self.names = [f"{name}{number}" for number in range(1, workers + 1)]
        self.ports = {worker: free_port() for worker in self.names}
        self.certificates, self.files = certificates, certificates.served(name)
        self.lock = threading.Lock()
        self.deaths, self.may_end = [], []  # (name, exit code, whether that was expected); names
        self.restarts, self.over = 0, False
        self.managers = 0  # that were started
        self.ids = set()  # of sequences that clients have had
        flags = [*MANAGER_FLAGS, *ENDPOINT, *([f"--host_swap_bytes={swap}"] if swap else [])]
        super().__init__(pool=pool, lease=f"{LEASE}s", manager_flags=flags, environment=environment)
        self.supervisor = threading.Thread(target=self.supervise, daemon=True)
        self.kv_manager, self.stubs = None, {}

    def __enter__(self):
        """Starts the workers, and returns when all of them serve."""
        try:
            for worker in self.names:
                self.proxies.open(self.path / f"{worker}-manager.sock", self.manager_address)
                self.proxies.open(self.path / f"{worker}-clients.sock", self.worker_address(worker))
                self.launch(worker)
            self.kv_manager = kv_manager_pb2_grpc.KvManagerStub(self.connect(self.manager_address, self.manager))
            self.stubs = {worker: self.lasting_stub(worker) for worker in self.names}
            self.await_serving()
        except BaseException:
            super().__exit__()
            raise
        self.supervisor.start()
        return self

    def __exit__(self, *problem):
        self.over = True
        self.supervisor.join()
        super().__exit__(*problem)

    def start_manager(self):
        if not self.managers:
            (self.path / "access").write_text(ACCESS)
            self.manager_arguments += [f"--state_dir={self.path}/state", f"--access={self.path}/access"]
        self.managers += 1
        super().start_manager()

    def kill_manager(self):
        os.kill(self.manager.pid, signal.SIGKILL)
        self.manager.popen.wait(SERVES_AGAIN)

    def end_manager(self):
        """Ends it in order, and gives its exit code."""
        self.manager.signal(signal.SIGTERM)
        return self.manager.popen.wait(DRAIN + SERVES_AGAIN)

    def journals(self):
        """The files of the journal, the newest last."""
        return sorted((self.path / "state").glob("journal-*"), key=lambda path: int(path.name.removeprefix("journal-")))

    def new_id(self, sequence):
        """Whether no other request has had this id of a sequence."""
        with self.lock:
            known = sequence in self.ids
            self.ids.add(sequence)
        return not known

    def forget_ids(self):
        with self.lock:
            self.ids.clear()

    def encrypted_address(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def manager_for(self, name):
        return f"unix:{self.path}/{name}-manager.sock"

    def clients_address(self, name):
        """The address of a worker whose connections can be cut."""
        return f"unix:{self.path}/{name}-clients.sock"

    def cut(self, name, side):
        """Ends the connections of a worker to its "manager", or of its "clients" to it. Gives their number."""
        return self.proxies.cut(self.path / f"{name}-{side}.sock")

    def delay(self, name, side, most):
        """Bytes of these connections wait for up to so many seconds from now on, at random."""
        self.proxies.delay(self.path / f"{name}-{side}.sock", most)

    def stall(self, name, side, from_client):
        """No byte of one direction passes from now on: None lets both pass again."""
        self.proxies.stall(self.path / f"{name}-{side}.sock", from_client)

    def launch(self, name):
        flags = [*WORKER_FLAGS, *([f"--tp={self.ranks}"] if self.ranks > 1 else [])]
        served = self.files.server_flags(self.certificates.authority.ca)
        flags += [f"--listen={self.encrypted_address(name)}", f"--access={self.path}/access", *served]
        return self.launch_worker(name, flags=flags, model=self.model)

    def lasting_stub(self, name):
        """One that survives its worker, and finds the next one at its address."""
        channel = grpc.insecure_channel(self.worker_address(name), options=CHANNEL)
        self.channels.append(channel)
        return inference_pb2_grpc.InferenceStub(channel), health_pb2_grpc.HealthStub(channel)

    def stub(self, name):
        return self.stubs[name][0]

    def is_serving(self, name):
        # A channel that met no server connects again only while a call waits for it.
        try:
            answer = self.stubs[name][1].Check(health_pb2.HealthCheckRequest(), timeout=2, wait_for_ready=True)
        except grpc.RpcError:
            return False
        return answer.status == health_pb2.HealthCheckResponse.SERVING

    def await_serving(self):
        """Returns when all workers serve, and the manager has no others. Gives the seconds that it took."""
        start = time.monotonic()

        def all_serve():
            try:
                attached = [worker for pool in self.pools() for worker in pool.workers]
                return all(map(self.is_serving, self.names)) and len(attached) == len(self.names)
            except grpc.RpcError:
                return False

        try:
            wait_until(all_serve, SERVES_AGAIN, f"all workers of {self.name} serve")
        except AssertionError as error:
            logs = "\n".join(process.words()[-3000:] for process in [self.manager, *self.workers.values()])
            raise AssertionError(f"{error}: {[self.is_serving(name) for name in self.names]}\n{logs}") from error
        return time.monotonic() - start

    def expect_end(self, name):
        """Lets a worker end once."""
        with self.lock:
            self.may_end.append(name)

    def supervise(self):
        """Starts workers again that have ended, as a service manager does, and notes their ends."""
        while not self.over:
            time.sleep(0.05)
            for name in self.names:
                process = self.workers[name]
                if process.running() or self.over:
                    continue
                with self.lock:
                    expected = name in self.may_end
                    if expected:
                        self.may_end.remove(name)
                    self.deaths.append((name, process.popen.returncode, expected))
                    self.restarts += 1
                self.launch(name)

    def ended(self, name):
        """The exit codes of that worker's processes so far."""
        with self.lock:
            return [code for worker, code, _ in self.deaths if worker == name]
