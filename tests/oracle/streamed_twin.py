"""The twin with streamed compaction: a prompt's tokens are chosen while it is prefilled, by the twin itself.

Whenever `stride` more tokens of the prompt have been processed, each layer that holds more than its budget is compacted
to it, but not among the last queries of a prompt that choose too (query_diff). Later tokens attend only to what stayed, at their own positions, and stored keys are never rotated again. The
prompt's last token brings the usual compaction, and decode drops a page whenever one fills. All scores are the twin's
own float32 ones.

    streamed_twin.py MODEL.gguf > streamed.json
"""

import argparse
import dataclasses
import json
import math
import pathlib
import sys

import numpy as np
from evicting_twin import PAGE, Cache, token_scores
from streamed_choices import SHARE, WINDOW, crushed, differences, directions, head_scores, highest, smooth, window_scores
from twin import DIM, HEADS, KV_HEADS, LAYERS, Twin, cases

HERE = pathlib.Path(__file__).parent
SHOWN = (0, 14, 29)  # layers whose kept positions are written down
CRUSH = {"share": 0.25, "anchor": "mean"}
MAX_SAMPLES = 24  # tokens that query_diff compares a new page with


@dataclasses.dataclass(frozen=True)
class Rule:
    """How a sequence is held to its budget. `crush` is KVCrush's share over the policy, with the anchor mean."""

    policy: str
    budget: int
    stride: int
    crush: float | None = None

    @property
    def recent(self):
        return max(PAGE, WINDOW) if self.policy == "query_diff" else PAGE

    @property
    def longest(self):
        """The most prompt tokens between two compactions."""
        return self.stride + self._tail - 1

    @property
    def _tail(self):
        return WINDOW if self.policy == "query_diff" else 1

    def stops(self, length):
        """The lengths at which a prompt is compacted, if it is over the budget by then. A stop that leaves less than
        the last queries behind it is left out."""
        return [*range(self.stride, length - self._tail + 1, self.stride), length]


class StreamedCache(Cache):
    """Cache with what decisions need besides K and V, in each layer: the resident tokens' positions and their
    differences for query_diff, and the latest queries."""

    def __init__(self):
        super().__init__()
        self.length, self.peak = 0, 0
        self.positions = [np.empty(0, int)] * LAYERS
        self.queries = [np.empty((0, HEADS, DIM), np.float32)] * LAYERS
        self.unlike = [np.empty((0, KV_HEADS), np.float32)] * LAYERS

    def attend(self, layer, q, k, v):
        self.positions[layer] = np.concatenate([self.positions[layer], np.arange(self.length, self.length + len(q))])
        self.queries[layer] = np.concatenate([self.queries[layer], q])[-WINDOW:]
        return super().attend(layer, q, k, v)

    def extend(self, twin, ids):
        """The hidden states of the next tokens."""
        hidden = twin.hidden(np.array(ids), first=self.length, attention=self.attend)
        self.length += len(ids)
        self.peak = max(self.peak, *map(len, self.positions))
        return hidden

    def keep(self, layer, slots):
        super().keep(layer, slots)
        self.positions[layer] = self.positions[layer][slots]
        self.unlike[layer] = self.unlike[layer][slots[slots < len(self.unlike[layer])]]

    def compare_all(self, layer):
        """Scores every resident token against all those behind the first page."""
        unrotated = directions(self.keys[layer], self.positions[layer])
        self.unlike[layer] = differences(unrotated, unrotated[PAGE:])

    def compare_page(self, layer):
        """Scores the page that was just filled against tokens behind the first page: all, or every n-th."""
        unrotated = directions(self.keys[layer], self.positions[layer])
        stride = max(1, math.ceil((len(unrotated) - PAGE) / MAX_SAMPLES))
        new = differences(unrotated[-PAGE:], unrotated[PAGE - 1 + stride :: stride])
        self.unlike[layer] = np.concatenate([self.unlike[layer][: len(unrotated) - PAGE], new])

    def choose(self, rule, layer, ends):
        """The slots that stay when the layer is compacted. `ends` says that the prompt is whole."""
        keys, values, budget = self.keys[layer], self.values[layer], rule.budget
        slots = np.arange(len(keys))
        if rule.policy == "streaming_llm":
            return np.concatenate([slots[:PAGE], slots[PAGE - budget :]])
        if rule.crush is not None:
            return crushed(head_scores(rule.policy, keys, values), budget, rule.crush)
        if rule.policy != "query_diff":
            return highest(token_scores(rule.policy, keys, values), budget, rule.recent)
        self.compare_all(layer)
        merit = smooth(self.unlike[layer].mean(-1))
        if ends:
            held = PAGE + rule.recent
            asked = held + int(SHARE * (budget - held))
            merit[highest(window_scores(self.queries[layer], keys), asked, rule.recent)] = np.inf
        return highest(merit, budget, rule.recent)

    def cheapest_page(self, rule, layer):
        """The page that decode drops, of those between the first and the one that was just filled."""
        if rule.policy == "streaming_llm":
            return 1
        if rule.policy == "query_diff":
            pages = self.unlike[layer].mean(-1).reshape(-1, PAGE).mean(1)
        else:
            pages = self.page_scores(rule.policy, layer)
        return 1 + int(np.argmin(pages[1:-1]))


def numbers(logits, token=None):
    """(the token or the likeliest one, its log-probability, the distance of the two best logits)."""
    logits = logits.astype(np.float64)
    second, first = np.sort(np.partition(logits, -2)[-2:])
    token = int(logits.argmax()) if token is None else token
    return token, logits[token] - first - np.log(np.exp(logits - first).sum()), first - second


