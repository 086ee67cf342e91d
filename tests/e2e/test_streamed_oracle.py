"""Streamed compaction through the real processes: the rows of the twin, and each decision by itself."""

import functools
import json
import os
import statistics
from dataclasses import dataclass

import numpy as np
import pytest
from node import MODEL, cache, tokens
from oracle_cases import ORACLE, PAGE
from stubs import inference_pb2, types_pb2

import streamed_choices
import streamed_twin

ROWS = json.loads((ORACLE / "streamed.json").read_text())


def options_of(row):
    options = cache(row["policy"], row["budget"], sink=PAGE, recent=PAGE, stride=row["stride"])
    if row["kv_crush"]:
        # In decode the twin lets the base choose pages.
        crush = types_pb2.KvCrushPolicy(share=row["kv_crush"]["share"], anchor="CRUSH_ANCHOR_MEAN", prefill_only=True)
        getattr(crush, row["policy"]).SetInParent()
        options.policy.CopyFrom(types_pb2.Policy(kv_crush=crush))
    elif row["policy"] == "query_diff":
        chosen = types_pb2.QueryDiffPolicy(
            share=streamed_choices.SHARE, pool=streamed_choices.POOL, neighbours=streamed_choices.SMOOTHED
        )
        options.policy.CopyFrom(types_pb2.Policy(query_diff=chosen))
        options.prompt_share = 0  # the twin's prompt has no share of its own
    return options


def prompt_of(row):
    return streamed_twin.prompt_of(row["prompt"], row["prompt_tokens"])


def compactions(evictions):
    return [event for event in evictions if event.step == -1]


def agreement(kept, expected):
    assert len(kept) == len(expected)
    return len(set(map(int, kept)) & set(map(int, expected))) / len(expected)


def name_of(row):
    return f"{row['name']}-{row['policy']}{'-crush' if row['kv_crush'] else ''}"


# The rows of the long prompt take as long as all others.
CHOSEN = [index for index, row in enumerate(ROWS) if row["name"] != "needles" or os.environ.get("FOLIO_LONG_TESTS")]
each_row = pytest.mark.parametrize("index", CHOSEN, ids=[name_of(ROWS[index]) for index in CHOSEN])


@pytest.fixture(scope="module")
def twin():
    return streamed_twin.StreamedTwin(MODEL)


@dataclass(frozen=True)
class Played:
    """What the twin makes of a worker's own decisions: where it would have kept and dropped the same, and its
    log-probabilities of the row's tokens."""

    kept: np.ndarray  # [compactions, layers], shares
    pages: list  # of all drops and layers: is it the same page?
    logprobs: tuple


class Judge:
    """Runs rows on one worker, feeding it the twin's tokens, and compares."""

    def __init__(self, stub, twin):
        self.stub, self.twin = stub, twin
        self.score = functools.lru_cache(maxsize=None)(self._score)
        self.played = functools.lru_cache(maxsize=None)(self._played)

    def _score(self, index):
        row = ROWS[index]
        request = inference_pb2.ScoreRequest(
            input=tokens(prompt_of(row)),
            continuation=tokens(row["tokens"]),
            cache=options_of(row),
            top_logprobs=1,
            report_evictions=True,
        )
        return self.stub.Score(request, timeout=300)

    def kept(self, index):
        """[compactions][layers] of positions."""
        return [[list(layer.kept) for layer in event.layers] for event in compactions(self.score(index).evictions)]

    def drops(self, index):
        """[(step, [page per layer])]"""
        events = [event for event in self.score(index).evictions if event.step >= 0]
        return [(event.step, [layer.dropped_block for layer in event.layers]) for event in events]

    def logprobs(self, index):
        got = self.score(index).tokens
        assert [token.token for token in got] == ROWS[index]["tokens"]
        return [token.logprob for token in got]

    def _played(self, index):
        row, rule = ROWS[index], streamed_twin.rule_of(ROWS[index])
        kept, drops = self.kept(index), self.drops(index)
        memory, hidden, own = self.twin.prefill(prompt_of(row), rule, told=kept)
        told = row["tokens"], drops
        _, logprobs, _, pages = self.twin.generate(memory, hidden, rule, len(row["tokens"]), told=told)
        shares = [[agreement(*pair) for pair in zip(one, other, strict=True)] for one, other in zip(kept, own, strict=True)]
        same = [
            a == b
            for (step, one), (at, other) in zip(drops, pages, strict=True)
            for a, b in zip(one, other, strict=True)
            if step == at
        ]
        return Played(np.array(shares), same, logprobs)


