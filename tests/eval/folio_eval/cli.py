"""The command line: run, report, table, compare, tasks."""

import argparse
import os
import signal
import sys

import folio

from folio_eval import cells, tasks
from folio_eval.node import Elsewhere, Node, NodeError
from folio_eval.progress import Progress
from folio_eval.runner import Run, asker_of, plan, weight
from folio_eval.store import ResultsError, Store
from folio_eval.subject import Subject

INTERRUPTED = 130
# Settings of the cache that are lists of values to try, beside policies and budgets.
OTHERS = ("sink", "recent", "schedule", "compaction", "layers", "prompt_share", "protect_ends", "segments")


def listed(convert=str):
    """A list with commas; commas inside a policy's text form stay where they are."""

    def parse(text):
        return [convert(part) for part in text.split(",") if part]

    parse.__name__ = "list"
    return parse


def policies(text):
    """Policies with commas between them. Parameters have commas too: what begins no kind belongs to the one before."""
    found = []
    for part in filter(None, text.split(",")):
        if part.partition(":")[0] in folio.policies.KINDS:
            found.append(part)
        elif found:
            found[-1] += "," + part
        else:
            raise argparse.ArgumentTypeError(f"no policy begins with {part!r}")
    try:
        return [str(folio.policy(one)) for one in found]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def budgets(text):
    try:
        return [cells.parse_budget(part) for part in text.split(",") if part]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def compactions(text):
    try:
        return [cells.parse_compaction(part) for part in text.split(",") if part]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seeds(text):
    """"3" is the seeds 0, 1, 2; "100-102" and "7,9" are these."""
    try:
        if "," in text or "-" in text:
            ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
            return [seed for end in ends for seed in range(end[0], end[-1] + 1)]
        return list(range(int(text)))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of seeds nor seeds such as 100-102") from None


def parser():
    top = argparse.ArgumentParser(prog="folio_eval", description=__doc__.splitlines()[0])
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="ask every task under every policy and budget")
    run.add_argument("--tasks", type=listed(), required=True, help="such as needle_prose,needle_4:blind,longbench:FILE")
    run.add_argument("--policies", type=policies, required=True, help="such as full,random,kv_crush:key_diff,share=0.25")
    run.add_argument("--budgets", type=budgets, default=[], help="tokens, or shares of the prompt such as 0.25")
    run.add_argument("--lengths", type=listed(int), default=[2048], help="tokens of the prompts (2048)")
    run.add_argument("--seeds", type=seeds, default=[0], help='how many from 0, or which: "3", "100-102" (1)')
    run.add_argument("--prompts", type=int, default=16, help="of each seed (16)")
    run.add_argument("--sink", type=listed(int), default=[None], help="sink_tokens to try (the manager's default)")
    run.add_argument("--recent", type=listed(int), default=[None], help="recent_tokens to try (the manager's default)")
    run.add_argument("--schedule", type=listed(), default=[None], help="uniform, pyramid (the manager's default)")
    run.add_argument("--compaction", type=compactions, default=[None],
                     help="when prompts are compacted: whole,streamed,streamed:128 (the manager's choice)")  # fmt: skip
    run.add_argument("--layers", type=listed(), default=[None], help="per_layer, shared (the manager's default)")
    run.add_argument("--prompt-share", type=listed(float), default=[None], help="prompt_share to try (0)")
    run.add_argument("--protect-ends", type=listed(float), default=[None], help="protect_ends to try (0)")
    run.add_argument("--segments", type=listed(int), default=[None], help="segments to try (1)")
    run.add_argument("--maps", type=listed(), help="tasks to keep maps of resident positions of (the first one)")
    run.add_argument("--jobs", type=int, default=4, help="requests in flight (4)")
    run.add_argument("--out", required=True, help="results, a JSON line per cell; what it holds is not done again")
    run.add_argument("--dry-run", action="store_true", help="say what there is to do, and end")
    where = run.add_argument_group("processes (started here, unless --address is given)")
    where.add_argument("--address", help="of a worker that runs")
    where.add_argument("--manager", help="of its manager")
    where.add_argument("--model", default=os.environ.get("FOLIO_MODEL"), help="$FOLIO_MODEL")
    where.add_argument("--bin", help="folder of folio-manager and folio-worker ($FOLIO_BIN, build/bin)")
    where.add_argument("--pool", help="the manager's --pool_bytes")
    where.add_argument("--threads", type=int, default=0, help="the worker's --threads")
    where.add_argument("--worker-flag", action="append", default=[], help="another flag for folio-worker; may come again")
    report = commands.add_parser("report", help="a page and plots of results")
    report.add_argument("results", nargs="+")
    report.add_argument("--out", required=True, help="folder for report.html and the plots")
    report.add_argument("--title", default="What eviction costs")
    table = commands.add_parser("table", help="results as Markdown, for a page")
    table.add_argument("results", nargs="+")
    table.add_argument("--tasks", type=listed(), help="only these")
    table.add_argument("--budgets", type=budgets, help="only these")
    compare = commands.add_parser("compare", help="is one policy better than another by more than the interval?")
    compare.add_argument("better", help="such as key_diff+layers=shared/streamed:128@256, of which the policy is enough")
    compare.add_argument("than", help="another")
    compare.add_argument("results", nargs="+")
    commands.add_parser("tasks", help="list the tasks")
    return top


def node_of(options):
    if options.address:
        return Elsewhere(options.address, options.manager)
    return Node(options.model, options.bin, options.pool, options.threads, options.worker_flag)


def run(options):
    others = {name: getattr(options, name) for name in OTHERS}
    wanted = cells.grid(options.tasks, options.policies, options.budgets, options.lengths, options.seeds, **others)
    for name in options.tasks:
        tasks.find(name)
    results = Store(options.out)
    todo = plan(wanted, options.prompts, results)
    asked = sum(state.count for state in todo.values())
    print(f"[eval] {len(todo)} of {len(wanted)} cells to do, {asked} prompts", file=sys.stderr)
    if not todo or options.dry_run:
        return 0
    total = sum(weight(cell) * state.count for cell, state in todo.items())
    with node_of(options) as node:
        progress = Progress(total, sys.stderr)
        going = Run(
            asker_of(Subject(node.client)), results, progress, options.jobs,
            check=node.check, stop=node.client.close, mapped=options.maps or options.tasks[:1],
        )  # fmt: skip
        try:
            going(todo)
        except KeyboardInterrupt:
            progress.note(f"[eval] stopped; what is done is in {options.out}, the same command goes on from there")
            return INTERRUPTED
    print(f"[eval] results are in {options.out}", file=sys.stderr)
    if going.failed:
        print(f"[eval] {len(going.failed)} cells FAILED; the same command tries them again", file=sys.stderr)
    return 1 if going.failed else 0


def main(arguments=None):
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.command == "run":
            return run(options)
        if options.command == "tasks":
            print("\n".join([*tasks.TASKS, *(f"{kind}:PATH" for kind in tasks.FILES)]))
            return 0
        from folio_eval import compare, markdown, report

        return {"report": report, "table": markdown, "compare": compare}[options.command].main(options)
    except (NodeError, ResultsError, tasks.TaskError, ValueError, OSError, folio.FolioError) as error:
        print(f"folio_eval: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
