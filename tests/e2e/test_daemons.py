"""What the daemons show to whoever runs them: health by name, and logs that a machine can read."""

import json

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from node import Node, wait_until
from stubs import inference_pb2


@pytest.mark.parametrize("service", ["", "folio.v1.Inference"])
def test_a_worker_tells_its_health_by_name_as_it_changes(service):
    serving, waiting = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    with Node(pool="64MiB") as node:
        node.start_worker()
        worker = health_pb2_grpc.HealthStub(node.connect(node.worker_address(), node.workers["worker"]))

        def status(name=service):
            return worker.Check(health_pb2.HealthCheckRequest(service=name), timeout=60).status

        assert status() == status("liveness") == serving
        with pytest.raises(grpc.RpcError) as failure:
            status("folio.v1.Nothing")
        assert failure.value.code() == grpc.StatusCode.NOT_FOUND
        node.manager.stop()
        wait_until(lambda: status() == waiting, 60, "not serving")
        assert status("liveness") == serving, "it only waits for its manager"
        node.start_manager()
        wait_until(lambda: status() == serving, 60, "serving again")


def test_every_line_of_a_json_log_is_one_object():
    flags = ["--log_format=json", "--log_level=debug"]
    with Node(pool="64MiB", manager_flags=flags) as node:
        stub = node.start_worker(flags=flags)
        request = inference_pb2.GenerateRequest(input=inference_pb2.Input(text="Once"), max_tokens=4)
        assert list(stub.Generate(request, timeout=60))
        processes = [node.workers["worker"], node.manager]
        for process in processes:
            process.stop()
        for process in processes:
            lines = process.words().splitlines()
            assert len(lines) > 5
            for line in lines:
                assert {"time", "level", "message"} <= json.loads(line).keys(), line
        closed = [json.loads(line) for line in node.manager.words().splitlines() if "sequence closed" in line]
        assert [line["reason"] for line in closed] == ["finished"]


class NodeOnTcp(Node):
    """Both daemons listen on a port of this host too."""

    def __init__(self, host, flags):
        self.also = f",{host}:0"
        super().__init__(pool="8MiB", manager_flags=flags)

    def start_manager(self):
        self.manager_arguments[0] += self.also
        super().start_manager()

    def worker_address(self, name="worker"):
        return super().worker_address(name) + self.also


@pytest.mark.parametrize("host, warnings", [("127.0.0.1", 0), ("localhost", 0), ("0.0.0.0", 1)])
def test_daemons_warn_of_addresses_that_anybody_can_reach(tiny_model, host, warnings):
    flags = ["--insecure_tcp"] if warnings else []
    with NodeOnTcp(host, flags) as node:
        processes = [node.manager, node.launch_worker("worker", model=tiny_model, flags=flags)]
        for process in processes:
            process.says(f"listening address={host}:")
        for process in reversed(processes):
            process.stop()
        for process in processes:
            words = process.words()
            lines = [line for line in words.splitlines() if "anybody who reaches this address" in line]
            assert len(lines) == warnings, words
            for line in lines:
                assert "WARNING" in line and f"address={host}:" in line and "unix:/path" in line, line
