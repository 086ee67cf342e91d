"""`compare A B`: the difference of two policies prompt by prompt, and whether it is more than chance."""

import folio

from folio_eval.cells import FULL, parse_budget
from folio_eval.summary import HIGH_IS_GOOD, Results, verdict


def _named(text):
    """(policy, budget or None) of policy@budget."""
    name, at, budget = text.partition("@")
    return str(folio.policy(name)), parse_budget(budget) if at else None


def _pairs(results, one, other):
    """Settings to compare: of equal budget, sink, recent and schedule, where no budget was named."""
    for first in results.settings():
        if first.policy != one[0] or (one[1] is not None and first.budget != one[1]):
            continue
        for second in results.settings():
            if second.policy != other[0] or (other[1] is not None and second.budget != other[1]):
                continue
            named = one[1] is not None and other[1] is not None
            alike = FULL in (first.policy, second.policy) or named or first.budget == second.budget
            same = FULL in (first.policy, second.policy) or first.series[len(one[0]) :] == second.series[len(other[0]) :]
            if alike and same and first != second:
                yield first, second


def _row(name, estimate, measure):
    words = {"better": "better", "worse": "WORSE", "": "no difference"}[verdict(estimate, measure)]
    interval = f"[{estimate.low:+.3f}, {estimate.high:+.3f}]"
    return f"  {name:32} {measure:6} {estimate.mean:+8.3f}  {interval:20} {estimate.count:5}  {words}"


def main(options):
    results = Results(options.results)
    pairs = list(_pairs(results, _named(options.better), _named(options.than)))
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
