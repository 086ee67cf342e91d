#!/usr/bin/env python3
"""GuideLLM's benchmark of folio-gateway, and whether its counts are those of the gateway.

    $(tests/python.sh) tests/bench/guidellm/run.py [--streams 1 8] [--requests 40] [--prompt 256] [--tokens 64] [--bin build/bin]

A manager, a worker and a gateway run here on the reference model (FOLIO_MODEL, FOLIO_MODEL_HF). GuideLLM runs beside them, in an
environment of its own, and so its times have its own work in them. It prints a line of JSON for each number of streams.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CACHE = pathlib.Path(os.environ.get("FOLIO_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "folio")  # fmt: skip
TIMES = {"first_token_ms": "time_to_first_token_ms", "between_tokens_ms": "inter_token_latency_ms"}
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TQDM_DISABLE": "1"}


def environment():
    """The folder of its programs."""
    script = [ROOT / "deploy/python_env.sh", CACHE / "guidellm-venv", HERE / "requirements.txt"]
    done = subprocess.run(script, stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(done.stdout.strip()).parent


def measure(program, gateway, arguments, streams, out):
    """One run, as GuideLLM reports it."""
    data = f"prompt_tokens={arguments.prompt},output_tokens={arguments.tokens}"
    subprocess.run(
        [program, "benchmark", "run", "--target", f"http://127.0.0.1:{gateway.port}", "--processor", os.environ["FOLIO_MODEL_HF"],
         "--rate-type", "concurrent", "--rate", str(streams), "--max-requests", str(arguments.requests), "--data", data,
         "--disable-progress", "--disable-console-outputs", "--output-path", out],
        check=True, stdout=sys.stderr, timeout=3600, env={**os.environ, **OFFLINE})  # fmt: skip
    (one,) = json.loads(out.read_text())["benchmarks"]
    return one


def line(report, arguments, streams):
    metrics, made = report["metrics"], report["run_stats"]["requests_made"]
    assert made["successful"] == arguments.requests and not made["errored"] and not made["incomplete"], made
    row = {"streams": streams, "requests": made["successful"], "prompt": arguments.prompt, "tokens": arguments.tokens}
    row["output_tokens_per_s"] = round(metrics["output_tokens_per_second"]["successful"]["mean"], 1)
    for name, theirs in TIMES.items():
        found = metrics[theirs]["successful"]
        row[name] = {"median": round(found["median"], 1), "p99": round(found["percentiles"]["p99"], 1)}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--prompt", type=int, default=256, help="tokens of each prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each answer")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/bin")
    arguments = parser.parse_args()
    os.environ["FOLIO_BIN"] = str(arguments.bin.resolve())
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    from gateway import Gateway
    from node import Node

    program = environment() / "guidellm"
    with tempfile.TemporaryDirectory(prefix="folio-guidellm.") as folder, Node() as node:
        node.start_worker()
        with Gateway(node) as gateway:
            for streams in arguments.streams:
                before = gateway.metric("folio:gateway_generation_tokens_total")
                report = measure(program, gateway, arguments, streams, pathlib.Path(folder) / "report.json")
                row = line(report, arguments, streams)
                counted = gateway.metric("folio:gateway_generation_tokens_total") - before
                # It asks for an answer before it measures, to see whether the server works.
                row["other_tokens"] = int(counted - arguments.requests * arguments.tokens)
                assert 0 <= row["other_tokens"] <= 2 * arguments.tokens, row
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())
