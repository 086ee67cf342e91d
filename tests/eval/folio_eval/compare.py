"""`compare A B`: the difference of two policies prompt by prompt, and whether it is more than chance."""

import dataclasses

import folio

from folio_eval import measures
from folio_eval.cells import FULL, parse_budget, parse_compaction
from folio_eval.summary import HIGH_IS_GOOD, Results, verdict


# How settings that may stand behind a + are read.
READ = {
    "sink": int, "recent": int, "schedule": str, "layers": str, "prompt_share": float, "protect_ends": float, "segments": int,
}  # fmt: skip


def _other(text):
    """(field, value) of FIELD=VALUE. The value none is a setting that was left out."""
    field, equals, value = text.partition("=")
    if not equals or field not in READ:
        raise ValueError(f"+{text} must be +FIELD=VALUE with one of {', '.join(READ)}")
    return field, None if value == "none" else READ[field](value)


@dataclasses.dataclass(frozen=True)
class Named:
    """What stands on the command line; None is any."""

    policy: str
    others: tuple  # of (field, value)
    compaction: str | None
    budget: int | float | None

    @classmethod
    def parse(cls, text):
        """policy+field=value/compaction@budget, of which the policy is enough."""
        name, at, budget = text.partition("@")
        name, slash, compaction = name.partition("/")
        name, *others = name.split("+")
        return cls(
            str(folio.policy(name)),
            tuple(map(_other, others)),
            parse_compaction(compaction) if slash else None,
            parse_budget(budget) if at else None,
        )

    def fits(self, setting):
        return (
            setting.policy == self.policy
            and all(getattr(setting, field) == value for field, value in self.others)
            and self.compaction in (None, setting.compaction)
            and self.budget in (None, setting.budget)
        )


def _pairs(results, one, other):
    """Settings to compare: equal in all that was not named for both, or behind a + for one of them."""
    for first in filter(one.fits, results.settings()):
        for second in filter(other.fits, results.settings()):
            full = FULL in (first.policy, second.policy)
            named = {"policy", *dict(one.others), *dict(other.others)}
            if one.budget is not None and other.budget is not None:
                named.add("budget")
            if one.compaction is not None and other.compaction is not None:
                named.add("compaction")
            names = {field.name for field in dataclasses.fields(first)} - named
            alike = full or all(getattr(first, name) == getattr(second, name) for name in names)
            if alike and first != second:
                yield first, second


def _row(name, estimate, measure):
    words = {"better": "better", "worse": "WORSE", "": "no difference"}[verdict(estimate, measure)]
    interval = f"[{estimate.low:+.3f}, {estimate.high:+.3f}]"
    return f"  {name:32} {measure:6} {estimate.mean:+8.3f}  {interval:20} {estimate.count:5}  {words}"


def _rows(results, length, first, second):
    """A line for each task, their mean, and each named part of their answers."""
    for measure in HIGH_IS_GOOD:
        for task in results.tasks(measure):
            if estimate := results.difference(task, length, first, second, measure):
                yield _row(task, estimate, measure)
        estimate = results.mean_difference(length, first, second, measure)
        if estimate and len(results.tasks("score")) > 1:
            yield _row("mean of the tasks", estimate, measure)
        for task, part in results.parts(measure):
            if estimate := results.difference(task, length, first, second, part):
                yield _row(f"{task}, {measures.split(part)[1]}", estimate, measure)


def main(options):
    results = Results(options.results)
    pairs = list(_pairs(results, Named.parse(options.better), Named.parse(options.than)))
    if not pairs:
        raise ValueError(f"nothing to compare: the results have {', '.join(results.series())}")
    for length in results.lengths():
        for first, second in pairs:
            if rows := list(_rows(results, length, first, second)):
                print(f"{first.series} @ {first.budget} minus {second.series} @ {second.budget}, {length} tokens")
                print("\n".join(rows))
    return 0
