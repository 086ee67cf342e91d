"""The grid of a run: every cell is one task under one setting of the cache, for the prompts of one seed."""

import dataclasses
import itertools

import folio


@dataclasses.dataclass(frozen=True, order=True)
class Setting:
    """How a sequence is held to its budget. `budget` is in tokens (int) or a share of the prompt (float). `compaction` is
    "whole", "streamed", or with its stride in tokens "streamed:128"; None lets the manager choose."""

    policy: str
    budget: int | float | None = None
    sink: int | None = None
    recent: int | None = None
    schedule: str | None = None
    compaction: str | None = None
    layers: str | None = None
    prompt_share: float | None = None
    protect_ends: float | None = None
    segments: int | None = None

    def arguments(self, salt):
        """For the client's calls. `random` draws anew for each `salt` unless its seed is given."""
        policy = folio.policy(self.policy)
        if isinstance(policy, folio.Random) and policy.seed is None:
            policy = folio.Random(seed=salt)
        compaction, _, stride = (self.compaction or "").partition(":")
        return {
            "policy": policy,
            "budget": self.budget,
            "sink_tokens": self.sink,
            "recent_tokens": self.recent,
            "schedule": self.schedule,
            "compaction": compaction or None,
            "compaction_stride": int(stride) if stride else None,
            **{name: getattr(self, name) for name in ("layers", "prompt_share", "protect_ends", "segments")},
            "eviction_mode": "synchronous",
        }

    @property
    def series(self):
        """The setting but for its budget, as people read it: one line of a plot."""
        own = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        extras = [
            value if name in ("schedule", "compaction") else f"{name.replace('_', ' ')} {value}"
            for name, value in own.items()
            if name not in ("policy", "budget")
        ]
        return ", ".join([self.policy, *extras])


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """`task` as given on the command line; ":blind" at its end makes it query-blind."""

    task: str
    length: int
    setting: Setting
    seed: int

    def __str__(self):
        budget = "" if self.setting.budget is None else f" budget {self.setting.budget}"
        return f"{self.task} {self.length} {self.setting.series}{budget} seed {self.seed}"


FULL = "full"


def parse_budget(text):
    """Tokens, or with a point in it a share."""
    try:
        value = float(text) if "." in text else int(text)
    except ValueError:
        raise ValueError(f"budget {text!r} is neither a number of tokens nor a share such as 0.25") from None
    if value <= 0 or (isinstance(value, float) and value > 1):
        raise ValueError(f"budget {text!r} must be a positive number of tokens or a share up to 1.0")
    return value


def parse_compaction(text):
    """"whole", "streamed" or "streamed:STRIDE"."""
    kind, colon, stride = text.partition(":")
    if kind not in ("whole", "streamed") or (colon and not (kind == "streamed" and stride.isdecimal() and int(stride) > 0)):
        raise ValueError(f"compaction {text!r} must be whole, streamed, or streamed:STRIDE with a number of tokens")
    return text


def spelled(policy):
    """A policy as the SDK writes it."""
    return str(folio.policy(policy))


def grid(tasks, policies, budgets, lengths, seeds, spell=spelled, **others):
    """The cells, those that belong together next to each other: what is interrupted has whole comparisons first.

    `others` are lists of values for other fields of a Setting. `full` takes none of them and no budget, so that it comes
    once; policies in any spelling become the one that `spell` gives.
    """
    names = list(dict.fromkeys(map(spell, policies)))
    settings = [Setting(FULL)] if FULL in names else []
    evicting = [name for name in names if name != FULL]
    if evicting and not budgets:
        raise ValueError(f"{evicting[0]} needs a budget")
    for policy, budget, *values in itertools.product(evicting, budgets, *others.values()):
        settings.append(Setting(policy, budget, **dict(zip(others, values, strict=True))))
    return [
        Cell(task, length, setting, seed)
        for seed, task, length, setting in itertools.product(seeds, tasks, lengths, settings)
    ]
