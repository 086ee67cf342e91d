#!/usr/bin/env python3
"""How long a worker takes from its start to its first token, and how much memory it holds then.

  tests/bench/cold_start.py --model FILE [--weights as-is,bfloat16] [--rounds 3] OUT.json

A round starts a worker beside a manager that runs already, waits until it serves, and asks for one token after a prompt of eight. `cold`
rounds have the file taken out of the kernel's cache before, so that it is read from the disk. `warm` ones find it there. The least of the
rounds counts. Memory is what the worker alone has (RssAnon) and what it has mapped of the file (RssFile), beside the size of the file.
The programs are those of FOLIO_BIN (default build/bin)."""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from node import Node, status_bytes, tokens  # noqa: E402
from stubs import inference_pb2  # noqa: E402

PROMPT = list(range(1000, 1008))
MEMORY = {"anonymous": "RssAnon", "of_files": "RssFile", "most_at_once": "VmHWM"}  # fields of /proc/PID/status


def files_of(model):
    path = pathlib.Path(model)
    return [path] if path.is_file() else sorted(path.glob("*.safetensors"))


def forget(files):
    """Takes files out of the kernel's cache."""
    for path in files:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(model, weights, cold):
    files = files_of(model)
    with Node(pool="64MiB") as node:
        if cold:
            forget(files)
        began = time.monotonic()
        stub = node.start_worker(model=model, flags=[f"--weights={weights}"])
        serves = time.monotonic()
        request = inference_pb2.GenerateRequest(input=tokens(PROMPT), max_tokens=1)
        assert any(event.HasField("chunk") for event in stub.Generate(request, timeout=600)), "no token came"
        first = time.monotonic()
        return {"serves": serves - began, "first_token": first - began} | {
            name: status_bytes(node.workers["worker"].pid, field) for name, field in MEMORY.items()
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--weights", default="as-is,bfloat16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("out")
    args = parser.parse_args()
    size = sum(path.stat().st_size for path in files_of(args.model))
    said = {"model": pathlib.Path(args.model).name, "file_bytes": size, "cores": os.cpu_count(), "results": {}}
    for weights in args.weights.split(","):
        for cold in (True, False):
            rounds = [measure(args.model, weights, cold) for _ in range(args.rounds)]
            best = {key: min(one[key] for one in rounds) for key in rounds[0]}
            name = f"{weights}, {'cold' if cold else 'warm'}"
            said["results"][name] = best
            print(
                f"{name:16} serves after {best['serves']:6.2f} s, first token after {best['first_token']:6.2f} s, "
                f"memory {best['anonymous'] / size:5.2f} of the file, {best['of_files'] / size:5.2f} mapped, "
                f"{best['most_at_once'] / size:5.2f} at most at once",
                flush=True,
            )
    pathlib.Path(args.out).write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
