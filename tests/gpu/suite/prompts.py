"""python3 -m suite.prompts --bin DIR [--lib DIR] [--shapes 1b,8b] [--vllm DIR]: prompts through sockets, with default flags.

For each shape, folio-manager and folio-worker run with a model of true shape and random weights. `folioctl bench` sends prompts that
arrive together, then single long ones, and then long ones beside streams that decode. The first two cases are measured in tokens/s,
up to the last first token; with --vllm, that of vLLM's engine stands beside them. The third is the time between two tokens of a
stream. PagedEviction holds these streams to the length of their prompts, so that a step without prompts takes the same time
throughout.
"""

import argparse
import concurrent.futures
import os
import pathlib
import statistics
import time

from . import load, shape_model
from .places import Places

TOGETHER, ALONE = (64, 1024), (1, 8192)  # prompts at once, and their tokens
REPEATS = 3
STREAMS = 32  # that decode while long prompts arrive
STREAM_TOKENS = 1024  # of their prompts, and their budget
STREAM_SECONDS = 11  # so long do they decode at least, which is until the last prompt is computed
STEP_MS = {"1b": 1.2, "3b": 2.5, "8b": 5, "tiny": 40}  # the least that a step of theirs takes
ARRIVALS = 6  # long prompts beside streams, one a second
LEAST = 15  # seconds with which a case is begun


def cell_flags(requests, tokens, output, repeats=1):
    return [f"--concurrency={requests}", f"--requests={requests * repeats}", f"--prompt_tokens={tokens}",
            f"--output_tokens={output}"]  # fmt: skip


def rate(node, requests, tokens, seconds):
    """The record of prompts that arrive together: the median of several runs, each of which begins with nothing under way.
    An answer is one token, which comes with the prompt."""
    lasts, end = [], time.monotonic() + seconds
    for repeat in range(REPEATS):
        left = max(1, end - time.monotonic())
        found, why = load.bench(node, f"prompts_{requests}_{repeat}", left, *cell_flags(requests, tokens, 1))
        if not found or found["results"]["failed"]:
            return {"state": "failed", "detail": why or f"{found['results']['failed']} requests failed"}
        lasts.append(found["results"]["ttft_ms"]["max"])
    last = statistics.median(lasts)
    return {"state": "measured", "ttft_ms_max": round(last, 2), "tokens_s": round(1e3 * requests * tokens / last, 1),
            "device": found["model"]["device"]}  # fmt: skip


def beside(node, shape, tokens, seconds):
    """The record of streams that decode while long prompts arrive."""
    output = int(1e3 * STREAM_SECONDS / STEP_MS[shape])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        flags = cell_flags(STREAMS, STREAM_TOKENS, output)
        streams = pool.submit(load.bench, node, "streams", seconds, *flags, f"--policy=paged_eviction:{STREAM_TOKENS}")
        time.sleep(STREAM_SECONDS / 8)  # until all of them decode
        arriving, why = load.bench(node, "arriving", seconds, "--request_rate=1", f"--requests={ARRIVALS}",
                                   f"--prompt_tokens={tokens}", "--output_tokens=2")  # fmt: skip
        ended_first = streams.done()
        decoding, why_not = streams.result()
    if not arriving or not decoding:
        return {"state": "failed", "detail": why or why_not}
    if ended_first:
        return {"state": "failed", "detail": "the streams ended before the last prompt was computed"}
    gaps, first = decoding["results"]["itl_ms"], arriving["results"]["ttft_ms"]
    return {"state": "measured", "prompts": ARRIVALS, "output": output,
            **{f"itl_ms_{key}": round(gaps[key], 3) for key in ("p50", "p99", "max")},
            **{f"ttft_ms_{key}": round(first[key], 2) for key in ("p50", "max")}}  # fmt: skip


def measure(places, shape, device, pool, folder, left, flags, long):
    """The records of a shape."""
    requests, tokens = TOGETHER if long == ALONE[1] else (TOGETHER[0], long // 2)
    cases = [
        ("prompts", requests, tokens, lambda node: rate(node, requests, tokens, left())),
        ("prompts", 1, long, lambda node: rate(node, 1, long, left())),
        ("beside", STREAMS, long, lambda node: beside(node, shape, long, left())),
    ]
    named = [({"record": kind, "model": shape_model.NAMES[shape], "shape": shape, "batch": batch, "context": context}, run)
             for kind, batch, context, run in cases]  # fmt: skip
    (folder / shape).mkdir()
    return load.run_cases(places, folder / shape, shape, device, pool, left, flags, named, LEAST)


def words(one):
    name = f"{one['model']} {one['batch']}x{one['context']}"
    if one["state"] != "measured":
        return f"{name}: {one['state']}, {one['detail']}"
    if one["record"] == "beside":
        return f"{name}: between tokens {one['itl_ms_p50']:.2f} and {one['itl_ms_p99']:.2f} ms (p50, p99)"
    peer = f", vLLM {one['vllm_tokens_s']:,.0f}/s" if "vllm_tokens_s" in one else ""
    return f"{name}: {one['tokens_s']:,.0f}/s{peer}"


def run(places, logs, seconds, shapes=("1b", "8b"), device="cuda:0", pool="40GiB", vllm_folder=None, worker_flags=(),
        long=ALONE[1]):  # fmt: skip
    """The outcome, with a record for each case. `long` is the length of a long prompt."""
    logs = pathlib.Path(logs)

    def work(folder, left, records):
        for shape in shapes:
            records += measure(places, shape, device, pool, folder, left, worker_flags, long)
        cells = [f"{streams}x{context}" for streams, context in (TOGETHER, ALONE)]
        peer, told = load.ask_vllm(vllm_folder, shapes, cells, max(1, left()), logs / "prompts_vllm.log", folder)
        for one in records:
            if found := peer.get((one["shape"], one["batch"], one["context"])):
                one |= {"vllm_tokens_s": found["prefill_tok_s"], "vllm_decode_tokens_s": found["decode_tok_s"]}
        return told

    return load.outcome_of("prompts", work, words, logs, seconds)


def main(given=None):
    parser = argparse.ArgumentParser(prog="suite.prompts", description="Prompts through sockets, with default flags.")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of our programs")
    parser.add_argument("--lib", type=pathlib.Path, action="append", default=[], help="folder of shared libraries")
    parser.add_argument("--shapes", default="1b,8b")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--pool", default="40GiB", help="the manager's --pool_bytes")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--vllm", default=os.environ.get("FOLIO_VLLM"), help="folder of vLLM and its bench.py")
    parser.add_argument("--worker_flag", action="append", default=[], help="passed on to folio-worker")
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("."), help="folder for logs")
    options = parser.parse_args(given)
    load.tell(parser.prog, run(Places(options.bin, options.lib), options.logs, options.seconds, options.shapes.split(","),
                               options.device, options.pool, options.vllm, options.worker_flag))  # fmt: skip


if __name__ == "__main__":
    main()
