"""A manager and its workers, whose logs go through pipes, whose sockets can be cut, and which a supervisor starts again."""

import fcntl
import os
import threading
import time

import grpc
from folio_chaos.bounds import LEASE, MANAGER_FLAGS, SERVES_AGAIN, WORKER_FLAGS
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
        self.popen = start_piped(name, arguments, environment)
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


class ChaosNode(Node):
    """One manager with workers of `ranks` ranks each. Clients and workers may connect through sockets that can be cut."""

    process = PipedProcess

    def __init__(self, name, ranks, workers, model, proxies, environment, pool, swap):
        self.name, self.ranks, self.model, self.proxies = name, ranks, model, proxies
        self.names = [f"{name}{number}" for number in range(1, workers + 1)]
        self.lock = threading.Lock()
        self.deaths, self.may_end = [], []  # (name, exit code, whether that was expected); names
        self.restarts, self.over = 0, False
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

    def manager_for(self, name):
        return f"unix:{self.path}/{name}-manager.sock"

    def clients_address(self, name):
        """The address of a worker whose connections can be cut."""
        return f"unix:{self.path}/{name}-clients.sock"

    def cut(self, name, side):
        """Ends the connections of a worker to its "manager", or of its "clients" to it. Gives their number."""
        return self.proxies.cut(self.path / f"{name}-{side}.sock")

    def launch(self, name):
        flags = [*WORKER_FLAGS, *([f"--tp={self.ranks}"] if self.ranks > 1 else [])]
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
