"""The counts of one round, and of all rounds together."""

import collections
from dataclasses import dataclass, field


@dataclass
class Tally:
    """`ended` counts answers that ended without a result, by the reason that allows it. Times are in seconds."""

    right: int = 0
    tokens: int = 0
    poisoned: int = 0
    ended: collections.Counter = field(default_factory=collections.Counter)
    longest_wait: float = 0.0
    longest_quarantine: float = 0.0

    def add(self, other):
        self.right += other.right
        self.tokens += other.tokens
        self.poisoned += other.poisoned
        self.ended += other.ended
        self.longest_wait = max(self.longest_wait, other.longest_wait)
        self.longest_quarantine = max(self.longest_quarantine, other.longest_quarantine)


@dataclass(frozen=True)
class Round:
    """A fault and what came of it."""

    kind: str
    target: str
    seconds: float
    tally: Tally
