"""folioctl bench: what it sends and what it measures, against real daemons on a tiny model."""

import json
import os
import signal
import subprocess

import pytest
from metrics import ENDPOINT, Metrics
from node import BIN, PATIENCE, Node, wait_until


@pytest.fixture(scope="module")
def pair(tiny_model):
    """Its worker has four places, so that some clients wait."""
    with Node(pool="64MiB") as node:
        node.stub = node.start_worker(model=tiny_model, flags=[*ENDPOINT, "--max_batch=4"])
        yield node
        node.assert_alive()
        node.assert_all_free()


def begin(address, *flags):
    command = [BIN / "folioctl", "bench", "--address", address, *map(str, flags)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def end(process, code=0):
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, f"{process.returncode}: {out}{errors}"
    return out, errors


def bench(address, *flags, code=0):
    out, _ = end(begin(address, *flags, "--json=-"), code)
    return json.loads(out)


def counted(pair):
    metrics = Metrics(pair.workers["worker"])
    return metrics("folio:prompt_tokens_total"), metrics("folio:generation_tokens_total")


def test_a_closed_loop_counts_what_the_worker_counts(pair):
    before = counted(pair)
    found = bench(
        pair.worker_address(), "--concurrency=12", "--requests=48", "--prompt_tokens=uniform:20..60", "--output_tokens=24",
        "--policy=paged_eviction:32*3", "--policy=full", "--seed=5", "--goodput=ttft:1h,e2e:1h",
    )  # fmt: skip
    results = found["results"]
    assert results["answered"] == results["sent"] == 48 and results["failed"] == results["cut"] == 0
    assert results["most_running"] == 12
    assert results["output_tokens"] == 48 * 24 and 48 * 20 <= results["prompt_tokens"] <= 48 * 60
    assert tuple(after - first for after, first in zip(counted(pair), before, strict=True)) == (
        results["prompt_tokens"], results["output_tokens"])  # fmt: skip
    assert results["goodput"]["share"] == 1 and results["ttft_ms"]["count"] == 48
    # A request's time holds its first token and its tokens after that.
    for measure in ("ttft_ms", "itl_ms", "tpot_ms", "e2e_ms"):
        times = results[measure]
        assert 0 < times["p50"] <= times["p90"] <= times["p99"] <= times["max"] and times["mean"] <= times["max"]
    assert results["ttft_ms"]["mean"] + 23 * results["tpot_ms"]["mean"] <= 1.001 * results["e2e_ms"]["mean"]
    assert results["output_tokens_per_s"] == pytest.approx(48 * 24 / results["duration_s"])
    answered = {one["policy"]: one["answered"] for one in results["by_policy"]}
    assert sum(answered.values()) == 48 and answered["paged_eviction:32"] > answered["full"] > 0
    assert found["model"]["device"] == "cpu" and found["settings"]["seed"] == 5


def test_an_open_loop_keeps_its_rate(pair):
    found = bench(
        pair.worker_address(), "--request_rate=40", "--duration=2s", "--prompt_tokens=16", "--output_tokens=lognormal:8,0.5",
        "--warmup=4",
    )  # fmt: skip
    results = found["results"]
    # 80 on average, with a standard deviation of 9.
    assert 40 <= results["answered"] == results["sent"] <= 120
    assert results["duration_s"] >= 1 and results["all_decoding"]["output_tokens"] == 0
    assert results["answers_per_s"] == pytest.approx(40, rel=0.5)


def test_ctrl_c_prints_what_was_measured_and_leaves_nothing(pair):
    with pair.closing("cancelled", "finished"):
        process = begin(pair.worker_address(), "--concurrency=4", "--duration=1h", "--prompt_tokens=16", "--output_tokens=100")
        first = counted(pair)[1]
        wait_until(lambda: counted(pair)[1] > first + 800, PATIENCE, "some answers are there")
        process.send_signal(signal.SIGINT)
        out, errors = end(process, 130)
    assert "answered" in out and "cut off by Ctrl-C" in out and "time to first token" in out and not errors


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--concurrency=2", "--request_rate=2"], "--concurrency excludes --request_rate"),
        (["--prompt_tokens=5000"], "--prompt_tokens and --output_tokens"),
        (["--policy=full*many"], '"many" is not a weight; give a number above 0'),
    ],
)
def test_refused_flags_name_the_flag(pair, flags, words):
    _, errors = end(begin(pair.worker_address(), *flags), 2)
    assert words in errors


def test_a_budget_that_the_worker_refuses_fails_every_request(pair):
    out, errors = end(begin(pair.worker_address(), "--requests=3", "--prompt_tokens=8", "--policy=streaming_llm:17"), 1)
    assert "0 answered, 3 INVALID_ARGUMENT" in out and "not a multiple" in errors


@pytest.mark.parametrize("standby", [False, True])
def test_a_worker_that_is_killed(long_model, standby):
    """Without another worker its requests fail, and with one they continue there."""
    with Node(pool="64MiB") as node:
        for name in ("first", "second"):
            node.start_worker(name, model=long_model)
        flags = ["--concurrency=4", "--requests=6", "--prompt_tokens=16", "--output_tokens=2000", "--json=-"]
        addresses = ["first", "second"] if standby else ["first"]
        process = begin(",".join(map(node.worker_address, addresses)), *flags, *([] if standby else ["--resume=0"]))

        def decoding():
            return [one for one in node.sequences() if one.logical_length > 50]

        wait_until(lambda: len(decoding()) == 4, PATIENCE, "all clients decode")
        node.workers.pop("first").popen.kill()
        out, errors = end(process, 0 if standby else 1)
        results = json.loads(out)["results"]
        if standby:
            assert results["answered"] == 6 and results["output_tokens"] == 6 * 2000 and results["resumed"] >= 2
            node.assert_all_free()
        else:
            assert results["failures"]["UNAVAILABLE"]["count"] == 6 == results["failed"] and "6 of 6 requests failed" in errors
