"""Daemons under a service manager or an orchestrator: sockets that it opens, news that it gets, probes, namespaces."""

import os
import signal
import socket
import subprocess

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from node import BIN, PATIENCE, Node, Process, wait_until
from processes import children
from stubs import admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


def listening(path, kind):
    opened = socket.socket(socket.AF_UNIX, kind)
    opened.bind(str(path))
    opened.listen()
    return opened


def start_with_sockets(sockets, arguments, log, notify):
    """Starts folio-manager as systemd does: the sockets are descriptors 3, 4, ... and its own id is in LISTEN_PID."""
    numbers = [each.fileno() for each in sockets]
    moved = " ".join(f"{50 + i}<&{number}" for i, number in enumerate(numbers))
    placed = " ".join(f"{3 + i}<&{50 + i} {50 + i}<&-" for i in range(len(numbers)))
    script = f'exec {moved}; exec {placed}; LISTEN_PID=$$ LISTEN_FDS={len(numbers)} exec "$0" "$@"'
    with open(log, "w") as out:
        return subprocess.Popen(
            ["bash", "-c", script, BIN / "folio-manager", *arguments], pass_fds=numbers, stdout=out, stderr=out,
            env={**os.environ, "NOTIFY_SOCKET": str(notify)},
        )  # fmt: skip


@pytest.mark.parametrize("operators", ["manager", "admin"])
def test_a_manager_takes_its_sockets_from_the_service_manager(tmp_path, operators):
    names = sorted({"manager", operators})
    sockets = [
        *[listening(tmp_path / f"{name}.sock", socket.SOCK_STREAM) for name in names],
        listening(tmp_path / "export.sock", socket.SOCK_SEQPACKET),
    ]
    news = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    news.bind(str(tmp_path / "notify"))
    news.settimeout(2 * PATIENCE)
    arguments = [f"--listen=unix:{tmp_path}/manager.sock", "--pool_bytes=64MiB"]
    if operators == "admin":
        arguments.append(f"--admin_listen=unix:{tmp_path}/admin.sock")
    worker = None
    try:
        for run in range(2):  # the sockets outlive a manager
            with grpc.insecure_channel(f"unix:{tmp_path}/{operators}.sock") as channel:
                # Asked before there is a manager: the call waits in the backlog of the socket.
                early = admin_pb2_grpc.AdminStub(channel).ListPools.future(
                    admin_pb2.ListPoolsRequest(), timeout=PATIENCE, wait_for_ready=True
                )
                log = tmp_path / f"manager{run}.log"
                manager = start_with_sockets(sockets, arguments, log, tmp_path / "notify")
                assert news.recv(100) == b"READY=1", log.read_text()
                assert early.result() is not None
            if worker is None:
                worker = Process(
                    "folio-worker",
                    [f"--manager=unix:{tmp_path}/manager.sock", f"--listen=unix:{tmp_path}/worker.sock",
                     f"--model={os.environ['FOLIO_MODEL']}"],
                    tmp_path / "worker.log",
                    {"NOTIFY_SOCKET": str(tmp_path / "notify")},
                )  # fmt: skip
                assert news.recv(100) == b"READY=1", worker.words()
            generate = [BIN / "folioctl", "generate", "Once", "--max_tokens", "4",
                        "--address", f"unix:{tmp_path}/worker.sock"]  # fmt: skip
            wait_until(
                lambda: subprocess.run(generate, capture_output=True, timeout=60).returncode == 0, PATIENCE, "text"
            )
            manager.send_signal(signal.SIGTERM)
            assert news.recv(100) == b"STOPPING=1"
            assert manager.wait(PATIENCE) == 0, log.read_text()
            for name in [*names, "export"]:
                assert (tmp_path / f"{name}.sock").exists(), name
        worker.signal(signal.SIGTERM)
        assert news.recv(100) == b"STOPPING=1"
        assert worker.wait() == 0
    finally:
        for process in [manager, *([worker.popen] if worker else [])]:
            process.kill()
            process.wait()


def test_a_socket_that_no_flag_names_is_an_error(tmp_path):
    stray = listening(tmp_path / "stray.sock", socket.SOCK_STREAM)
    arguments = [f"--listen=unix:{tmp_path}/manager.sock", "--pool_bytes=64MiB"]
    manager = start_with_sockets([stray], arguments, tmp_path / "log", tmp_path / "notify")
    assert manager.wait(PATIENCE) == 1
    assert "stray.sock, which no flag names; let --listen and the socket unit agree" in (tmp_path / "log").read_text()


def probe(node, process):
    """A connection to the address for probes, and the health that it tells by name."""
    process.says("listening for health checks")  # it says so after it serves clients
    line = next(line for line in process.words().splitlines() if "listening for health checks" in line)
    channel = node.connect(line.split("address=")[1], process)
    health = health_pb2_grpc.HealthStub(channel)
    return channel, lambda service="": health.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE).status


