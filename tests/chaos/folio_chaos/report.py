"""The record of a run: what happened, where, and with which sources."""

import collections
import datetime
import functools
import json
import os
import pathlib
import re
import subprocess

from folio_chaos import bounds
from folio_chaos.run import NODES
from stubs import ROOT


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.+)", text)
    return f"{model[1] if model else os.uname().machine}, {os.cpu_count()} cores"


# A record is written after each fault, and is that of one day and one commit, which are those of the first.
@functools.cache
def day():
    return datetime.date.today().isoformat()


@functools.cache
def commit():
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True)
    if found.returncode:
        return "unknown"
    return found.stdout.strip() + (" with changes" if changed.stdout.strip() else "")


def summary(world, seconds):
    """Everything that a record says, as plain values."""
    by_kind = collections.Counter(one.kind for one in world.rounds)
    return {
        "date": day(),
        "machine": machine(),
        "commit": commit(),
        "seed": world.seed,
        "nodes": [
            {"name": name, "workers": workers, "ranks_of_each": ranks, "clients": clients, "pool": pool, "swap": swap}
            for name, ranks, workers, clients, pool, swap in NODES
        ],
        "faults": len(world.rounds),
        "faults_by_kind": {
            kind: {
                "count": count,
                "answers": sum(one.tally.right for one in world.rounds if one.kind == kind),
                "ended_early": sum(one.tally.ended.total() for one in world.rounds if one.kind == kind),
                "longest_seconds": round(max(one.seconds for one in world.rounds if one.kind == kind), 1),
            }
            for kind, count in sorted(by_kind.items())
        },
        "seconds": round(seconds),
        "rounds_repeated_because_the_machine_stood_still": world.stalled,
        "answers_right": world.total.right,
        "answers_wrong_or_late": len(world.wrong),
        "tokens_compared": world.total.tokens,
        "ended_early": dict(world.total.ended),
        "ended_data_loss_by_poison": world.total.poisoned,
        "sequences_claimed": world.counted_so_far["claimed"],
        "sequences_parked": world.counted_so_far["parked"],
        "of_them_swapped_out": world.counted_so_far["swapped_out"],
        "and_swapped_in": world.counted_so_far["swapped_in"],
        "managers_started_again": sum(node.managers - 1 for node in world.nodes),
        "workers_started_again": sum(node.restarts for node in world.nodes),
        "longest_wait_for_a_token_seconds": round(world.total.longest_wait, 1),
        "bound_of_that_wait_seconds": bounds.NEXT_TOKEN,
        "longest_quarantine_seconds": round(world.total.longest_quarantine, 1),
        "bound_of_quarantine_seconds": bounds.QUARANTINE,
        "pages_leaked": sum(one.leaked for one in world.daemons),
        "wrong": [one.words for one in world.wrong],
    }


def table(rows, heads):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def markdown(said):
    """The same for people."""
    nodes = "; ".join(f"{node['workers']} workers of {node['ranks_of_each']} ranks with {node['clients']} clients"
                      for node in said["nodes"])  # fmt: skip
    facts = [
        ("machine", said["machine"]),
        ("commit", said["commit"]),
        ("seed", said["seed"]),
        ("nodes", nodes),
        ("faults", said["faults"]),
        ("time", f"{said['seconds'] // 60} min {said['seconds'] % 60} s"),
        ("rounds repeated, because the machine stood still", said["rounds_repeated_because_the_machine_stood_still"]),
        ("answers equal to the calm ones", f"{said['answers_right']:,}"),
        ("tokens compared", f"{said['tokens_compared']:,}"),
        ("answers wrong, late or ended without a reason", said["answers_wrong_or_late"]),
        ("sequences claimed after a loss", f"{said['sequences_claimed']:,}"),
        ("times that a sequence was parked, swapped out, swapped in",
         f"{said['sequences_parked']:,}, {said['of_them_swapped_out']:,}, {said['and_swapped_in']:,}"),
        ("managers started again", said["managers_started_again"]),
        ("workers started again", said["workers_started_again"]),
        ("poisoned sequences, ended with `DATA_LOSS`", said["ended_data_loss_by_poison"]),
        ("longest wait for a token", f"{said['longest_wait_for_a_token_seconds']} s "
                                     f"(bound {said['bound_of_that_wait_seconds']} s)"),
        ("longest quarantine", f"{said['longest_quarantine_seconds']} s (bound {said['bound_of_quarantine_seconds']} s)"),
        ("pages leaked", said["pages_leaked"]),
    ]  # fmt: skip
    kinds = [(kind, *row.values()) for kind, row in said["faults_by_kind"].items()]
    ends = sorted(said["ended_early"].items()) or [("none", 0)]
    return "\n\n".join([
        f"# Faults under load, {said['date']}",
        "`tests/chaos/run.sh` wrote this" + (f", of {said['records']} records." if "records" in said else "."),
        table(facts, ["fact", "value"]),
        table(kinds, ["fault", "times", "answers", "ended early", "longest round in s"]),
        table(ends, ["why an answer ended early", "answers"]),
        *(["The run ended because of this:", *(f"    {line}" for line in said["wrong"])] if said["wrong"] else []),
    ]) + "\n"  # fmt: skip


def save(said, directory):
    """Writes both forms, and gives their paths without the suffix. The name of a part has its seed."""
    directory.mkdir(parents=True, exist_ok=True)
    cpu = re.search(r"EPYC|Xeon|Ryzen|Core|Neoverse", said["machine"])
    name = f"{said['date']}-{(cpu[0] if cpu else 'cpu').lower()}-{os.cpu_count()}-cores"
    if "records" not in said:
        name += f"-seed-{said['seed']}"
    (directory / f"{name}.json").write_text(json.dumps(said, indent=2) + "\n")
    (directory / f"{name}.md").write_text(markdown(said))
    return directory / name
