"""All kinds of faults, and the choice of those of a run."""

import random

from folio_chaos.faults import cache, callers, clock, journal, managers, processes, sockets, traffic

KINDS = [
    *processes.KINDS, *managers.KINDS, *journal.KINDS, *sockets.KINDS, *traffic.KINDS, *callers.KINDS, *cache.KINDS, *clock.KINDS
]  # fmt: skip


def plan(seed, count, only=None):
    """(kind, its random numbers) of each fault. Each kind, or each of those that `only` names, comes once before one comes again."""
    chance = random.Random(f"faults {seed}")
    chosen = [kind for kind in KINDS if not only or kind.kind in only]
    kinds = []
    while len(kinds) < count:
        kinds += chance.sample(chosen, len(chosen))
    return [(kind, random.Random(f"fault {seed} {number}")) for number, kind in enumerate(kinds[:count])]
