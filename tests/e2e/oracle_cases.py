"""The cases of tests/oracle, and what a worker makes of them."""

import functools
import json
from dataclasses import dataclass

from node import cache, tokens
from stubs import ROOT, inference_pb2, types_pb2

ORACLE = ROOT / "tests/oracle"
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
    """Runs cases on one worker, each once, and compares."""

    def __init__(self, stub):
        self.stub = stub
        self.score = functools.lru_cache(maxsize=None)(self._score)

    def _score(self, case):
        return self.stub.Score(
            inference_pb2.ScoreRequest(
                input=tokens(case.prompt), continuation=tokens(case.tokens), cache=case.cache(), report_evictions=True
            ),
            timeout=300,
        )

    def logprob_errors(self, case):
        """|difference| of each log-probability."""
        got = self.score(case).tokens
        assert [token.token for token in got] == list(case.tokens)
        return [abs(token.logprob - expected) for token, expected in zip(got, case.logprobs)]

    def kept_shares(self, case):
        """Layer -> share of the oracle's kept positions that were kept here too."""
        compactions = [event for event in self.score(case).evictions if event.step == -1]
        assert len(compactions) == (1 if case.kept else 0)
        shares = {}
        for layer, expected in case.kept.items():
            kept = list(compactions[0].layers[layer].kept)
            assert kept == sorted(set(kept)), f"layer {layer}: kept positions are not ascending"
            assert len(kept) == len(expected), f"layer {layer} keeps {len(kept)} tokens"
            shares[layer] = len(set(kept) & set(expected)) / len(expected)
        return shares

    def kept_distances(self, case):
        """Layer -> mean distance, in positions, of the i-th kept token from the oracle's i-th."""
        (compaction,) = [event for event in self.score(case).evictions if event.step == -1]
        return {
            layer: sum(abs(a - b) for a, b in zip(compaction.layers[layer].kept, expected, strict=True)) / len(expected)
            for layer, expected in case.kept.items()
        }

    def drops(self, case):
        """[(step, [block per layer])] as it happened."""
        events = [event for event in self.score(case).evictions if event.step >= 0]
        return [(event.step, [layer.dropped_block for layer in event.layers]) for event in events]

    def greedy(self, case):
        request = inference_pb2.GenerateRequest(
            input=tokens(case.prompt), cache=case.cache(), max_tokens=len(case.tokens), ignore_eos=True
        )
        return [token for event in self.stub.Generate(request, timeout=300) for token in event.chunk.tokens]
