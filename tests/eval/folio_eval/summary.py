"""Results as tables: what each setting gave on each task, over all seeds."""

import functools

from folio_eval import measures, stats
from folio_eval.cells import FULL
from folio_eval.store import cell_of, gather, read_lines

HIGH_IS_GOOD = {"score": True, "nll": False, "kl": False}


class Results:
    """Of one or more files of results."""

    def __init__(self, paths):
        lines = [line for path in paths for line in read_lines(path)]
        self._values = {}  # (task, length, setting, measure) -> {(seed, prompt): value}
        for cell, measures in gather(lines).items():
            for measure, values in measures.items():
                merged = self._values.setdefault((cell.task, cell.length, cell.setting, measure), {})
                merged.update({(cell.seed, prompt): value for prompt, value in values.items()})
        self.maps = [line for line in lines if line.get("kept")]
        self.seconds = [line for line in lines if line.get("seconds")]
        done = {cell_of(line) for line in lines if "measures" in line}
        self.failed = [line for line in lines if "error" in line and cell_of(line) not in done]

    @functools.cache
    def _column(self, at, measure):
        return list(dict.fromkeys(key[at] for key in self._values if measure in (None, key[3])))

    def tasks(self, measure=None):
        return self._column(0, measure)

    def lengths(self, measure=None):
        return sorted(self._column(1, measure))

    def measures(self):
        return set(self._column(3, None))

    def parts(self, measure):
        """[(task, its measure of one named part)] of what has answers with named parts."""
        found = dict.fromkeys((key[0], key[3]) for key in self._values)
        return [(task, name) for task, name in found if name != measure and measures.split(name)[0] == measure]

    def most_prompts(self):
        """Of a cell over all seeds."""
        return max((len(values) for values in self._values.values()), default=0)

    def settings(self, measure=None):
        return self._column(2, measure)

    def budgets(self):
        """Tokens before shares, ascending; the full cache's None is none."""
        found = {setting.budget for setting in self.settings() if setting.budget is not None}
        return sorted(found, key=lambda budget: (isinstance(budget, float), budget))

    def series(self, measure=None):
        """Names of what varies beside the budget, the full cache first and random last."""
        names = dict.fromkeys(setting.series for setting in self.settings(measure))
        return sorted(names, key=lambda name: (name != FULL, name.startswith("random")))

    def setting(self, series, budget):
        """None when it was not run."""
        return self._by_name.get((series, None if series == FULL else budget))

    @functools.cached_property
    def _by_name(self):
        return {(one.series, one.budget): one for one in self.settings()}

    def values(self, task, length, setting, measure):
        return self._values.get((task, length, setting, measure), {})

    @functools.cache
    def estimate(self, task, length, setting, measure):
        values = self.values(task, length, setting, measure)
        return stats.mean(list(values.values())) if values else None

    @functools.cache
    def mean(self, length, setting, measure, among=None):
        """Over the tasks with right and wrong answers that have the measure at this length, of those in the tuple `among`;
        None unless the setting has all of them."""
        asked = [task for task in self.tasks("score") if among is None or task in among]
        tasks = [task for task in asked if self._known(task, length, measure)]
        groups = [list(self.values(task, length, setting, measure).values()) for task in tasks]
        return stats.mean(*groups) if groups and all(groups) else None

    def _known(self, task, length, measure):
        return any(key[0] == task and key[1] == length and key[3] == measure for key in self._values)

    def difference(self, task, length, one, other, measure):
        """Estimate of one - other over the prompts that both answered; None where there are none."""
        pairs = stats.paired(self.values(task, length, one, measure), self.values(task, length, other, measure))
        return stats.mean(pairs) if pairs else None

    def mean_difference(self, length, one, other, measure):
        """As `difference`, of the mean over the tasks with right and wrong answers that both have."""
        groups = [
            stats.paired(self.values(task, length, one, measure), self.values(task, length, other, measure))
            for task in self.tasks("score")
        ]
        groups = [group for group in groups if group]
        return stats.mean(*groups) if groups else None


def verdict(estimate, measure):
    """"better", "worse", or "" where the interval holds 0."""
    if estimate is None or not estimate.sure:
        return ""
    high = HIGH_IS_GOOD.get(measures.split(measure)[0], True)
    return "better" if (estimate.mean > 0) == high else "worse"
