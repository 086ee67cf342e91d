"""Scores by keys and values alone."""

import numpy as np

from folio_trials.arrays import z_scores
from folio_trials.cache import DIM, KV_HEADS, PAGE, rotated_back, token_scores, unit
from folio_trials.scorer import Scorer, numbers_of


class NormRatio(Scorer):
    """PagedEviction (arXiv 2509.04377)."""

    def prompt(self, tokens):
        return token_scores("paged_eviction", tokens.k, tokens.v)


class Chance(Scorer):
    """Blocks of a page, the same in all layers: what a fair draw keeps."""

    def __init__(self):
        self.draw = np.random.default_rng(0)

    def prompt(self, tokens):
        return np.repeat(self.draw.random(len(tokens.k) // 16 + 1), 16)[: len(tokens.k)]


class Newest(Scorer):
    """StreamingLLM (arXiv 2309.17453): the later, the higher."""

    def prompt(self, tokens):
        return tokens.positions.astype(np.float32)

    def page(self, tokens):
        return tokens.positions.astype(np.float32)


class Sampled(Scorer):
    """The difference from a few: a page is compared with the last keys of at most 16 pages of the text so far."""

    def __init__(self):
        self.last = []

    def prompt(self, tokens):
        directions = unit(tokens.unrotated)
        self.last = [directions[at] for at in range(31, len(directions), 16)]
        return against(directions, directions[16:].sum(0))

    def page(self, tokens):
        self.last.append(unit(tokens.unrotated)[-1])
        every = -(-len(self.last) // 16)
        return against(unit(tokens.unrotated), np.sum(self.last[::every], axis=0))


def against(directions, mean):
    """-cos of each of [tokens, KV_HEADS, DIM] to a mean of each head, averaged over heads."""
    return -(directions * unit(mean)).sum(-1).mean(-1)


class Difference(Scorer):
    """The same against the mean of all keys so far, in decode too."""

    sum = 0

    def prompt(self, tokens):
        directions = unit(tokens.unrotated)
        self.sum = self.sum + directions.sum(0)
        return against(directions, self.sum)


class Usual(Scorer):
    """The difference from the mean key of the model in another text, whose file FOLIO_USUAL names."""

    def prompt(self, tokens):
        return against(unit(tokens.unrotated), numbers_of("FOLIO_USUAL")[tokens.layer])


class Residents(Scorer):
    """query_diff's difference as it is. A new page is compared with the resident tokens behind the first page, of which there are
    at most 256 in a trial that does as the processes do. The scores of older pages stay."""

    def prompt(self, tokens):
        directions = unit(tokens.unrotated)
        return against(directions, directions[PAGE:].sum(0))

    def page(self, tokens):
        return np.zeros(len(tokens.k), np.float32)  # `again` knows more

    def again(self, tokens, resident):
        directions = unit(rotated_back(resident.keys, resident.positions))
        new = against(directions[-len(tokens.k) :], directions[PAGE:].sum(0))
        return np.concatenate([resident.numbers[: -len(new)], new]).astype(np.float32)


class Among(Scorer):
    """The difference of all resident tokens from their own mean, anew whenever a page fills."""

    def prompt(self, tokens):
        directions = unit(tokens.unrotated)
        return against(directions, directions.sum(0))

    def again(self, tokens, resident):
        directions = unit(rotated_back(resident.keys, resident.positions))
        return against(directions, directions.sum(0))


class Nested(Scorer):
    """NestedKV (arXiv 2605.26678): unlike all keys, those of the neighbourhood, and the latest, with their rotation undone."""

    sum, recent, scales = 0, None, None

    def prompt(self, tokens):
        directions = unit(tokens.unrotated)
        block = int(np.clip(len(directions) // 32, 128, 256))
        means = [directions[begin : begin + block].mean(0) for begin in range(0, len(directions), block)]
        near = np.repeat(means, block, axis=0)[: len(directions)]
        self.sum = directions.sum(0)
        self.recent = directions[-256:]
        return self.blended(directions, near, directions[-64:].mean(0))

    def page(self, tokens):
        directions = unit(tokens.unrotated)
        self.sum = self.sum + directions.sum(0)
        self.recent = np.concatenate([self.recent, directions])[-256:]
        return self.blended(directions, self.recent.mean(0), self.recent[-64:].mean(0))

    def blended(self, directions, near, latest):
        raw = np.array([-(directions * unit(mean)).sum(-1) for mean in (self.sum, near, latest)])  # [3, tokens, heads]
        if self.scales is None:
            # Minimum, width, and the weights of each head, by the prompt.
            low, high = raw.min(1, keepdims=True), raw.max(1, keepdims=True)
            scaled = np.sort((raw - low) / (high - low + 1e-9), axis=1)
            tenth = max(1, scaled.shape[1] // 10)
            contrast = scaled[:, -tenth:].mean(1) - scaled[:, :tenth].mean(1)
            weights = np.array([0.4, 0.4, 0.2])[:, None] * np.exp(3 * contrast)
            spread = ((raw - low) / (high - low + 1e-9)).std(0)
            self.scales = low, high, (weights / weights.sum(0))[:, None], (spread.min(0), spread.max(0))
            low_spread, high_spread = self.scales[3]
            self.usual = ((spread - low_spread) / (high_spread - low_spread + 1e-9)).mean(0)
        low, high, weights, (least, most) = self.scales
        scaled = (raw - low) / (high - low + 1e-9)
        surprise = (scaled.std(0) - least) / (most - least + 1e-9) - self.usual
        share = 1 / (1 + np.exp(-10 * (surprise - 0.6)))
        return ((1 - share) * (weights * scaled).sum(0) + share * scaled.max(0)).mean(-1)


class Leverage(Scorer):
    """Compactor (arXiv 2507.08143), its first half: how far a key stands out of its chunk, directions weighed by how few
    keys use them."""

    CHUNK, RIDGE = 512, 5e-3
    chunk = None

    def prompt(self, tokens):
        keys = tokens.unrotated
        return np.concatenate([self.own(keys[at : at + self.CHUNK]) for at in range(0, len(keys), self.CHUNK)])

    def own(self, keys):
        # A last chunk of a few keys would span little: it borrows from the one before.
        if self.chunk is not None and len(keys) < self.CHUNK:
            keys, new = np.concatenate([self.chunk, keys])[-self.CHUNK :], len(keys)
        else:
            new = len(keys)
        self.chunk = keys
        return z_scores(leverages(keys).astype(np.float32).reshape(-1)).reshape(len(keys), KV_HEADS)[-new:].mean(-1)

    def page(self, tokens):
        return self.own(tokens.unrotated)


def leverages(keys, ridge=Leverage.RIDGE):
    """[tokens, KV_HEADS]"""
    centred = (keys - keys.mean(0)).transpose(1, 0, 2).astype(np.float64)
    gram = centred.transpose(0, 2, 1) @ centred + ridge * np.eye(DIM)
    return (centred * np.linalg.solve(gram, centred.transpose(0, 2, 1)).transpose(0, 2, 1)).sum(-1).T


class Whitened(Scorer):
    """Leverage of each key's direction over all keys so far, without chunks."""

    gram, sum, count = None, 0, 0

    def prompt(self, tokens):
        directions = unit(tokens.unrotated).transpose(1, 0, 2).astype(np.float64)
        self.sum, self.count = self.sum + directions.sum(1, keepdims=True), self.count + directions.shape[1]
        products = directions.transpose(0, 2, 1) @ directions
        self.gram = products if self.gram is None else self.gram + products
        mean = self.sum / self.count
        gram = self.gram - self.count * mean.transpose(0, 2, 1) @ mean + 0.01 * self.count / DIM * np.eye(DIM)
        centred = directions - mean
        lever = (centred * np.linalg.solve(gram, centred.transpose(0, 2, 1)).transpose(0, 2, 1)).sum(-1).T
        return (lever * self.count).mean(-1).astype(np.float32)


class Lag(Scorer):
    """LagKV (arXiv 2504.04704): how a token spreads over the range of the next partition, as its rank in its own."""

    LENGTH = 128

    def prompt(self, tokens):
        # The last partition has none behind it and is measured by the one before.
        ends = [*range(self.LENGTH, len(tokens.k) - self.LENGTH + 1, self.LENGTH), len(tokens.k)]
        parts = [slice(begin, end) for begin, end in zip([0, *ends], ends)]
        out = np.zeros(len(tokens.k), np.float32)
        for own, other in zip(parts, [*parts[1:], *parts[-2:-1]]):
            score = 0
            for rows in (tokens.k, tokens.v):
                low, high = rows[other].min(0), rows[other].max(0)
                spread = np.exp(((rows[own] - low) / (high - low + 1e-9)).std(-1))
                score = score + spread / spread.sum(0)
            out[own] = score.mean(-1).argsort().argsort() / (own.stop - own.start)
        return out

    def page(self, tokens):
        return np.full(len(tokens.k), 0.5, np.float32)
