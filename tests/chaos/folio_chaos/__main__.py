"""python -m folio_chaos: injects faults under load, checks after each, and writes a record."""

import argparse
import pathlib
import random
import sys
import time

from folio_chaos.faults import plan
from folio_chaos.report import markdown, save, summary
from folio_chaos.run import run


def main():
    parser = argparse.ArgumentParser(prog="tests/chaos/run.sh", description=__doc__.split(": ", 1)[1])
    parser.add_argument("--faults", type=int, default=300, help="how many (default 300)")
    parser.add_argument("--seed", type=int, help="repeats a run's faults and requests (default: another one each time)")
    parser.add_argument("--out", type=pathlib.Path, help="the folder for the record (default: it is only printed)")
    parser.add_argument("--logs", type=pathlib.Path, help="the folder for the logs of the daemons, if something is wrong")
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    start = time.monotonic()
    world = run(seed, plan(seed, options.faults), say=lambda line: print(line, flush=True), logs=options.logs)
    said = summary(world, time.monotonic() - start)
    print(markdown(said))
    if options.out:
        print(f"written: {save(said, options.out)}.md")
    if world.wrong:
        print(f"repeat it with --seed={seed}", file=sys.stderr)
    return 1 if world.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