@dataclass(frozen=True)
class ByCase:
    """A bound that KVCrush widens, because one score on the other side of a median moves many representatives.
    query_diff may widen it too, because it takes maxima over 31 neighbours, so that one sum moves all of them."""

    plain: float
    crushed: float
    pooled: float | None = None

    def __call__(self, row):
        if row["policy"] == "query_diff" and self.pooled is not None:
            return self.pooled
        return self.crushed if row["kv_crush"] else self.plain


class Streamed:
    """The comparisons; subclasses say on which arithmetic and how close."""

    @pytest.fixture(scope="class")
    def judge(self, node, twin):
        return Judge(node.stub, twin)

    @each_row
    def test_it_stops_where_the_twin_does(self, judge, index):
        row, result = ROWS[index], judge.score(index)
        rule, events = streamed_twin.rule_of(row), compactions(result.evictions)
        ends = [end for end in rule.stops(row["prompt_tokens"]) if end > rule.budget]
        assert [event.prompt_tokens for event in events] == ends and len(ends) == len(row["kept"]) >= 3
        assert result.cache.peak_resident_tokens == row["peak"] <= rule.budget + rule.longest
        for event in events:
            assert {len(layer.kept) for layer in event.layers} == {rule.budget}
        assert [step for step, _ in judge.drops(index)] == [step for step, _ in row["drops"]] != []

    @each_row
    def test_each_compaction(self, judge, index):
        """The twin keeps the same tokens on the very cache that the worker's compactions before had left."""
        row, shares = ROWS[index], judge.played(index).kept
        assert shares.shape == (len(row["kept"]), streamed_twin.LAYERS)
        assert shares.min() >= self.kept(row), shares.min(1)
        assert shares.mean(1).min() >= self.kept_mean(row), shares.mean(1)

    @each_row
    def test_the_rows(self, judge, index):
        """What the twin kept when it decided alone. In deeper layers each difference leads to more."""
        row = ROWS[index]
        for compaction, expected in zip(judge.kept(index), row["kept"], strict=True):
            shares = [agreement(compaction[layer], expected[str(layer)]) for layer in streamed_twin.SHOWN]
            assert shares[0] >= self.first and min(shares) >= self.rows(row), shares

    @each_row
    def test_logprobs(self, judge, index):
        """After the worker's own decisions, and, less closely, after those of the twin alone."""
        played = np.abs(np.subtract(judge.logprobs(index), judge.played(index).logprobs))
        assert played.mean() <= self.mean_played and played.max() <= self.worst_played, played
        alone = np.abs(np.subtract(judge.logprobs(index), ROWS[index]["logprobs"]))
        assert alone.mean() <= self.mean_alone(ROWS[index]) and alone.max() <= self.worst_alone(ROWS[index]), alone

    def test_dropped_pages(self, judge):
        same = [one for index in CHOSEN for one in judge.played(index).pages]
        assert len(same) == streamed_twin.LAYERS * len(CHOSEN)
        assert statistics.mean(same) >= self.same_pages


class TestFloat32(Streamed):
    # Measured: 2 of 128 tokens differ in one layer and 0.3 % of all, under query_diff 4, and 2 with another BLAS in the
    # twin. With KVCrush they are 26 and 5.5 %. Wrong definitions were
    # tried: both halves of query_diff at each boundary, rotations undone by slots, all keys compared, scores that are
    # not smoothed or not computed again. They differ in 9 to 48 tokens, and in 2.5 to 26 % of all.
    kept, kept_mean = ByCase(0.97, 0.75, 0.94), ByCase(0.99, 0.92)
    # Measured: 0.984, and 0.73 with KVCrush over key_diff.
    first, rows = 0.99, ByCase(0.96, 0.65)
    # Measured: 0.005 on average and 0.05 at worst.
    mean_played, worst_played = 0.02, 0.15
    # Measured: 0.05 on average and 0.9 at worst, under query_diff; with KVCrush 0.2 and 1.9.
    mean_alone, worst_alone = ByCase(0.1, 0.4), ByCase(2, 3)
    same_pages = 0.98

    @pytest.fixture(scope="class")
    def node(self, float32):
        return float32


class TestBfloat16(Streamed):
    # Measured: 10 of 128 tokens differ in one layer and 0.9 % of all, under query_diff 19, and with KVCrush 31 and 11 %.
    kept, kept_mean = ByCase(0.89, 0.7, 0.78), ByCase(0.98, 0.85)
    # Measured: 0.96 and 0.77.
    first, rows = 0.99, ByCase(0.92, 0.65)
    # Measured: 0.025 on average and 0.28 at worst.
    mean_played, worst_played = 0.05, 0.5
    # Measured: 0.07 on average and 0.96 at worst, under query_diff; with KVCrush 0.29 and 1.9.
    mean_alone, worst_alone = ByCase(0.15, 0.5), ByCase(3, 3)
    same_pages = 0.94

    @pytest.fixture(scope="class")
    def node(self, bfloat16):
        return bfloat16
