"""python -m folio_chaos: injects faults under load, checks after each, and writes a record. Or it makes one record of several."""

import argparse
import json
import pathlib
import random
import sys
import time

from folio_chaos.faults import KINDS, plan
from folio_chaos.merge import merge
from folio_chaos.report import markdown, save, summary
from folio_chaos.run import run


def read_options():
    parser = argparse.ArgumentParser(prog="tests/chaos/run.sh", description=__doc__.split(": ", 1)[1])
    parser.add_argument("--faults", type=int, default=300, help="how many (default 300)")
    parser.add_argument("--seed", type=int, help="repeats a run's faults and requests (default: another one each time)")
    parser.add_argument("--only", choices=[kind.kind for kind in KINDS], action="append", help="faults of this kind alone; may be repeated")
    parser.add_argument("--out", type=pathlib.Path, help="the folder for the record (default: it is only printed)")
    parser.add_argument("--logs", type=pathlib.Path, help="the folder for the logs of the daemons, if something is wrong")
    parser.add_argument("--merge", type=pathlib.Path, nargs="+", metavar="RECORD",
                        help="runs nothing, and makes one record of these files (.json) of several runs")  # fmt: skip
    return parser.parse_args()


def show(said, out):
    print(markdown(said))
    if out:
        print(f"written: {save(said, out)}.md")


def main():
    options = read_options()
    if options.merge:
        show(merge([json.loads(path.read_text()) for path in options.merge]), options.out)
        return 0
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    start = time.monotonic()

    def said_of(world):
        return summary(world, time.monotonic() - start)

    def keep(world):
        if options.out:
            save(said_of(world), options.out)

    faults = plan(seed, options.faults, options.only)
    world = run(seed, faults, say=lambda line: print(line, flush=True), logs=options.logs, keep=keep)
    show(said_of(world), options.out)
    if world.wrong:
        print(f"repeat it with --seed={seed}", file=sys.stderr)
    return 1 if world.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
