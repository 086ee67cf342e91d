"""Generations of the independent float32 reference, through the real processes, synchronous.

In float32 a long prompt takes half a minute of two cores, so two cases have one there. FOLIO_LONG_TESTS=1 gives all of them theirs.
"""

import os
import statistics
from dataclasses import dataclass

import pytest
from node import MODEL
from oracle_cases import CASES, SPREAD, EvictingTwin, Judge


@dataclass(frozen=True)
class ByCase:
    """A number that depends on what chooses the tokens that stay.

    A token at the edge of a kept set may differ if scores choose, and move the logits. KVCrush makes more of that.
    """

    position: float  # also without eviction
    scores: float
    crush: float

    def __call__(self, case):
        return self.crush if case.crush else self.scores if case.scored else self.position


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        chosen = metafunc.cls.cases
        if metafunc.function.__name__ == "test_dropped_pages":
            chosen = [case for case in chosen if case.drops and case.chooses_pages]
        if metafunc.function.__name__ == "test_free_greedy":
            chosen = free(chosen, metafunc.cls.gap)
        metafunc.parametrize("case", chosen, ids=lambda case: case.id)


def free(cases, gap):
    """The cases of which a free run can be compared: the first step is not a tie."""
    return [case for case in cases if case.certain(gap(case))]


def is_quick(case):
    """Those of a short prompt, and two of a long one: with and without KVCrush."""
    if case.name == "needles":
        return bool(case.crush)
    return case.name != "long_prose" or case.id == "long_prose-paged_eviction-256"


LEAST_STEPS = 36  # are compared in every case


@pytest.fixture(scope="module")
def twin():
    return EvictingTwin(MODEL)


def test_the_oracle_holds_what_is_compared():
    assert len(CASES) >= 26
    policies = {"full", "paged_eviction", "streaming_llm", "inverse_key_norm", "key_diff"}
    assert {case.policy for case in CASES} == policies
    assert sum(case.evicts for case in CASES) >= 20
    assert sum(case.crush is not None for case in CASES) >= 3
    for case in CASES:
        if not case.evicts:
            # The spread was measured on the case without a budget.
            (full,) = (one for one in CASES if (one.name, one.policy) == (case.name, "full"))
            assert case.tokens == full.tokens and len(SPREAD[case.name]) == len(case.tokens)
    values = [one for spread in SPREAD.values() for one in spread]
    held = sum(TestFloat32.deviations * one <= TestFloat32.whole for one in values)
    assert held >= 100 and len(values) == 216, f"{held} of {len(values)} values stay in place"


class Oracle:
    """The comparisons; subclasses say on which arithmetic and how close."""

    def test_logprobs(self, judge, case):
        errors = judge.logprob_errors(case)
        if not case.evicts:
            return self.check_whole(case, errors)
        mean, worst = (
            (self.mean_crushed, self.worst_crushed) if case.crush else (self.mean_evicted, self.worst_evicted)
        )
        assert statistics.mean(errors) <= mean and max(errors) <= worst, (statistics.mean(errors), errors)

    def test_evictions(self, judge, case):
        for layer, share in judge.kept_shares(case).items():
            least = self.kept_crushed if case.crush and layer > 0 else self.kept
            assert share >= least, f"layer {layer}: {share:.4f} of the kept tokens agree"
        if case.crush:
            self.check_representatives(judge, case)
        drops = judge.drops(case)
        assert [step for step, _ in drops] == [step for step, _ in case.drops]
        result = judge.score(case)
        assert result.cache.resident_tokens == case.resident
        assert result.cache.plans == len(drops) + bool(case.kept)
        if not case.chooses_pages:
            assert [blocks for _, blocks in drops] == [blocks for _, blocks in case.drops]

    def check_representatives(self, judge, case):
        """Representatives are every n-th of a sorted list. One score that rounds to the other side of a
        median moves its token in the list, and every representative between its old and its new place
        becomes its neighbour there: another token, but one that stands for the same. So what is kept in
        deeper layers may differ token by token, and must not differ as a whole: representatives drawn at random
        would be 13 positions away."""
        for layer, distance in judge.kept_distances(case).items():
            assert distance <= self.crushed_distance, f"layer {layer}: kept tokens are {distance:.2f} away on average"

    def test_forced_greedy(self, judge, case):
        """Each step by itself, after the oracle's own tokens, so that a tie does not end the comparison."""
        compared = sum(gap >= self.gap_forced(case) for gap in case.top2_gap)
        assert compared >= LEAST_STEPS, f"{compared} steps"
        misses = [(step, gap) for step, gap in judge.misses(case) if gap >= self.gap_forced(case)]
        assert len(misses) <= self.misses(case), misses
        assert not [gap for _, gap in misses if gap >= self.gap_sure(case)], misses

    def test_dropped_pages(self, judge, twin, case):
        """A page that is not the cheapest is dropped only where the two are worth as good as the same."""
        distances = judge.drop_distances(twin, case)
        assert len(distances) == 30 * len(case.drops)
        others = [one for one in distances if one[-1] > 0]
        assert not [one for one in others if one[-1] > self.tie], others
        assert len(others) <= self.ties * len(distances), others

    def test_dropped_pages_agree(self, judge):
        """The oracle's own pages may hold other tokens, so they may differ by more than ties."""
        total, same, different = 0, 0, []
        for case in self.cases:
            for (step, blocks), (_, expected) in zip(judge.drops(case), case.drops, strict=True):
                total += len(expected)
                same += sum(a == b for a, b in zip(blocks, expected, strict=True))
                different += [
                    (case.id, step, layer, a, b) for layer, (a, b) in enumerate(zip(blocks, expected)) if a != b
                ]
        assert total >= self.least_drops
        assert same / total >= self.same_pages, f"{same} of {total}: {different}"

    def check_free(self, judge, case):
        certain = case.certain(self.gap(case))
        assert judge.greedy(case)[:certain] == list(case.tokens)[:certain]


