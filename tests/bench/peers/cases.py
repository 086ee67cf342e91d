"""What is measured, the same for Folio and every peer."""

import json
import time

PREFILL = [512, 2048, 4096]
PREFILL_EVICT = [2048]
# (sequences, context, evict): evict keeps 1,024 tokens of each sequence.
DECODE = [(1, 1024, False), (8, 1024, False), (8, 2048, False), (8, 4096, False), (16, 2048, False),
          (8, 2048, True), (8, 4096, True), (16, 2048, True)]
# With models of a billion weights and more.
LARGE_PREFILL = [2048]
LARGE_DECODE = [(1, 1024, False), (8, 2048, False)]
DECODE_STEPS = 48
REPEATS = 3


def prompt_ids(length, seed):
    """Ids that no prefix cache can share between sequences."""
    return [(i * 7919 + seed * 104729) % 40000 + 1000 for i in range(length)]


def best(measure, repeats=REPEATS):
    """Highest of some repeats: the machine is shared, and noise only ever slows down."""
    return max(measure(i) for i in range(repeats))


def clock():
    return time.perf_counter()


def emit(path, peer, results):
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"peer": peer, "results": results}, out, indent=1)
