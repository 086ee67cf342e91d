"""Load on a node by `folioctl bench`, and the same load on vLLM where it is at hand."""

import json
import os
import pathlib
import subprocess
import sys

from .sections import execute, last_words, read_records


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
