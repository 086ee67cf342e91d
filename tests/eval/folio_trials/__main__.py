"""Tries scores of tokens on the reference model in NumPy, on the prompts of folio_eval.

    python -m folio_trials --tasks needle_4_prose:blind --trials full,window:0.5|difference~ --budgets 256 --out trials.jsonl

The lines are those of folio_eval, so its `compare` and `report` read them."""

import argparse
import collections
import multiprocessing
import os
import sys
import time

from folio_eval import cells, cli
from folio_eval import store as lines
from folio_eval.asking import Place
from folio_eval.node import Node
from folio_eval.runner import Questions, plan
from folio_eval.subject import Subject
from folio_trials.asking import again_words
from folio_trials.processes import begin, work


def parser():
    top = argparse.ArgumentParser(prog="folio_trials", description=__doc__.splitlines()[0])
    top.add_argument("--tasks", type=cli.listed(), required=True, help="of folio_eval")
    top.add_argument("--trials", type=cli.listed(), required=True, help="such as full,window:0.5|difference~,leverage&mutual")
    top.add_argument("--budgets", type=cli.listed(int), required=True, help="tokens per layer, multiples of 16")
    top.add_argument("--lengths", type=cli.listed(int), default=[1024])
    top.add_argument("--seeds", type=cli.seeds, default=[0])
    top.add_argument("--prompts", type=int, default=16)
    top.add_argument("--layers", type=cli.listed(), default=[None])
    top.add_argument("--prompt-share", type=cli.listed(float), default=[None])
    top.add_argument("--segments", type=cli.listed(int), default=[None])
    top.add_argument("--jobs", type=int, default=os.cpu_count())
    top.add_argument("--model", default=os.environ.get("FOLIO_MODEL"))
    top.add_argument("--bin")
    top.add_argument("--out", required=True)
    return top


def main():
    options = parser().parse_args()
    store = lines.Store(options.out)
    others = {name: getattr(options, name) for name in ("layers", "prompt_share", "segments")}
    wanted = cells.grid(
        options.tasks, options.trials, options.budgets, options.lengths, options.seeds, spell=str, **others
    )
    todo = plan(wanted, options.prompts, store)
    groups = collections.defaultdict(list)
    for cell, state in todo.items():
        groups[cell.task, cell.length, cell.seed, state.first].append((cell, state))
    jobs, owners = [], []
    with Node(options.model, options.bin) as node:
        subject = Subject(node.client)
        questions = Questions(subject)
        again = again_words(subject) if any("again" in trial for trial in options.trials) else ()
        for (task, length, seed, first), members in groups.items():
            for index in range(first, first + members[0][1].count):
                item = questions(Place(task, length, seed, index))
                jobs.append((task, item, [cell.setting for cell, _ in members], again))
                owners.append((members, index))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of the processes below
    begun = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs, begin, (options.model,)) as pool:
        for done, ((members, index), outcomes) in enumerate(zip(owners, pool.imap(work, jobs)), 1):
            for (cell, state), outcome in zip(members, outcomes):
                state.outcomes[index] = outcome
                if len(state.outcomes) == state.count:
                    rows = [state.outcomes[at] for at in sorted(state.outcomes)]
                    store.append({**lines.header(cell, state.first), "measures": lines.measured(rows)})
            print(f"[{time.monotonic() - begun:.0f} s] {done} of {len(jobs)} prompts", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
