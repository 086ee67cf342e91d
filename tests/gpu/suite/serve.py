"""python3 -m suite.serve --bin DIR [--lib DIR] [--shape 1b] [--cells ...] [--vllm DIR]: decode rates through sockets.

Starts folio-manager and folio-worker with a model of true shape and random weights, and drives them with `folioctl bench`. Each
cell is STREAMSxCONTEXT, with /BUDGET behind it where PagedEviction holds the streams to a budget. Beside each rate stands that of
the same cell with everything in one process (gpu_speed_bench) and, with --vllm, that of vLLM. A line of JSON per cell is printed.

The rate is that of the time in which all streams decode. The first streams decode while prompts of others are still computed, so
lengths are such that a long such time remains, and that the mean context of that time is the cell's.
"""

import argparse
import dataclasses
import os
import pathlib
import time

from . import load, shape_model
from .places import Places
from .sections import execute, read_records

CELLS = ("64x1024", "128x1024", "64x8192/1024")
CHUNK = 128  # prompt tokens of a step beside streams, by default; larger ones only leave more time
WINDOW = 512  # tokens of each stream that come while all decode, at least
LEAST = 20  # seconds with which a cell or a peer is begun


@dataclasses.dataclass(frozen=True)
class Cell:
    streams: int
    context: int
    budget: int  # 0: the full cache

    @staticmethod
    def parse(text):
        size, _, budget = text.partition("/")
        streams, context = size.split("x")
        return Cell(int(streams), int(context), int(budget or 0))

    def text(self):
        return f"{self.streams}x{self.context}{f'/{self.budget}' if self.budget else ''}"

    def lengths(self):
        """Tokens of a prompt and of its answer."""
        if self.budget:
            return self.context, self.streams * self.context // CHUNK + WINDOW
        return self.context // 2, self.context

    def flags(self):
        policy = f"paged_eviction:{self.budget}" if self.budget else "full"
        return [f"--concurrency={self.streams}", f"--requests={self.streams}", f"--policy={policy}"]


