"""Command lines that cannot work: exit code 2 and a line that says which flag and why."""

import subprocess

import pytest
from node import BIN, MODEL

COMMANDS = {
    # name: (binary, arguments, words)
    "manager, unknown flag": ("folio-manager", ["--pool_size=1GiB"], ["pool_size"]),
    "manager, no number": ("folio-manager", ["--pool_bytes=plenty"], ["pool_bytes", "plenty"]),
    "manager, negative size": ("folio-manager", ["--pool_bytes=-1GiB"], ["pool_bytes"]),
    "manager, more than the machine": ("folio-manager", ["--pool_bytes=900TiB"], ["pool_bytes", "machine"]),
    "manager, prefault on a GPU": ("folio-manager", ["--prefault", "--device=cuda:0"], ["prefault", "host memory"]),
    "manager, unknown device": ("folio-manager", ["--device=tpu:0"], ["device", "tpu:0", "cuda:0"]),
    "manager, share of nothing": ("folio-manager", ["--pool_bytes=0%"], ["pool_bytes", "80%"]),
    "manager, no address": ("folio-manager", ["--listen=here"], ["listen", "here"]),
    "manager, port out of range": ("folio-manager", ["--listen=localhost:70000"], ["listen", "70000"]),
    "manager, address twice": ("folio-manager", ["--listen=unix:/tmp/a,unix:/tmp/a"], ["listen", "twice"]),
    "manager, long socket path": ("folio-manager", ["--listen=unix:/tmp/" + "x" * 200], ["listen"]),
    "manager, lease too short": ("folio-manager", ["--lease_ttl=1ms"], ["lease_ttl", "100ms"]),
    "manager, no duration": ("folio-manager", ["--lease_ttl=soon"], ["lease_ttl", "soon"]),
    "manager, negative orphan_ttl": ("folio-manager", ["--orphan_ttl=-1s"], ["orphan_ttl", "24h"]),
    "manager, kill after days": ("folio-manager", ["--kill_fenced_after=48h"], ["kill_fenced_after", "24h"]),
    "manager, negative drain": ("folio-manager", ["--drain_timeout=-1s"], ["drain_timeout"]),
    "manager, unknown log format": ("folio-manager", ["--log_format=xml"], ["log_format", "xml"]),
    "manager, unknown log level": ("folio-manager", ["--log_level=loud"], ["log_level", "loud"]),
    "manager, metrics on a socket": (
        "folio-manager", ["--metrics_listen=unix:/tmp/m"], ["metrics_listen", "host:port"]),
    "manager, metrics without a port": ("folio-manager", ["--metrics_listen=localhost"], ["metrics_listen", "no port"]),
    "manager, metrics on gRPC's port": (
        "folio-manager", ["--listen=127.0.0.1:7009", "--metrics_listen=127.0.0.1:7009"], ["metrics_listen", "gRPC"]),
    "manager, health on gRPC's port": (
        "folio-manager", ["--listen=127.0.0.1:7009", "--health_listen=127.0.0.1:7009"], ["health_listen", "--listen"]),
    "manager, operators at no address": ("folio-manager", ["--admin_listen=here"], ["admin_listen", "here"]),
    "manager, operators on the workers' port": (
        "folio-manager", ["--listen=127.0.0.1:7009", "--admin_listen=127.0.0.1:7009"], ["admin_listen", "--listen"]),
    "manager, health on the operators' port": (
        "folio-manager", ["--admin_listen=127.0.0.1:7009", "--health_listen=127.0.0.1:7009"],
        ["health_listen", "--admin_listen"]),
    "manager, negative connections": ("folio-manager", ["--max_connections=-1"], ["max_connections=-1", "0 or more"]),
    "manager, more connections than descriptors": (
        "folio-manager", ["--max_connections=2147483647"], ["max_connections", "descriptors", "LimitNOFILE"]),
    "manager, unknown compaction": ("folio-manager", ["--default_compaction=late"], ["default_compaction", "streamed"]),
    "manager, argument": ("folio-manager", ["start"], ["start"]),
    "manager, missing flag file": ("folio-manager", ["--flagfile=/nonexistent/flags"], ["flagfile", "/nonexistent"]),
    "worker, no model": ("folio-worker", [], ["model"]),
    "worker, unknown flag": ("folio-worker", ["--modle=x"], ["modle"]),
    "worker, no manager": ("folio-worker", ["--model=" + MODEL, "--manager="], ["manager"]),
    "worker, unknown arithmetic": ("folio-worker", ["--model=" + MODEL, "--compute=int4"], ["compute", "int4"]),
    "worker, unknown weights": ("folio-worker", ["--model=" + MODEL, "--weights=int4"], ["weights", "int4", "as-is"]),
    "worker, quantised weights on a GPU": (
        "folio-worker", ["--model=" + MODEL, "--device=cuda", "--weights=as-is", "--compute=fp8"], ["weights=as-is", "--compute=fp8"]),
    "worker, unknown kernels": ("folio-worker", ["--model=" + MODEL, "--kernels=sse9"], ["kernels", "sse9"]),
    "worker, negative threads": ("folio-worker", ["--model=" + MODEL, "--threads=-1"], ["threads", "-1"]),
    "worker, no threads": ("folio-worker", ["--model=" + MODEL, "--threads=many"], ["threads", "many"]),
    "worker, chunk of nothing beside decodes": (
        "folio-worker", ["--model=" + MODEL, "--prefill_chunk_beside_decodes=8"], ["prefill_chunk_beside_decodes", "16"]),
    "worker, chunk of few": ("folio-worker", ["--model=" + MODEL, "--prefill_chunk=8"], ["prefill_chunk", "16"]),
    "worker, target of nothing": ("folio-worker", ["--model=" + MODEL, "--target_itl=1us"], ["target_itl", "1ms"]),
    "worker, batch of nothing": ("folio-worker", ["--model=" + MODEL, "--max_batch=0"], ["max_batch", "1"]),
    "worker, no number of connections": ("folio-worker", ["--model=" + MODEL, "--max_connections=all"], ["max_connections"]),
    "worker, no time for a step": ("folio-worker", ["--model=" + MODEL, "--step_timeout=10ms"], ["step_timeout", "1s"]),
    "worker, no page": ("folio-worker", ["--model=" + MODEL, "--page_tokens=0"], ["page_tokens"]),
    "worker, negative context": ("folio-worker", ["--model=" + MODEL, "--max_context=-1"], ["max_context", "-1"]),
    "worker, no rank": ("folio-worker", ["--model=" + MODEL, "--tp=0"], ["tp", "64"]),
    "worker, rank beyond the last": (
        "folio-worker", ["--model=" + MODEL, "--tp=2", "--rank=2", "--group=/tmp/g"], ["rank=2"]),
    "worker, rank without a leader": ("folio-worker", ["--model=" + MODEL, "--tp=2", "--rank=1"], ["rank", "--group"]),
    "worker, group of one": ("folio-worker", ["--model=" + MODEL, "--group=/tmp/g"], ["group", "--tp"]),
    "worker, unknown device": ("folio-worker", ["--model=" + MODEL, "--device=tpu"], ["device=tpu", "cuda:0"]),
    "worker, no number of a GPU": ("folio-worker", ["--model=" + MODEL, "--device=cuda:-1"], ["cuda:-1", "cuda:0"]),
    "worker, GPU memory of a CPU": (
        "folio-worker", ["--model=" + MODEL, "--gpu_memory=1GiB"], ["gpu_memory=1GiB", "--device=cuda"]),
    "worker, float32 on a GPU": (
        "folio-worker", ["--model=" + MODEL, "--device=cuda", "--compute=float32"], ["compute=float32", "bfloat16 or fp8"]),
    "worker, unknown arithmetic on a GPU": (
        "folio-worker", ["--model=" + MODEL, "--device=cuda", "--compute=int4"], ["compute=int4", "bfloat16 or fp8"]),
    "worker, FP8 on a CPU": (
        "folio-worker", ["--model=" + MODEL, "--compute=fp8"], ["compute=fp8", "float32 or bfloat16", "--device=cuda"]),
    "worker, a CPU's kernels on a GPU": (
        "folio-worker", ["--model=" + MODEL, "--device=cuda:0", "--kernels=avx2"], ["kernels=avx2", "auto"]),
    "worker, ranks on one GPU": ("folio-worker", ["--model=" + MODEL, "--device=cuda:1", "--tp=2"], ["cuda:1", "--tp"]),
    "worker, no address": ("folio-worker", ["--model=" + MODEL, "--listen=unix:"], ["listen"]),
    "worker, health on gRPC's port": (
        "folio-worker", ["--model=" + MODEL, "--listen=127.0.0.1:7009", "--health_listen=127.0.0.1:7009"],
        ["health_listen", "--listen"]),
    "worker, metrics on the port for probes": (
        "folio-worker", ["--model=" + MODEL, "--health_listen=127.0.0.1:7009", "--metrics_listen=127.0.0.1:7009"],
        ["metrics_listen", "gRPC"]),
    "worker, metrics on gRPC's port": (
        "folio-worker", ["--model=" + MODEL, "--listen=127.0.0.1:7009", "--metrics_listen=127.0.0.1:7009"],
        ["metrics_listen", "gRPC"]),
    "folioctl, nothing": ("folioctl", [], ["subcommand"]),
    "folioctl, unknown command": ("folioctl", ["serve"], ["serve"]),
    "folioctl, unknown policy": ("folioctl", ["generate", "x", "--policy", "lru"], ["lru", "paged_eviction"]),
    "folioctl, no number": ("folioctl", ["sequence", "first"], ["first"]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_exit_code_two_and_words(name):
    binary, arguments, words = COMMANDS[name]
    result = subprocess.run([BIN / binary, *arguments], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2, f"{result.returncode}: {result.stdout}{result.stderr}"
    for word in words:
        assert word in result.stderr, f'"{word}" is not in "{result.stderr}"'
    assert len(result.stderr.splitlines()) <= 4, result.stderr


@pytest.mark.parametrize("binary", ["folio-manager", "folio-worker", "folioctl"])
def test_help_is_no_mistake(binary):
    result = subprocess.run([BIN / binary, "--help"], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0
    assert "--listen" in result.stdout or "--address" in result.stdout


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--model=/nonexistent/model.gguf"], ["/nonexistent/model.gguf"]),
        (["--model=/dev/null"], ["/dev/null"]),
        (["--model=" + MODEL, "--manager=unix:/tmp/folio-nowhere.sock", "--attach_timeout=1s"], ["folio-nowhere.sock"]),
        (["--model=" + MODEL, "--device=cuda"], ["--device=cuda: ", "built without CUDA", "use --device=cpu"]),
    ],
    ids=["no such model", "no model at all", "no manager there", "no GPU"],
)
def test_what_only_shows_later_exits_with_one(tmp_path, arguments, words):
    listen = f"--listen=unix:{tmp_path}/w.sock"
    result = subprocess.run([BIN / "folio-worker", listen, *arguments], capture_output=True, text=True, timeout=120)
    assert result.returncode == 1, f"{result.returncode}: {result.stdout}{result.stderr}"
    for word in words:
        assert word in result.stdout + result.stderr