class StreamedTwin:
    def __init__(self, path):
        self.twin = Twin(path)

    def prefill(self, prompt, rule, told=None, chunk=None):
        """(the cache after the prompt, the last hidden state, compactions).

        A compaction is [layers] of the positions that the twin itself keeps. If `told` has compactions of somebody
        else, these are carried out in place of the twin's own, so that each choice is judged by itself. `chunk` is the
        number of tokens that are computed at a time.
        """
        cache, compactions = StreamedCache(), []
        chunk, stops = chunk or rule.longest, rule.stops(len(prompt))
        for begin, end in zip([0, *stops], stops):
            for at in range(begin, end, chunk):
                hidden = cache.extend(self.twin, prompt[at : min(at + chunk, end)])
            if len(cache.keys[0]) <= rule.budget:
                if rule.policy == "query_diff" and end == len(prompt):
                    for layer in range(LAYERS):
                        cache.compare_all(layer)
                continue
            chosen = []
            for layer in range(LAYERS):
                slots = cache.choose(rule, layer, end == len(prompt))
                chosen.append(cache.positions[layer][slots])
                if told is not None:
                    theirs = told[len(compactions)][layer]
                    slots = np.flatnonzero(np.isin(cache.positions[layer], theirs))
                    assert len(slots) == len(theirs), f"layer {layer} keeps a position that it does not hold"
                cache.keep(layer, slots)
            compactions.append(chosen)
        return cache, hidden[-1], compactions

    def generate(self, cache, hidden, rule, count, told=None):
        """(tokens, logprobs, gaps, drops) of greedy decoding; drops are [(step, [page per layer])].

        If `told` has (tokens, drops) of somebody else, these are fed and carried out, and the results are the
        log-probabilities of these tokens and the pages that the twin itself would drop.
        """
        embeddings = self.twin.weights["model.embed_tokens.weight"]
        tokens, carried_out = told or ([None] * count, None)
        steps, drops = [numbers(hidden @ embeddings.T, tokens[0])], []
        for step in range(count - 1):
            logits = cache.extend(self.twin, [steps[-1][0]])[-1] @ embeddings.T
            steps.append(numbers(logits, tokens[step + 1]))
            if len(cache.keys[0]) % PAGE == 0:
                if rule.policy == "query_diff":
                    for layer in range(LAYERS):
                        cache.compare_page(layer)
                if len(cache.keys[0]) > rule.budget:
                    drops.append((step, [cache.cheapest_page(rule, layer) for layer in range(LAYERS)]))
                    _, pages = drops[-1] if carried_out is None else carried_out[len(drops) - 1]
                    for layer, page in enumerate(pages):
                        cache.drop(layer, page)
        return (*zip(*steps, strict=True), drops)


# Name, prompt of generation.json, how many of its tokens, budget, stride, tokens to generate, policies; a name behind
# "kv_crush:" is KVCrush's base. The second has a boundary among its last queries, and the third the default stride.
POLICIES = (
    "paged_eviction", "inverse_key_norm", "key_diff", "streaming_llm", "query_diff", "kv_crush:paged_eviction",
    "kv_crush:key_diff",
)  # fmt: skip
ROWS = (
    ("prose", "long_prose", 620, 128, 128, 32, POLICIES),
    ("window", "long_prose", 520, 128, 128, 32, ("query_diff",)),
    ("needles", "needles", None, 256, 512, 32, ("paged_eviction", "query_diff")),
)


def prompt_of(name, length):
    return next(case["prompt_ids"] for case in cases() if case["name"] == name)[:length]


def rule_of(row):
    """The rule of a row of streamed.json."""
    return Rule(row["policy"], row["budget"], row["stride"], row["kv_crush"] and row["kv_crush"]["share"])


def rows():
    """The rows of streamed.json without the twin's answers."""
    for name, prompt, length, budget, stride, count, policies in ROWS:
        for policy in policies:
            wrapper, _, base = policy.rpartition(":")
            crush = CRUSH if wrapper == "kv_crush" else None
            yield {
                "name": name, "policy": base, "kv_crush": crush, "budget": budget,
                "stride": stride, "prompt": prompt, "prompt_tokens": length or len(prompt_of(prompt, None)),
                "count": count,
            }  # fmt: skip


def answered(twin, row):
    """The row with what the twin makes of it."""
    rule, count = rule_of(row), row["count"]
    cache, hidden, compactions = twin.prefill(prompt_of(row["prompt"], row["prompt_tokens"]), rule)
    tokens, logprobs, gaps, drops = twin.generate(cache, hidden, rule, count)
    kept = [{str(layer): compaction[layer].tolist() for layer in SHOWN} for compaction in compactions]
    return {
        **{name: value for name, value in row.items() if name != "count"},
        "tokens": list(tokens),
        "logprobs": [round(float(one), 5) for one in logprobs],
        "top2_gap": [round(float(one), 5) for one in gaps],
        "peak": cache.peak,
        "kept": kept,
        "drops": drops,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    twin = StreamedTwin(parser.parse_args().model)
    lines = []
    for row in rows():
        print(f"{row['name']} {row['policy']}", file=sys.stderr)
        lines.append(json.dumps(answered(twin, row), separators=(",", ":")))
    print("[\n" + ",\n".join(lines) + "\n]")


if __name__ == "__main__":
    main()
