"""What programs share that answer a prompt under all its settings at once and by themselves: flags, prompts, judgement, results."""

import argparse
import collections
import dataclasses
import os
import sys
import time
import types

from folio_eval import cli, measures
from folio_eval import store as lines
from folio_eval.asking import Place
from folio_eval.items import Item
from folio_eval.node import Node
from folio_eval.runner import Questions, plan
from folio_eval.subject import Subject
from folio_eval.tasks import find
from folio_eval.tasks.streams import TAIL, Perplexity


def parser(program, description):
    top = argparse.ArgumentParser(prog=program, description=description)
    top.add_argument("--tasks", type=cli.listed(), required=True, help="of folio_eval")
    top.add_argument("--budgets", type=cli.listed(int), required=True, help="tokens per layer, multiples of 16")
    top.add_argument("--lengths", type=cli.listed(int), default=[1024], help="of the prompts, in tokens (1024)")
    top.add_argument("--seeds", type=cli.seeds, default=[0], help="how many from 0, or which: 100-102 (only 0)")
    top.add_argument("--prompts", type=int, default=16, help="of each task, length and seed (16)")
    top.add_argument("--jobs", type=int, default=os.cpu_count(), help="processors to use (all)")
    top.add_argument("--model", default=os.environ.get("FOLIO_MODEL"), help="the reference model's file ($FOLIO_MODEL)")
    top.add_argument("--bin", help="folder of folio-manager and folio-worker, which make the prompts ($FOLIO_BIN)")
    top.add_argument("--out", required=True, help="file of results, to which lines are appended")
    return top


@dataclasses.dataclass(frozen=True)
class Answer:
    """What was computed at the places of an item's answer, one entry each."""

    logprobs: list  # of the answer's tokens
    best: list  # the likeliest tokens
    known: list  # {token: log-probability}, as measures.known gives it


def measured(task, item, answer, full):
    """The measures of an answer, as folio_eval takes them. `full` is the answer of the full cache."""
    if isinstance(find(task)[0], Perplexity):
        return {"nll": -sum(answer.logprobs) / TAIL, "kl": measures.mean_divergence(full.known, answer.known)}
    # The answer alone was computed, so nothing comes before it.
    alone = dataclasses.replace(item, forced=())
    return measures.judge(alone, answer.logprobs, [[types.SimpleNamespace(token=token)] for token in answer.best])


@dataclasses.dataclass(frozen=True)
class Prompt:
    """One prompt and all that wait for its outcomes: `members` are (cell, what is known of the cell)."""

    members: tuple
    index: int
    task: str
    item: Item

    @property
    def settings(self):
        return [cell.setting for cell, _ in self.members]


class Prompts:
    """The prompts of the cells that `options.out` has not got yet."""

    def __init__(self, options, wanted):
        self.store = lines.Store(options.out)
        groups = collections.defaultdict(list)
        for cell, state in plan(wanted, options.prompts, self.store).items():
            groups[cell.task, cell.length, cell.seed, state.first].append((cell, state))
        with Node(options.model, options.bin) as node:
            self.subject = Subject(node.client)
            questions = Questions(self.subject)
            self.asked = [
                Prompt(tuple(members), index, task, questions(Place(task, length, seed, index)))
                for (task, length, seed, first), members in groups.items()
                for index in range(first, first + members[0][1].count)
            ]

    def write(self, outcomes):
        """`outcomes` gives the measures of each setting of each of `asked`, in order; a cell is written as it ends."""
        begun = time.monotonic()
        for done, (asked, rows) in enumerate(zip(self.asked, outcomes, strict=True), 1):
            for (cell, state), row in zip(asked.members, rows, strict=True):
                state.outcomes[asked.index] = row
                if len(state.outcomes) == state.count:
                    rows_of_cell = [state.outcomes[at] for at in sorted(state.outcomes)]
                    self.store.append({**lines.header(cell, state.first), "measures": lines.measured(rows_of_cell)})
            print(f"[{time.monotonic() - begun:.0f} s] {done} of {len(self.asked)} prompts", file=sys.stderr, flush=True)
