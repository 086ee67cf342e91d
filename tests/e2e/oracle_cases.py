"""The cases of tests/oracle, and what a worker makes of them."""

import functools
import json
import sys
from dataclasses import dataclass

from node import cache, tokens
from stubs import ROOT, inference_pb2, types_pb2

ORACLE = ROOT / "tests/oracle"
sys.path.append(str(ORACLE))
from evicting_twin import EvictingTwin, excess  # noqa: E402

__all__ = ["CASES", "SPREAD", "Case", "EvictingTwin", "Judge"]
PAGE = 16  # of the oracle: page size, sink and recent


@dataclass(frozen=True)
class Case:
    index: int
    name: str
    policy: str
    crush: tuple | None  # share and anchor of KVCrush over the policy
    budget: int
    prompt: tuple
    tokens: tuple
    logprobs: tuple
    top2_gap: tuple
    kept: dict
    drops: list
    resident: int

    def __hash__(self):
        return self.index

    @property
    def id(self):
        crush = f"-crush-{self.crush[0]}-{self.crush[1]}" if self.crush else ""
        return f"{self.name}-{self.policy}{crush}-{self.budget}"

    @property
    def evicts(self):
        return bool(self.kept or self.drops)

    @property
    def scored(self):
        """Scores choose what stays."""
        return self.evicts and self.policy != "streaming_llm"

    @property
    def chooses_pages(self):
        """More than one page may go in decode, and scores say which."""
        return self.scored and self.budget > 2 * PAGE

    def cache(self):
        if self.policy == "full":
            return cache("full")
        options = cache(self.policy, self.budget, sink=PAGE, recent=PAGE)
        if self.crush:
            share, anchor = self.crush
            # In decode the oracle lets the base choose pages.
            crush = types_pb2.KvCrushPolicy(
                share=share, anchor=f"CRUSH_ANCHOR_{anchor.upper()}", prefill_only=True
            )
            getattr(crush, self.policy).SetInParent()
            options.policy.CopyFrom(types_pb2.Policy(kv_crush=crush))
        return options

    def certain(self, gap):
        """Greedy steps before the first whose two best tokens are closer than `gap`."""
        return next((step for step, distance in enumerate(self.top2_gap) if distance < gap), len(self.tokens))


def load():
    cases = []
    for index, raw in enumerate(json.loads((ORACLE / "generation.json").read_text())):
        crush = raw["kv_crush"]
        cases.append(
            Case(
                index,
                raw["name"],
                raw["policy"],
                (crush["share"], crush["anchor"]) if crush else None,
                raw["budget"] or 0,
                tuple(raw["prompt_ids"]),
                tuple(raw["tokens"]),
                tuple(raw["logprobs"]),
                tuple(raw["top2_gap"]),
                {int(layer): kept for layer, kept in raw["kept"].items()},
                raw["drops"],
                raw["resident"],
            )
        )
    return cases


CASES = load()
# Case name -> standard deviation of each log-probability over orders of float32 sums, without eviction.
SPREAD = json.loads((ORACLE / "spread.json").read_text())


class Judge:
    """Runs cases on one worker and compares. `runs_free`: mostly a free run has the oracle's tokens, and is the score."""

    def __init__(self, stub, runs_free):
        self.stub, self.runs_free = stub, runs_free
        self.score = functools.lru_cache(maxsize=None)(self._score)
        self.run = functools.lru_cache(maxsize=None)(self._run)

    def _score(self, case):
        """The log-probabilities after the oracle's own tokens, and what was evicted meanwhile."""
        run = self.run(case) if self.runs_free else None
        if run is not None and [token.token for token in run.tokens] == list(case.tokens):
            return run
        return self.stub.Score(
            inference_pb2.ScoreRequest(
                input=tokens(case.prompt),
                continuation=tokens(case.tokens),
                cache=case.cache(),
                top_logprobs=1,
                report_evictions=True,
            ),
            timeout=300,
        )

    def _run(self, case):
        """A free run, in the form of a score. If it has the oracle's tokens it says all that a score would, and saves
        a second prefill, which takes most of the time."""
        request = inference_pb2.GenerateRequest(
            input=tokens(case.prompt),
            cache=case.cache(),
            max_tokens=len(case.tokens),
            ignore_eos=True,
            logprobs=1,
            report_evictions=True,
        )
        run = inference_pb2.ScoreResponse()
        for event in self.stub.Generate(request, timeout=300):
            run.tokens.extend(event.chunk.logprobs)
            if event.HasField("eviction"):
                run.evictions.append(event.eviction)
            if event.HasField("finished"):
                run.cache.CopyFrom(event.finished.cache)
        return run

    def logprob_errors(self, case):
        """|difference| of each log-probability."""
        got = self.score(case).tokens
        assert [token.token for token in got] == list(case.tokens)
        return [abs(token.logprob - expected) for token, expected in zip(got, case.logprobs)]

    def misses(self, case):
        """[(step, the oracle's distance of its two best logits)] where another token than the oracle's is the most
        likely one, after the oracle's tokens."""
        got = self.score(case).tokens
        assert all(len(token.top) == 1 for token in got) and len(got) == len(case.tokens)
        steps = enumerate(zip(got, case.tokens, case.top2_gap, strict=True))
        return [(step, gap) for step, (token, expected, gap) in steps if token.top[0].token != expected]

    def kept(self, case):
        """[positions kept after the prompt per layer]; nothing if there was no compaction."""
        compactions = [event for event in self.score(case).evictions if event.step == -1]
        assert len(compactions) == (1 if case.kept else 0)
        return [list(layer.kept) for event in compactions for layer in event.layers]

    def kept_shares(self, case):
        """Layer -> share of the oracle's kept positions that were kept here too."""
        shares, layers = {}, self.kept(case)
        for layer, expected in case.kept.items():
            kept = layers[layer]
            assert kept == sorted(set(kept)), f"layer {layer}: kept positions are not ascending"
            assert len(kept) == len(expected), f"layer {layer} keeps {len(kept)} tokens"
            shares[layer] = len(set(kept) & set(expected)) / len(expected)
        return shares

    def kept_distances(self, case):
        """Layer -> mean distance, in positions, of the i-th kept token from the oracle's i-th."""
        layers = self.kept(case)
        return {
            layer: sum(abs(a - b) for a, b in zip(layers[layer], expected, strict=True)) / len(expected)
            for layer, expected in case.kept.items()
        }

    def drops(self, case):
        """[(step, [block per layer])] as it happened."""
        events = [event for event in self.score(case).evictions if event.step >= 0]
        return [(event.step, [layer.dropped_block for layer in event.layers]) for event in events]

    def drop_distances(self, twin, case):
        """[(step, layer, distance)]: how much more each dropped page was worth than the cheapest one, as the twin
        scores the very pages that the worker had."""
        drops = self.drops(case)
        scores = twin.page_scores(case.policy, case.prompt, case.tokens, self.kept(case), drops)
        return [
            (step, layer, excess(pages, block))
            for (step, blocks), (_, layers) in zip(drops, scores, strict=True)
            for layer, (pages, block) in enumerate(zip(layers, blocks, strict=True))
        ]

    def greedy(self, case):
        return [token.token for token in self.run(case).tokens]
