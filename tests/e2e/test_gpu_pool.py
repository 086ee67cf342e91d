"""A manager whose pages are in a GPU's memory (a stand-in's, see tests/manager/fake_gpu), and a worker on the CPU."""

import os
import signal
import subprocess

from node import BIN, MODEL, wait_until


def test_a_worker_on_the_cpu_says_what_to_do(tmp_path):
    fakes = BIN.parent / "tests/manager/fake_gpu"
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{fakes}/cuda:{fakes}/nvml"}
    socket = tmp_path / "m.sock"
    manager = subprocess.Popen(
        [BIN / "folio-manager", f"--listen=unix:{socket}", "--device=cuda:0", "--pool_bytes=1GiB"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        wait_until(socket.exists, 60, "the manager listens")
        worker = subprocess.run(
            [BIN / "folio-worker", f"--manager=unix:{socket}", f"--listen=unix:{tmp_path}/w.sock", f"--model={MODEL}"],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        said = worker.stdout + worker.stderr
        assert worker.returncode == 1, said
        assert "memory of cuda:0" in said and "start the manager with --device=cpu" in said, said
        pools = subprocess.run([BIN / "folioctl", "pools", f"--address=unix:{socket}"], capture_output=True, text=True)
        assert "No pool" in pools.stdout and "Fake H100" in pools.stdout, pools.stdout + pools.stderr
    finally:
        manager.send_signal(signal.SIGTERM)
        log, _ = manager.communicate(timeout=60)
    assert manager.returncode == 0, log
