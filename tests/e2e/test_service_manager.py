"""Daemons under a service manager or an orchestrator: sockets that it opens, news that it gets, probes, namespaces."""

import os
import signal
import socket
import subprocess

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from node import BIN, Node, Process, wait_until
from processes import children
from stubs import admin_pb2, admin_pb2_grpc, inference_pb2

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


def test_a_manager_takes_its_sockets_from_the_service_manager(tmp_path):
    sockets = [
        listening(tmp_path / "manager.sock", socket.SOCK_STREAM),
        listening(tmp_path / "export.sock", socket.SOCK_SEQPACKET),
    ]
    news = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    news.bind(str(tmp_path / "notify"))
    news.settimeout(30)
    arguments = [f"--listen=unix:{tmp_path}/manager.sock", "--pool_bytes=64MiB"]
    worker = None
    try:
        for run in range(2):  # the sockets outlive a manager
            with grpc.insecure_channel(f"unix:{tmp_path}/manager.sock") as channel:
                # Asked before there is a manager: the call waits in the backlog of the socket.
                early = admin_pb2_grpc.AdminStub(channel).ListPools.future(
                    admin_pb2.ListPoolsRequest(), timeout=30, wait_for_ready=True
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
                lambda: subprocess.run(generate, capture_output=True, timeout=60).returncode == 0, 30, "text"
            )
            manager.send_signal(signal.SIGTERM)
            assert news.recv(100) == b"STOPPING=1"
            assert manager.wait(30) == 0, log.read_text()
            assert (tmp_path / "manager.sock").exists() and (tmp_path / "export.sock").exists()
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
    assert manager.wait(30) == 1
    assert "stray.sock, which no flag names; let --listen and the socket unit agree" in (tmp_path / "log").read_text()


def test_health_is_served_alone_for_probes():
    with Node(pool="64MiB", manager_flags=["--health_listen=127.0.0.1:0"]) as node:
        line = next(line for line in node.manager.words().splitlines() if "listening for health checks" in line)
        channel = node.connect(line.split("address=")[1], node.manager)
        health = health_pb2_grpc.HealthStub(channel)

        def status(service=""):
            return health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5).status

        assert [status(""), status("folio.v1.KvManager"), status("folio.v1.Admin")] == [SERVING] * 3
        with pytest.raises(grpc.RpcError) as refused:
            admin_pb2_grpc.AdminStub(channel).ListPools(admin_pb2.ListPoolsRequest(), timeout=5)
        assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
        stub = node.start_worker()
        running = stub.Generate(inference_pb2.GenerateRequest(
            input=inference_pb2.Input(text="Once"), max_tokens=200, ignore_eos=True))  # fmt: skip
        next(running)
        node.manager.signal(signal.SIGTERM)
        wait_until(lambda: status() == NOT_SERVING, 10, "not serving while it drains")
        running.cancel()


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
            input=inference_pb2.Input(text="Once"), max_tokens=400, ignore_eos=True))  # fmt: skip
        for _ in range(3):
            next(running)
        assert not node.pool().quarantined_pages
        [inside] = children(worker.pid)
        os.kill(inside, signal.SIGKILL)
        node.serving("next", node.launch_worker("next"))
        wait_until(lambda: not node.pool().quarantined_pages, 20, "no page waits for the dead process")
        assert "watched_by=pidfd" in node.manager.words() or "watched_by=connection" in node.manager.words()
        assert "process ended" in node.manager.words()
