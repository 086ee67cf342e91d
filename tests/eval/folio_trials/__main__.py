"""Tries scores of tokens on the reference model in NumPy, on the prompts of folio_eval.

    python -m folio_trials --tasks needle_4_prose:blind --trials full,window:0.5|difference~ --budgets 256 --out trials.jsonl

The lines are those of folio_eval, so its `compare` and `report` read them."""

import multiprocessing
import os

from folio_eval import cells, cli, together
from folio_trials.asking import again_words
from folio_trials.processes import begin, work


def parser():
    top = together.parser("folio_trials", __doc__.splitlines()[0])
    top.add_argument("--trials", type=cli.listed(), required=True, help="such as full,window:0.5|difference~,leverage&mutual")
    top.add_argument("--layers", type=cli.listed(), default=[None], help="per_layer, shared")
    top.add_argument("--prompt-share", type=cli.listed(float), default=[None])
    top.add_argument("--segments", type=cli.listed(int), default=[None])
    return top


def main():
    options = parser().parse_args()
    others = {name: getattr(options, name) for name in ("layers", "prompt_share", "segments")}
    wanted = cells.grid(
        options.tasks, options.trials, options.budgets, options.lengths, options.seeds, spell=str, **others
    )
    prompts = together.Prompts(options, wanted)
    again = again_words(prompts.subject) if any("again" in trial for trial in options.trials) else ()
    jobs = [(asked.task, asked.item, asked.settings, again) for asked in prompts.asked]
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of the processes below
    with multiprocessing.get_context("spawn").Pool(options.jobs, begin, (options.model,)) as pool:
        prompts.write(pool.imap(work, jobs))


if __name__ == "__main__":
    main()
