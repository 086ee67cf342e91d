"""python3 -m suite.load --bin DIR --model DIR [--lib DIR] [--cells ...]: the real processes under load.

Starts folio-manager and folio-worker and, for each cell, N folioctl at once, each a stream of its own. A cell is
STREAMS:PROMPT:TOKENS:POLICY, with /BUDGET behind the policy where it evicts; prompts are lower-case letters, each of which is
a token of a model of suite.shape_model. A line of JSON per cell says how fast the streams were together.
"""

import argparse
import json
import pathlib
import random
import string
import subprocess
import sys
import tempfile
import time

from .node import Broken, Node
from .places import Places

CELLS = (
    "1:1024:256:full,16:1024:256:full,64:1024:512:full,64:4096:512:full,64:4096:512:paged_eviction/1024,"
    "64:4096:512:query_diff/1024,64:4096:512:kv_crush:paged_eviction/1024,128:1024:512:full"
)


def arguments(given):
    parser = argparse.ArgumentParser(prog="suite.load", description="Real processes under load.")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of our programs")
    parser.add_argument("--lib", type=pathlib.Path, action="append", default=[], help="folder of shared libraries")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="cuda:0", help="of the manager's pages and the worker, or cpu")
    parser.add_argument("--pool", default="40GiB", help="the manager's --pool_bytes")
    parser.add_argument("--cells", default=CELLS)
    parser.add_argument("--seconds", type=float, default=240, help="begin no cell after so many")
    parser.add_argument("--worker_flag", action="append", default=[], help="passed on to folio-worker")
    return parser.parse_args(given)


class Cell:
    def __init__(self, text):
        streams, prompt, tokens, policy = text.split(":", 3)
        self.text, self.streams, self.prompt, self.tokens = text, int(streams), int(prompt), int(tokens)
        self.policy, _, self.budget = policy.partition("/")

    def flags(self):
        budget = ["--budget", self.budget] if self.budget else []
        return ["--policy", self.policy, *budget, "--ignore_eos", "--max_tokens", str(self.tokens), "--output", "json"]


def summary(cell, usages, wall):
    """Rates of all streams together, and when the first and the last of them had its first token."""
    steps = sum(usage["generated_tokens"] - 1 for usage in usages)
    first = [usage["time_to_first_token"] for usage in usages]
    return {
        "cell": cell.text,
        "decode_tokens_s": round(sum((one["generated_tokens"] - 1) / one["decode_seconds"] for one in usages), 1),
        "itl_ms": round(1e3 * sum(usage["decode_seconds"] for usage in usages) / steps, 3),
        "ttft_first": round(min(first), 3),
        "ttft_last": round(max(first), 3),
        "prefill_tokens_s": round(sum(usage["prompt_tokens"] for usage in usages) / max(first)),
        "prompt": usages[0]["prompt_tokens"],
        "wall": round(wall, 2),
        "total_tokens_s": round(sum(usage["generated_tokens"] for usage in usages) / wall, 1),
    }


def run_cell(node, cell, folder, draw):
    start, streams = time.monotonic(), []
    for index in range(cell.streams):
        prompt, said = folder / f"prompt{index}", folder / f"said{index}"
        prompt.write_text("".join(draw.choice(string.ascii_lowercase) for _ in range(cell.prompt)))
        command = [node.places["folioctl"], "generate", "--file", prompt, "--address", node.address("worker"), *cell.flags()]
        with open(said, "w") as out:
            streams.append((subprocess.Popen(command, stdout=out, stderr=out, env=node.places.environment()), said))
    codes = [process.wait() for process, _ in streams]
    wall = time.monotonic() - start
    texts = [said.read_text(errors="replace").strip() for _, said in streams]
    failed = [text for code, text in zip(codes, texts) if code != 0]
    if failed:
        return {"cell": cell.text, "failed": len(failed), "error": failed[0][-400:]}
    return summary(cell, [json.loads(text.splitlines()[-1])["finished"]["usage"] for text in texts], wall)


def run(options, say):
    cells = [Cell(text) for text in options.cells.split(",")]
    start, draw = time.monotonic(), random.Random(5)
    batch = max(cell.streams for cell in cells)
    places = Places(options.bin, options.lib)
    with tempfile.TemporaryDirectory(prefix="folio-load.") as name, Node(places, name, options.device, options.pool) as node:
        node.await_serving("manager", node.manager_address, start + 60)
        node.start_worker("worker", options.model, f"--max_batch={batch}", *options.worker_flag)
        node.await_serving("worker", node.address("worker"), start + 180)
        say({"start_seconds": round(time.monotonic() - start, 1), "model": options.model.name, "flags": options.worker_flag})
        for cell in cells:
            late = time.monotonic() - start > options.seconds
            say({"cell": cell.text, "skipped": "the time was up"} if late else run_cell(node, cell, pathlib.Path(name), draw))


def main(given=None):
    try:
        run(arguments(given), say=lambda record: print(json.dumps(record), flush=True))
    except Broken as why:
        sys.exit(f"suite.load: {why}")


if __name__ == "__main__":
    main()
