"""python3 -m suite --bin DIR --out DIR [...]: see run.sh, which calls it.

Exit codes: 0 all that is to be right is right; 1 a section of correctness failed, or a benchmark broke;
2 bad arguments; 3 a section of correctness was not run; 77 there is no GPU.
"""

import argparse
import json
import os
import pathlib
import sys

from . import facts
from .places import Places
from .plan import Suite
from .sections import FAIL, NO_GPU, NOT_RUN, not_run, run_all
from .tables import render


def arguments(given):
    parser = argparse.ArgumentParser(prog="run.sh", description="Runs what needs a GPU on this machine's first.")
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of our programs")
    parser.add_argument("--lib", type=pathlib.Path, action="append", default=[], help="folder of shared libraries")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for results.json, results.md and logs")
    parser.add_argument("--model", type=pathlib.Path, help="the reference model, a GGUF file")
    parser.add_argument("--oracle", type=pathlib.Path, help="folder of generation.json")
    parser.add_argument("--seconds", type=float, default=470, help="for all of it")
    parser.add_argument("--only", default="", help="sections by name, with commas")
    parser.add_argument("--sanitizers", action="store_true", help="each tool of compute-sanitizer over all kernels, and no more")
    parser.add_argument("--nccl", type=pathlib.Path, help="folder of an NCCL for machines with an older one than 2.30")
    parser.add_argument("--commit", default="unknown", help="what was built")
    parser.add_argument("--vllm", default=os.environ.get("FOLIO_VLLM"),
                        help="folder of vLLM and of a bench.py that measures it; the section serve then has its rates too")
    parser.add_argument("--speed_flag", action="append", default=[], help="passed on to gpu_speed_bench")
    return parser.parse_args(given)


def choose(sections, only):
    names = [name for name in only.split(",") if name]
    unknown = sorted(set(names) - {one.name for one in sections})
    if unknown:
        known = ", ".join(one.name for one in sections)
        sys.exit(f"run.sh: --only: there is no section {unknown[0]}; there are {known}")
    return [one for one in sections if not names or one.name in names]


def exit_code(sections):
    """Of results that were written."""
    if any(one["state"] == FAIL for one in sections):
        return 1
    return 3 if any(one["state"] == NOT_RUN and one["kind"] == "correctness" for one in sections) else 0


def write(out, results):
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "results.md").write_text(render(results))
    print(f"[gpu] {out}/results.md and results.json")


def main(given=None):
    options = arguments(given)
    if options.model and not os.path.exists(options.model):
        print(f"run.sh: --model {options.model} does not exist", file=sys.stderr)
        return 2
    (options.out / "logs").mkdir(parents=True, exist_ok=True)
    results = {"commit": options.commit, **facts.gather()}
    gpus = (results["device"] or {}).get("gpus", 1)
    places = Places(options.bin, options.lib)
    suite = Suite(places, options.out, options.model, options.oracle, options.speed_flag, gpus, options.vllm)
    sections = choose(suite.sanitizers() if options.sanitizers else suite.sections(), options.only)
    if results["device"] is None:
        print(f"run.sh: no GPU: {results['why']}; nothing was run")
        write(options.out, {**results, "sections": not_run(sections, "no GPU"), "records": {}})
        return NO_GPU
    nccl = places.take_nccl(options.nccl)
    if nccl:
        print(f"[gpu] {nccl}")
        results["nccl"] = nccl
    done, records = run_all(sections, options.seconds)
    write(options.out, {**results, "device_after": facts.queried(), "sections": done, "records": records})
    return exit_code(done)


if __name__ == "__main__":
    sys.exit(main())
