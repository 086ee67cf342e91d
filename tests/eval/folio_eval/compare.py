"""`compare A B`: the difference of two policies prompt by prompt, and whether it is more than chance."""

import dataclasses

import folio

from folio_eval.cells import FULL, parse_budget, parse_compaction
from folio_eval.summary import HIGH_IS_GOOD, Results, verdict


@dataclasses.dataclass(frozen=True)
class Named:
    """What stands on the command line; None is any."""

    policy: str
    compaction: str | None
    budget: int | float | None

    @classmethod
    def parse(cls, text):
        """policy/compaction@budget, of which the policy is enough."""
        name, at, budget = text.partition("@")
        name, slash, compaction = name.partition("/")
        return cls(
            str(folio.policy(name)), parse_compaction(compaction) if slash else None, parse_budget(budget) if at else None
        )

    def fits(self, setting):
        return (
            setting.policy == self.policy
            and self.compaction in (None, setting.compaction)
            and self.budget in (None, setting.budget)
        )


def _pairs(results, one, other):
    """Settings to compare: equal in all that was not named for both."""
    for first in filter(one.fits, results.settings()):
        for second in filter(other.fits, results.settings()):
            full = FULL in (first.policy, second.policy)
            named = {"policy"}
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


def main(options):
    results = Results(options.results)
    pairs = list(_pairs(results, Named.parse(options.better), Named.parse(options.than)))
    if not pairs:
        raise ValueError(f"nothing to compare: the results have {', '.join(results.series())}")
    for length in results.lengths():
        for first, second in pairs:
            rows = []
            for measure in HIGH_IS_GOOD:
                for task in results.tasks(measure):
                    if estimate := results.difference(task, length, first, second, measure):
                        rows.append(_row(task, estimate, measure))
                estimate = results.mean_difference(length, first, second, measure)
                if estimate and len(results.tasks("score")) > 1:
                    rows.append(_row("mean of the tasks", estimate, measure))
            if rows:
                print(f"{first.series} @ {first.budget} minus {second.series} @ {second.budget}, {length} tokens")
                print("\n".join(rows))
    return 0
