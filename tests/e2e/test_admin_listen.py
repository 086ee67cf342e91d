"""A manager that serves operators at addresses of their own: who is served where, and what a wrong address answers."""

import json
import signal
import socket
import subprocess

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from node import BIN, PATIENCE, Node, tokens, wait_until
from stubs import admin_pb2, admin_pb2_grpc, inference_pb2, kv_manager_pb2, kv_manager_pb2_grpc


class NodeWithOperators(Node):
    """Its manager has --admin_listen."""

    def __init__(self, *also, manager_flags=()):
        self.also = also
        super().__init__(pool="8MiB", manager_flags=manager_flags)
        self.operators = self.connect(self.admin_address, self.manager)
        self.workers_channel = self.connect(self.manager_address, self.manager)
        self.admin = admin_pb2_grpc.AdminStub(self.operators)

    def start_manager(self):
        self.admin_address = f"unix:{self.path}/admin.sock"
        self.manager_arguments.append("--admin_listen=" + ",".join([self.admin_address, *self.also]))
        super().start_manager()


def folioctl(command, address):
    arguments = [BIN / "folioctl", *command.split(), "--address", address, "--timeout", "30s"]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE)


def test_workers_and_operators_are_served_apart(tiny_model):
    with NodeWithOperators() as node:
        stub = node.start_worker(model=tiny_model)
        request = inference_pb2.GenerateRequest(input=tokens([1, 2, 3]), max_tokens=4, ignore_eos=True)
        assert list(stub.Generate(request, timeout=PATIENCE))[-1].HasField("finished")
        pools = folioctl("pools --output json", node.admin_address)
        assert pools.returncode == 0, pools.stderr
        (pool,) = json.loads(pools.stdout)["pools"]
        assert [worker["pid"] for worker in pool["workers"]] == [node.workers["worker"].pid]

        with pytest.raises(grpc.RpcError) as refused:
            kv_manager_pb2_grpc.KvManagerStub(node.operators).Attach(kv_manager_pb2.AttachRequest(), timeout=PATIENCE)
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
        with pytest.raises(grpc.RpcError) as refused:
            admin_pb2_grpc.AdminStub(node.workers_channel).ListPools(admin_pb2.ListPoolsRequest(), timeout=PATIENCE)
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED

        # The worker ends first, and neither leaves its sockets behind.
        node.workers["worker"].stop()
        node.manager.signal(signal.SIGTERM)
        assert node.manager.wait() == 0, node.manager.words()
        assert not [path.name for path in node.path.iterdir() if path.suffix == ".sock"]


def test_folioctl_says_where_operators_are_served(tiny_model):
    with NodeWithOperators() as node:
        node.start_worker(model=tiny_model)
        for command in ["pools", "sequences", "workers", "events", "events --follow"]:
            asked = folioctl(command, node.manager_address)
            assert asked.returncode != 0
            assert f'the manager at "{node.manager_address}" serves no Admin at this address' in asked.stderr
            assert "--admin_listen" in asked.stderr and len(asked.stderr.splitlines()) == 1, asked.stderr
        assert "serves no Admin" in folioctl("pools", node.worker_address()).stderr
        for address in [node.manager_address, node.admin_address]:
            assert folioctl("health", address).returncode == 0
        assert "--admin_listen" in folioctl("--help", node.admin_address).stdout


def test_health_and_reflection_tell_what_each_address_serves():
    with NodeWithOperators(manager_flags=["--health_listen=127.0.0.1:0"]) as node:
        node.manager.says("listening for health checks")
        line = next(line for line in node.manager.words().splitlines() if "listening for health checks" in line)
        names = {"folio.v1.KvManager", "folio.v1.Admin"}

        def known(channel):
            stub, found = health_pb2_grpc.HealthStub(channel), set()
            for name in names:
                try:
                    status = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=PATIENCE).status
                    assert status == health_pb2.HealthCheckResponse.SERVING
                    found.add(name)
                except grpc.RpcError as error:
                    assert error.code() == grpc.StatusCode.NOT_FOUND
            return found

        for channel, own in [(node.workers_channel, {"folio.v1.KvManager"}), (node.operators, {"folio.v1.Admin"})]:
            assert known(channel) == own
            assert names & {*ProtoReflectionDescriptorDatabase(channel).get_services()} == own
        assert known(node.connect(line.split("address=")[1], node.manager)) == names


def test_operators_get_through_when_others_have_all_connections():
    with NodeWithOperators(manager_flags=["--max_connections=2"]) as node:
        clients = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for client in clients:
            client.connect(node.manager_address.removeprefix("unix:"))
        wait_until(lambda: "a connection was refused" in node.manager.words(), PATIENCE, "all connections are taken")
        assert folioctl("pools", node.admin_address).returncode == 0
        for client in clients:
            client.close()


@pytest.mark.parametrize("host, warnings", [("127.0.0.1", 0), ("0.0.0.0", 1)])
def test_a_manager_warns_of_an_address_of_operators_that_anybody_can_reach(host, warnings):
    with NodeWithOperators(f"{host}:0", manager_flags=["--insecure_tcp"] if warnings else []) as node:
        node.manager.says(f"listening for operators address={host}:")
        lines = [line for line in node.manager.words().splitlines() if "anybody who reaches this address" in line]
        assert len(lines) == warnings
        for line in lines:
            assert "WARNING" in line and f"address={host}:" in line and "unix:/path" in line, line
