"""Connections that are cut, that are too many, or that are not read, and logs that are not read."""

import os
import resource
import socket
import time

import grpc
from folio_chaos.bounds import SLOW_CLIENT_TIMEOUT
from folio_chaos.cases import slow_request
from folio_chaos.faults.fault import Fault
from node import tokens, wait_until
from piped import SMALLEST_PIPE
from stranger import PROTOCOL
from stubs import inference_pb2, inference_pb2_grpc, kv_manager_pb2, types_pb2

SPARE_DESCRIPTORS = 5
BURST = 100
LATE = 5  # seconds more than a timeout


class CutClients(Fault):
    """The connections of some clients to a worker end."""

    kind = "cut sockets of clients"
    cuts_clients = True

    def inject(self):
        cut = wait_until(lambda: self.node.cut(self.worker, "clients"), 20, "clients have connections")
        self.target = f"{self.worker}, {cut} connections"


class CutManager(Fault):
    """The connection of a worker to its manager ends, and the session with it."""

    kind = "cut socket to the manager"
    loses_sessions = True

    def inject(self):
        assert self.node.cut(self.worker, "manager") > 0
        self.target = f"{self.worker} and its manager"


class OfDaemon(Fault):
    """A fault of a worker or a manager."""

    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.of_manager = chance.random() < 0.5
        if self.of_manager:
            self.target = f"the manager of {self.node.name}"

    @property
    def daemon(self):
        return self.node.manager if self.of_manager else self.process


class TooManyConnections(OfDaemon):
    """More connections than a daemon has descriptors for."""

    kind = "exhaust descriptors"

    def inject(self):
        daemon = self.daemon
        address = self.node.manager_address if self.of_manager else self.node.worker_address(self.worker)
        used = max(map(int, os.listdir(f"/proc/{daemon.pid}/fd")))
        soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        burst = []

        def connect():
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (used + SPARE_DESCRIPTORS, hard))
            for _ in range(BURST):
                burst.append(socket.socket(socket.AF_UNIX))
                burst[-1].settimeout(10)
                burst[-1].connect(address.removeprefix("unix:"))

        def leave():
            for client in burst:
                client.close()

        try:
            self.until_log(daemon, "cannot accept connections", connect, 20)
            time.sleep(self.chance.uniform(0.5, 2))
            self.until_log(daemon, "connections are accepted again", leave, 20)
        finally:
            leave()
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))


class UnreadLog(OfDaemon):
    """The stderr of a daemon is a pipe that is full."""

    kind = "unread log"

    def inject(self):
        daemon = self.daemon
        before = len(daemon.words())
        speak = self.refused_attach if self.of_manager else self.refused_request
        daemon.reads.clear()
        try:
            for number in range(BURST):
                speak(f"line {number} {'x' * 100}")
            wait_until(lambda: daemon.unread_bytes() > SMALLEST_PIPE // 2, 10, "the pipe is full")
            time.sleep(self.chance.uniform(0.5, 2))
            assert self.node.pool().workers, "the manager answers"
        finally:
            daemon.reads.set()
        ends = (f"line {BURST - 1} ", "lines of this log were dropped")
        wait_until(lambda: any(end in daemon.words()[before:] for end in ends), 20, "the log continues")

    def refused_attach(self, name):
        """Costs the manager a line of its log and nothing else."""
        layout = self.node.pool().layout
        layout.fingerprint = "00" * 16
        request = kv_manager_pb2.AttachRequest(protocol_version=PROTOCOL, worker_name=name, layout=layout)
        self.must_fail(grpc.StatusCode.FAILED_PRECONDITION, lambda: self.node.kv_manager.Attach(request, timeout=20))

    def refused_request(self, name):
        """Costs the worker a line of its log and nothing else."""
        options = types_pb2.CacheOptions(budget_tokens=1)
        request = inference_pb2.GenerateRequest(input=tokens([3]), cache=options, label=name)
        stub = self.node.stub(self.worker)
        self.must_fail(grpc.StatusCode.INVALID_ARGUMENT, lambda: list(stub.Generate(request, timeout=20)))

    @staticmethod
    def must_fail(code, call):
        try:
            call()
        except grpc.RpcError as error:
            assert error.code() is code, error
        else:
            raise AssertionError(f"a call that should fail with {code} did not")


class SlowReader(Fault):
    """A client that does not read its answer, for a while or forever."""

    kind = "slow reader"
    def __init__(self, world, chance):
        super().__init__(world, chance)
        self.reads_again = chance.random() < 0.5
        self.target += ", reads again" if self.reads_again else ", never reads"
        # A fixed window of flow control, as a client has that does not care.
        self.channel = grpc.insecure_channel(
            self.node.worker_address(self.worker),
            options=[("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)],
        )

    def inject(self):
        stub = inference_pb2_grpc.InferenceStub(self.channel)
        self.begun = time.monotonic()
        self.call = stub.Generate(slow_request(), timeout=120)
        self.sequence = next(self.call).started.sequence_id
        time.sleep(self.chance.uniform(0.5, 1.5))
        if self.reads_again:
            wait_until(self.stands_still, 60, "the sequence waits for its client")
            got = [token for event in self.call for token in event.chunk.tokens]
            if got != self.world.slow_answers[self.node.name]:
                self.world.fail("an answer that was read late differs")
            self.channel.close()

    def settle(self):
        if self.reads_again:
            return
        wait_until(lambda: self.length() is None, 60 + SLOW_CLIENT_TIMEOUT, "the call of a slow client ends")
        # Messages of several tokens each may fit into the worker's buffer, and then the sequence ends before the call.
        time.sleep(max(0, self.begun + SLOW_CLIENT_TIMEOUT + LATE - time.monotonic()))
        code = self.read_to_the_end()
        if code is not grpc.StatusCode.CANCELLED:
            self.world.fail(f"the call of a client that never reads ended with {code}")
        self.channel.close()

    def length(self):
        """The tokens of its sequence at the manager, None if it has ended."""
        return next((one.logical_length for one in self.node.sequences() if one.sequence_id == self.sequence), None)

    def stands_still(self):
        before = self.length()
        time.sleep(0.5)
        return self.length() == before

    def read_to_the_end(self):
        try:
            for _ in self.call:
                pass
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK


KINDS = [CutClients, CutManager, TooManyConnections, UnreadLog, SlowReader]
