"""A daemon whose stderr is a pipe without a reader keeps answering, and tells later how many lines are missing."""

import re
import signal
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from metrics import Metrics
from node import PATIENCE, wait_until
from piped import start_piped
from stubs import admin_pb2, admin_pb2_grpc, kv_manager_pb2, kv_manager_pb2_grpc, types_pb2

MISSING = re.compile(r"lines of this log were dropped.* lines=(\d+)")
LAYOUT = types_pb2.ModelLayout(
    model="tiny", fingerprint="00" * 16, num_layers=1, num_kv_heads=1, head_dim=8, page_tokens=16,
    data_type=types_pb2.DATA_TYPE_BFLOAT16,
)  # fmt: skip


class Unread:
    """A manager with the first lines of its log. The rest stays in the pipe until somebody reads."""

    def __init__(self, directory):
        address = f"unix:{directory}/manager.sock"
        arguments = [f"--listen={address}", "--pool_bytes=16MiB", "--metrics_listen=127.0.0.1:0"]
        self.popen = start_piped("folio-manager", arguments, text=True, bufsize=1)
        self.lines = []
        while not any("listening address=" in line for line in self.lines):
            self.lines.append(self.popen.stderr.readline())
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(timeout=60)
        self.manager = kv_manager_pb2_grpc.KvManagerStub(self.channel)
        self.admin = admin_pb2_grpc.AdminStub(self.channel)

    def words(self):
        return "".join(self.lines)

    def attach(self, name, **changes):
        request = kv_manager_pb2.AttachRequest(protocol_version=3, worker_name=name, layout=LAYOUT, **changes)
        return self.manager.Attach(request, timeout=60)

    def refused(self, name):
        """An attempt to attach that costs the manager a line of its log and nothing else."""
        with pytest.raises(grpc.RpcError) as failure:
            self.attach(name, device=kv_manager_pb2.DEVICE_KIND_CUDA)
        assert failure.value.code() == grpc.StatusCode.FAILED_PRECONDITION

    def malformed(self):
        """An Attach with a text that is not UTF-8, which Protobuf complains of by itself."""
        attach = self.channel.unary_unary("/folio.v1.KvManager/Attach", request_serializer=lambda request: request)
        with pytest.raises(grpc.RpcError) as failure:
            attach(b"\x08\x03\x12\x04\xff\xfe\xfd\xfc", timeout=PATIENCE)
        assert failure.value.code() == grpc.StatusCode.INTERNAL

    def dropped(self):
        return Metrics(self)("folio:log_lines_dropped_total")

    def answers(self):
        health = health_pb2_grpc.HealthStub(self.channel)
        status = health.Check(health_pb2.HealthCheckRequest(), timeout=60).status
        pools = self.admin.ListPools(admin_pb2.ListPoolsRequest(), timeout=60).pools
        return status == health_pb2.HealthCheckResponse.SERVING and len(pools) == 1

    def fill(self):
        """Asks until lines are dropped. The names make the lines long."""
        for number in range(400):
            self.attach(f"{number:0>256}")
        assert self.answers()
        for number in range(10_000):
            self.refused(f"{number:0>256}")
            if number % 100 == 0 and self.dropped():
                return
        raise AssertionError("10,000 refusals fit into the log")


@pytest.fixture
def unread(tmp_path):
    unread = Unread(tmp_path)
    yield unread
    unread.popen.kill()
    unread.popen.wait()
    unread.channel.close()


def test_a_log_without_a_reader_stops_nothing(unread):
    unread.fill()
    assert unread.answers()
    dropped = unread.dropped()
    reader = threading.Thread(target=lambda: unread.lines.extend(unread.popen.stderr), daemon=True)
    reader.start()
    wait_until(lambda: MISSING.search(unread.words()), 60, "the line about missing lines")
    unread.refused("the one after the gap")
    wait_until(lambda: "the one after the gap" in unread.words(), 60, "lines after the gap")
    told = sum(int(count) for count in MISSING.findall(unread.words()))
    assert told == unread.dropped() >= dropped > 0
    unread.popen.send_signal(signal.SIGTERM)
    assert unread.popen.wait(60) == 0
    reader.join(60)
    assert "folio-manager ended" in unread.words()


def test_a_process_ends_without_a_reader_of_its_log(unread):
    unread.fill()
    unread.popen.send_signal(signal.SIGTERM)
    assert unread.popen.wait(60) == 0


def test_malformed_text_waits_for_no_reader_either(unread):
    unread.fill()
    for _ in range(100):
        unread.malformed()
    reader = threading.Thread(target=lambda: unread.lines.extend(unread.popen.stderr), daemon=True)
    reader.start()
    wait_until(lambda: MISSING.search(unread.words()), PATIENCE, "the line about missing lines")
    unread.malformed()
    wait_until(lambda: "WARNING protobuf detail=" in unread.words(), PATIENCE, "Protobuf's words as a line of our log")
    assert "[libprotobuf" not in unread.words()
    assert unread.answers()