class TestFloat32(Oracle):
    cases = CASES if os.environ.get("FOLIO_LONG_TESTS") else [case for case in CASES if is_quick(case)]
    least_drops = 900
    # K and V are stored in bfloat16. Where a value lies between two of its neighbours, another order of
    # float32 sums picks the other one, and later layers see it. How far that moves each value was measured
    # on a twin of the model (tests/oracle/twin.py): what stays in place is held to the oracle's 0.01, what
    # moves to six of its own standard deviations; 6 cover every one of the twin's orders.
    whole, deviations, worst_whole = 0.01, 6, 0.15
    # Measured: 0.011 on average and 0.27 at worst; with KVCrush 0.06 and 0.33.
    mean_evicted, worst_evicted = 0.05, 0.5
    mean_crushed, worst_crushed = 0.15, 1
    kept = 0.99
    kept_crushed, crushed_distance = 0.75, 5
    gap = ByCase(0.02, 0.05, 0.25)
    gap_forced, gap_sure, misses = gap, gap, ByCase(0, 0, 0)
    # Measured: 0.015 of the spread of the pages' scores. The pages hold bfloat16 here too.
    tie, ties, same_pages = 0.03, 0.05, 0.98

    @pytest.fixture(scope="class")
    def judge(self, float32):
        return Judge(float32.stub, runs_free=True)

    def check_whole(self, case, errors):
        spread = SPREAD[case.name]
        bounds = [min(max(self.whole, self.deviations * one), self.worst_whole) for one in spread]
        over = [
            f"{step}: {error:.4f} > {bound:.4f}"
            for step, (error, bound) in enumerate(zip(errors, bounds, strict=True))
            if error > bound
        ]
        assert not over, over
        # Orders of the twin are up to 1.8 apart from the oracle.
        assert statistics.mean(errors) <= min(self.whole, 2.5 * statistics.mean(spread)), errors

    def test_free_greedy(self, judge, case):
        self.check_free(judge, case)


class TestBfloat16(Oracle):
    cases = CASES
    least_drops = 1800
    mean_whole = 0.1
    # Measured: 0.074 on average and 1.13 at worst, where a score chooses another token; with KVCrush 0.14 and 1.13.
    mean_evicted, worst_evicted = 0.1, 2.5
    mean_crushed, worst_crushed = 0.25, 2.5
    kept = 0.95
    kept_crushed, crushed_distance = 0.7, 9
    gap = ByCase(0.25, 0.25, 0.5)
    # Measured, after the oracle's own tokens: no step of those without scores differs from a gap of 0.06 on. Where
    # scores choose, one step of a case does at most, at 0.42 and once at 1.6. With KVCrush one does at 0.38. On
    # processors that add in another order other tokens stand for their neighbours: a second step differs at 0.56, and
    # with matrix units four of one case do, at 1.6 at most.
    gap_forced, gap_sure, misses = ByCase(0.25, 0.25, 0.25), ByCase(0.25, 2, 2), ByCase(0, 2, 4)
    # Measured: 0.042 of the spread of the pages' scores, 5 % of a case's decisions, and 96 % as the oracle.
    tie, ties, same_pages = 0.06, 0.1, 0.94

    @pytest.fixture(scope="class")
    def judge(self, bfloat16):
        return Judge(bfloat16.stub, runs_free=False)

    def check_whole(self, case, errors):
        assert statistics.mean(errors) <= self.mean_whole, errors

    def test_free_greedy(self, judge, case):
        self.check_free(judge, case)