def places_for(cells):
    """folio-worker's --max_batch with which all streams run: an eighth of the places is for short prompts."""
    most = max(cell.streams for cell in cells)
    return next(batch for batch in range(most, 2 * most + 1) if batch - batch // 8 >= most)


def summary(cell, found):
    """What `folioctl bench` has found, as a record."""
    results, full = found["results"], found["results"]["all_decoding"]
    prompt, output = cell.lengths()
    record = {
        "state": "measured", "tokens_s": round(full["output_tokens_per_s"], 1), "seconds": round(full["duration_s"], 3),
        "prompt": prompt, "output": output, "run_tokens_s": round(results["output_tokens_per_s"], 1),
        "prefill_tokens_s": round(1e3 * results["prompt_tokens"] / results["ttft_ms"]["max"], 1),
        "device": found["model"]["device"],
    }  # fmt: skip
    for measure in ("ttft_ms", "itl_ms"):
        record |= {f"{measure}_{key}": round(results[measure][key], 3) for key in ("p50", "p99", "max")}
    if not full["output_tokens"]:
        record |= {"state": "failed", "detail": "no moment in which all streams decoded"}
    return record


def ask(node, cell, what, prompt, output, seconds):
    flags = [*cell.flags(), f"--prompt_tokens={prompt}", f"--output_tokens={output}"]
    return load.bench(node, f"{what}_{cell.streams}_{cell.context}", seconds, *flags)


def serve_cell(node, cell, seconds):
    """The record of a cell. A short run before it loads the kernels and records the graphs."""
    end = time.monotonic() + seconds
    found, why = ask(node, cell, "warm", 32, 8, seconds)
    if found:
        found, why = ask(node, cell, "bench", *cell.lengths(), max(1, end - time.monotonic()))
    return summary(cell, found) if found else {"state": "failed", "detail": why}


def rig(places, shape, cells, seconds, log, flags):
    """Tokens/s of each cell with everything in one process, by cell; nothing where it cannot be measured."""
    if places.why_not("gpu_speed_bench"):
        return {}
    command = [places["gpu_speed_bench"], f"--models={shape}", f"--cells={','.join(cell.text() for cell in cells)}",
               f"--seconds={max(1, seconds - LEAST):.0f}", *flags]  # fmt: skip
    records = read_records(execute(command, places.environment(), seconds, log).text)
    return {(one["batch"], one["context"], one["budget"]): one["tokens_s"] for one in records
            if one.get("record") == "decode" and one.get("state") == "measured" and one.get("steps")}  # fmt: skip


def served(places, shape, cells, device, pool, folder, left, worker_flags):
    """The record of each cell."""
    cases = [({"record": "serve", "model": shape_model.NAMES[shape], "batch": cell.streams, "context": cell.context,
               "budget": cell.budget}, lambda node, cell=cell: serve_cell(node, cell, left())) for cell in cells]  # fmt: skip
    flags = [f"--max_batch={places_for(cells)}", *worker_flags]
    return load.run_cases(places, folder, shape, device, pool, left, flags, cases, LEAST)


def compare(records, in_process, peer):
    """Adds the rates of others, and the share of the first."""
    for one in records:
        rate = in_process.get((one["batch"], one["context"], one["budget"]))
        if one["state"] == "measured" and rate:
            one |= {"in_process_tokens_s": rate, "share": round(one["tokens_s"] / rate, 4)}
        if other := peer.get((one["batch"], one["context"])):
            one["vllm_tokens_s"] = other


def words(one):
    if one["state"] != "measured":
        return f"{one['batch']}x{one['context']}: {one['state']}, {one['detail']}"
    share = f", {100 * one['share']:.1f} % of one process" if "share" in one else ""
    return f"{one['batch']}x{one['context']}{'/' + str(one['budget']) if one['budget'] else ''}: {one['tokens_s']:,.0f}/s{share}"


def run(places, logs, seconds, shape="1b", cells=CELLS, device="cuda:0", pool="40GiB", vllm_folder=None, rig_flags=(),
        worker_flags=()):  # fmt: skip
    """The outcome, with a record for each cell. `logs` is the folder of the logs."""
    logs, cells = pathlib.Path(logs), [Cell.parse(text) for text in cells]

    def work(folder, left, records):
        # The daemons have ended before the others begin, which take all of the GPU's memory.
        records += served(places, shape, cells, device, pool, folder, left, worker_flags)
        in_process = rig(places, shape, cells, left(), logs / "serve_rig.log", rig_flags) if left() > LEAST else {}
        wanted = [f"{cell.streams}x{cell.context}" for cell in cells]
        peer, told = load.ask_vllm(vllm_folder, [shape], wanted, max(1, left()), logs / "serve_vllm.log", folder)
        compare(records, in_process, {key[1:]: found["decode_tok_s"] for key, found in peer.items()})
        return told

    return load.outcome_of("serve", work, words, logs, seconds)


def main(given=None):
    parser = argparse.ArgumentParser(prog="suite.serve", description="Decode rates through sockets.")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of our programs")
    parser.add_argument("--lib", type=pathlib.Path, action="append", default=[], help="folder of shared libraries")
    parser.add_argument("--shape", default="1b", choices=sorted(shape_model.SHAPES))
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--pool", default="40GiB", help="the manager's --pool_bytes")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--vllm", default=os.environ.get("FOLIO_VLLM"), help="folder of vLLM and its bench.py")
    parser.add_argument("--worker_flag", action="append", default=[], help="passed on to folio-worker")
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("."), help="folder for logs")
    options = parser.parse_args(given)
    load.tell(parser.prog, run(Places(options.bin, options.lib), options.logs, options.seconds, options.shape,
                               options.cells.split(","), options.device, options.pool, options.vllm,
                               worker_flags=options.worker_flag))  # fmt: skip


if __name__ == "__main__":
    main()
