"""The twin with evictions: what each page was worth when somebody had to drop one.

A decision depends on all decisions before it. So the twin makes none of its own where it is told which tokens
were kept and which pages were dropped. It plays that history in float32 and scores the pages of that very cache,
so each decision of somebody else is judged by itself.
"""

import copy

import numpy as np
from twin import DIM, KV_HEADS, LAYERS, Twin, attend

PAGE = 16  # tokens of a page, and the first and the latest tokens that always stay


def token_scores(policy, keys, values):
    """[tokens]: the mean over the KV heads, as the headers of services/policy define the scores."""
    norms = np.linalg.norm(keys, axis=-1)
    if policy == "paged_eviction":
        scores = np.linalg.norm(values, axis=-1) / norms
    elif policy == "inverse_key_norm":
        scores = 1 / norms
    else:
        assert policy == "key_diff"
        directions = keys / norms[..., None]
        mean = directions.mean(0)
        scores = -(directions * mean).sum(-1) / np.linalg.norm(mean, axis=-1)
    return scores.mean(-1)


def highest(scores, budget):
    """The tokens that stay after the prompt, ascending."""
    slots = np.arange(len(scores))
    middle = slots[PAGE:-PAGE]
    best = middle[np.argsort(-scores[middle], kind="stable")[: budget - 2 * PAGE]]
    return np.sort(np.concatenate([slots[:PAGE], best, slots[-PAGE:]]))


class Cache:
    """K and V of the resident tokens of a sequence, [tokens, KV_HEADS, DIM] for each layer."""

    def __init__(self):
        nothing = np.empty((0, KV_HEADS, DIM), np.float32)
        self.keys, self.values = [nothing] * LAYERS, [nothing] * LAYERS

    def copy(self):
        """Its arrays are shared, because they are replaced and never changed."""
        other = copy.copy(self)
        other.keys, other.values = list(self.keys), list(self.values)
        return other

    def attend(self, layer, q, k, v):
        self.keys[layer] = np.concatenate([self.keys[layer], k])
        self.values[layer] = np.concatenate([self.values[layer], v])
        return attend(q, self.keys[layer], self.values[layer])

    def keep(self, layer, slots):
        self.keys[layer], self.values[layer] = self.keys[layer][slots], self.values[layer][slots]

    def drop(self, layer, block):
        slots = np.arange(len(self.keys[layer]))
        self.keep(layer, slots[slots // PAGE != block])

    def token_scores(self, policy, layer):
        return token_scores(policy, self.keys[layer], self.values[layer])

    def page_scores(self, policy, layer):
        return self.token_scores(policy, layer).reshape(-1, PAGE).mean(1)


class EvictingTwin:
    def __init__(self, path):
        self.twin = Twin(path)
        self.prompts = {}

    def prefilled(self, prompt):
        """A cache that holds the whole prompt, which is computed once."""
        if prompt not in self.prompts:
            cache = Cache()
            self.twin.hidden(np.array(prompt), attention=cache.attend)
            self.prompts[prompt] = cache
        return self.prompts[prompt].copy()

    def choose(self, policy, prompt, budget):
        """[layers] of the positions that the twin itself would keep after the prompt."""
        cache = self.prefilled(prompt)
        return [highest(cache.token_scores(policy, layer), budget) for layer in range(LAYERS)]

    def page_scores(self, policy, prompt, tokens, kept, drops):
        """[(step, [layers] of the scores of all pages)] at each of `drops`, which are [(step, [layers] of blocks)].

        `kept` are the positions in each layer after the prompt. The sequence continues with `tokens`, and a step is
        the index of the one that filled the page.
        """
        cache, fed, scores = self.prefilled(prompt), 0, []
        for layer in range(LAYERS):
            cache.keep(layer, np.array(kept[layer]))
        for step, blocks in drops:
            self.twin.hidden(np.array(tokens[fed : step + 1]), first=len(prompt) + fed, attention=cache.attend)
            fed = step + 1
            scores.append((step, [cache.page_scores(policy, layer) for layer in range(LAYERS)]))
            for layer, block in enumerate(blocks):
                cache.drop(layer, block)
        return scores


def excess(scores, block):
    """How much more a page was worth than the cheapest that might go, in standard deviations of all that might.

    The first page and the newest stay.
    """
    candidates = scores[1:-1]
    assert 0 < block < len(scores) - 1, f"page {block} of {len(scores)} must stay"
    return float((scores[block] - candidates.min()) / candidates.std())