def test_health_is_served_alone_for_probes():
    with Node(pool="64MiB", manager_flags=["--health_listen=127.0.0.1:0"]) as node:
        channel, status = probe(node, node.manager)
        assert [status(""), status("folio.v1.KvManager"), status("folio.v1.Admin")] == [SERVING] * 3
        with pytest.raises(grpc.RpcError) as refused:
            admin_pb2_grpc.AdminStub(channel).ListPools(admin_pb2.ListPoolsRequest(), timeout=PATIENCE)
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
        stub = node.start_worker()
        running = stub.Generate(inference_pb2.GenerateRequest(
            input=inference_pb2.Input(text="Once"), max_tokens=2800, ignore_eos=True))  # fmt: skip
        next(running)
        node.manager.signal(signal.SIGTERM)
        wait_until(lambda: status() == NOT_SERVING, PATIENCE, "not serving while it drains")
        assert status("liveness") == SERVING
        running.cancel()


def test_probes_of_a_worker_get_through_when_clients_have_all_connections():
    with Node(pool="64MiB") as node:
        node.start_worker(flags=["--health_listen=127.0.0.1:0", "--max_connections=2"])
        channel, status = probe(node, node.workers["worker"])
        clients = [socket.socket(socket.AF_UNIX) for _ in range(8)]
        for client in clients:
            client.connect(node.worker_address().removeprefix("unix:"))
        refused = "a connection was refused"
        wait_until(lambda: refused in node.workers["worker"].words(), PATIENCE, "clients have all connections")
        assert [status(""), status("liveness"), status("folio.v1.Inference")] == [SERVING] * 3
        with pytest.raises(grpc.RpcError) as failure:
            inference_pb2_grpc.InferenceStub(channel).GetModel(inference_pb2.GetModelRequest(), timeout=PATIENCE)
        assert failure.value.code() == grpc.StatusCode.UNIMPLEMENTED
        for client in clients:
            client.close()
        node.manager.stop()
        wait_until(lambda: status() == NOT_SERVING, PATIENCE, "not serving without a manager")
        assert status("liveness") == SERVING


def test_a_worker_in_another_pid_namespace_dies_and_its_pages_come_back():
    with Node(pool="256MiB") as node:
        # Its process id there is 1, which means another process to the manager.
        worker = Process.__new__(Process)
        worker.name, worker.log = "folio-worker", node.path / "hidden.log"
        with open(worker.log, "w") as out:
            worker.popen = subprocess.Popen(
                ["unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child", BIN / "folio-worker",
                 f"--listen={node.worker_address('hidden')}", f"--manager={node.manager_address}",
                 f"--model={os.environ['FOLIO_MODEL']}"],
                stdout=out, stderr=out,
            )  # fmt: skip
        worker.pid = worker.popen.pid
        node.workers["hidden"] = worker
        stub = node.serving("hidden", worker)
        running = stub.Generate(inference_pb2.GenerateRequest(
            input=inference_pb2.Input(text="Once"), max_tokens=4000, ignore_eos=True))  # fmt: skip
        for _ in range(3):
            next(running)
        assert not node.pool().quarantined_pages
        [inside] = children(worker.pid)
        os.kill(inside, signal.SIGKILL)
        node.serving("next", node.launch_worker("next"))
        wait_until(lambda: not node.pool().quarantined_pages, PATIENCE, "no page waits for the dead process")
        assert "watched_by=pidfd" in node.manager.words() or "watched_by=connection" in node.manager.words()
        node.manager.says("process ended")


class HiddenManager(Node):
    """Its manager is in a PID namespace of its own, so that it sees no worker by its number."""

    def start_manager(self):
        self.manager = Process.__new__(Process)
        self.manager.name, self.manager.log = "folio-manager", self.path / "manager.log"
        with open(self.manager.log, "w") as out:
            self.manager.popen = subprocess.Popen(
                ["unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child", BIN / "folio-manager",
                 *self.manager_arguments], stdout=out, stderr=out)  # fmt: skip
        self.manager.pid = self.manager.popen.pid
        # unshare itself does not end by a signal while it waits for its child.
        self.manager.signal = lambda number: [os.kill(child, number) for child in children(self.manager.pid)]


def test_a_manager_says_what_to_do_about_a_process_that_it_cannot_kill():
    with HiddenManager(pool="256MiB", lease="2s", manager_flags=["--kill_fenced_after=100ms"]) as node:
        stub = node.start_worker()
        running = stub.Generate(inference_pb2.GenerateRequest(
            input=inference_pb2.Input(text="Once"), max_tokens=4000, ignore_eos=True))  # fmt: skip
        for _ in range(3):
            next(running)
        hung = node.workers.pop("worker")
        hung.signal(signal.SIGSTOP)
        words = "cannot kill a process of a fenced worker, whose pages wait for its end"
        try:
            wait_until(lambda: words in node.manager.words(), PATIENCE, words)
            # Another one attaches and serves meanwhile.
            other = node.start_worker("other")
            *_, last = other.Generate(inference_pb2.GenerateRequest(
                input=inference_pb2.Input(text="Once"), max_tokens=4, ignore_eos=True), timeout=60)  # fmt: skip
            assert last.finished.usage.generated_tokens == 4
            assert hung.running()
        finally:
            hung.popen.kill()
            hung.wait()
        (line,) = [line for line in node.manager.words().splitlines() if words in line]  # once
        assert "end the process, or restart its container" in line
        assert "PID namespace" in line or "does not show" in line
        running.cancel()
