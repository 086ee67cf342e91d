"""All kinds of faults, and the choice of those of a run."""

import random

from folio_chaos.faults import cache, clock, processes, sockets

KINDS = [*processes.KINDS, *sockets.KINDS, *cache.KINDS, *clock.KINDS]


def plan(seed, count):
    """(kind, its random numbers) of each fault. Each kind comes once before one comes again."""
    chance = random.Random(f"faults {seed}")
    kinds = []
    while len(kinds) < count:
        kinds += chance.sample(KINDS, len(KINDS))
    return [(kind, random.Random(f"fault {seed} {number}")) for number, kind in enumerate(kinds[:count])]
