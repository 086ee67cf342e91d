"""Means with 95 % intervals, by bootstrap: the prompts are drawn anew with replacement, many times, from one seed."""

import dataclasses

import numpy as np

RESAMPLES = 4000


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A mean and the interval that holds it in 95 % of the draws."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def sure(self):
        """The interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


def _draws(values, resamples, rng):
    values = np.asarray(values, float)
    return values[rng.integers(len(values), size=(resamples, len(values)))].mean(1)


def mean(*groups, resamples=RESAMPLES, seed=0):
    """The mean over the groups' means, each group drawn by itself; of one group: its mean."""
    rng = np.random.default_rng(seed)
    draws = np.mean([_draws(group, resamples, rng) for group in groups], axis=0)
    low, high = np.quantile(draws, (0.025, 0.975))
    centre = float(np.mean([np.mean(group) for group in groups]))
    return Estimate(centre, float(low), float(high), sum(len(group) for group in groups))


def paired(one, other):
    """Of two {prompt: value}, the differences one - other of the prompts that both have."""
    return [one[prompt] - other[prompt] for prompt in sorted(one.keys() & other.keys())]
