"""Sections that put load on a node by `folioctl bench`, and the same load on vLLM where it is at hand."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from . import shape_model
from .node import Broken, Node, keep_logs
from .sections import FAIL, PASS, Outcome, execute, last_words, read_records

TO_END = 12  # seconds that the daemons may take to end


def outcome_of(name, work, words, logs, seconds):
    """The outcome of work(folder, left, records), which adds to the records and returns words about what went wrong.
    `left` gives the seconds that are left, `words` tells a record, and `logs` is the folder of the logs."""
    end, records, told = time.monotonic() + seconds - TO_END, [], []
    with tempfile.TemporaryDirectory(prefix=f"folio-{name}.") as folder:
        try:
            told = work(pathlib.Path(folder), lambda: max(0, end - time.monotonic()), records)
        except (Broken, subprocess.SubprocessError, OSError) as broken:
            return Outcome(FAIL, str(broken)[:400], records)
        finally:
            keep_logs(pathlib.Path(folder), logs / f"{name}.log")
    good = records and all(one["state"] == "measured" for one in records)
    return Outcome(PASS if good else FAIL, "; ".join([*map(words, records), *told]), records)


def run_cases(places, folder, shape, device, pool, left, worker_flags, cases, least):
    """The records of cases, each of which is what names it and run(node), on a node with a model of that shape. None is begun
    with less than so many seconds."""
    shape_model.write(folder / "model", shape)
    records = []
    with Node(places, folder, device, pool) as node:
        node.await_serving("manager", node.manager_address, time.monotonic() + left())
        node.start_worker("worker", folder / "model", *worker_flags)
        node.await_serving("worker", node.address("worker"), time.monotonic() + left())
        for named, run in cases:
            found = {"state": "not run", "detail": "the time was up"} if left() < least else run(node)
            records.append({**named, **found})
            if node.processes["worker"].poll() is not None:
                raise Broken(f"the worker has ended: {node.words('worker')}")
    return records


def tell(prog, outcome):
    for record in outcome.records:
        print(json.dumps(record), flush=True)
    if outcome.state != PASS:
        sys.exit(f"{prog}: {outcome.detail}")


def bench(node, name, seconds, *flags):
    """(the JSON of `folioctl bench`, or None; why there is none). Its files in the node's folder begin with `name`."""
    told, log = node.folder / f"{name}.json", node.folder / f"{name}.log"
    command = [node.places["folioctl"], "bench", "--address", node.address("worker"), *flags, f"--json={told}"]
    done = execute(command, node.places.environment(), seconds, log)
    if done.code == 0:
        return json.loads(told.read_text()), ""
    return None, f"stopped after {seconds:.0f} s" if done.code is None else last_words(done.text, 1)


def vllm(folder, shapes, cells, seconds, log, work):
    """What vLLM's engine says of each cell, by shape, streams and context. `cells` are texts like 64x1024. `folder` has
    bench.py and the folder `site` of its packages, or unpack.sh, which makes both of what lies beside it. `work` is a folder
    for that and for vLLM's caches."""
    folder = pathlib.Path(folder)
    if (folder / "unpack.sh").exists():
        subprocess.run(["bash", folder / "unpack.sh", folder, work / "vllm"], capture_output=True, check=True, timeout=seconds)
        folder = work / "vllm"
    command = [sys.executable, folder / "bench.py", "--groups", ",".join(shapes), "--cells", ",".join(dict.fromkeys(cells)),
               "--seconds", f"{max(1, seconds - 5):.0f}"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(folder / "site"), "BENCH_TMP": str(work / "vllm_cache")}
    records = read_records(execute([str(word) for word in command], environment, seconds, log).text)
    return {(one["group"], one["batch"], one["context"]): one for one in records if "decode_tok_s" in one}


def ask_vllm(folder, shapes, cells, seconds, log, work):
    """(what it says, words about what went wrong). Folio's own figures count without it."""
    if not folder:
        return {}, []
    try:
        found = vllm(folder, shapes, cells, seconds, log, work)
    except (subprocess.SubprocessError, OSError) as error:
        return {}, [f"vLLM: {error}"[:300]]
    return found, [] if found else [f"vLLM gave no rate: see {pathlib.Path(log).name}"]
