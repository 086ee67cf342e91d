"""Scores by queries: those of the prompt, those that may come, and those that will."""

import numpy as np

from folio_trials.arrays import attention, pooled, smooth
from folio_trials.cache import DIM, GROUP, KV_HEADS, PAGE, THETA, rotated_back
from folio_trials.scorer import Scorer, numbers_of


class Mutual(Scorer):
    """Compactor's second half: attention within blocks of 128 tokens, both ways, without a scale."""

    BLOCK = 128
    mean, deviation = None, 1

    def raw(self, tokens):
        out = np.empty((len(tokens.k), KV_HEADS), np.float32)
        for begin in range(0, len(tokens.k), self.BLOCK):
            end = begin + self.BLOCK
            mass = attention(tokens.q[begin:end], tokens.k[begin:end], self.BLOCK, 1.0).sum(1)
            out[begin:end] = mass.reshape(KV_HEADS, GROUP, -1).sum(1).T
        return out

    def prompt(self, tokens):
        raw = self.raw(tokens)
        self.mean, self.deviation = raw.mean(), raw.std()
        return ((raw - self.mean) / self.deviation).mean(-1)

    def page(self, tokens):
        return ((self.raw(tokens) - self.mean) / self.deviation).mean(-1)


class Expected(Scorer):
    """Expected Attention (arXiv 2510.00636) without its covariance: the mean query, at the next 512 positions."""

    EPSILON = 1e-4

    def prompt(self, tokens):
        mean = tokens.queries[4:].mean(0, keepdims=True)
        # Back by a negative angle is ahead.
        ahead = -(tokens.positions[-1] + 1 + np.arange(512))
        query = rotated_back(np.repeat(mean, 512, axis=0), ahead).mean(0)  # [HEADS, DIM]
        logits = np.einsum("hgd,nhd->nhg", query.reshape(KV_HEADS, GROUP, DIM), tokens.k) / np.sqrt(DIM)
        share = np.exp(logits - logits.max(0))
        share = (share / share.sum(0)).mean(-1)
        return ((share + self.EPSILON) * np.linalg.norm(tokens.v, axis=-1)).mean(-1)


class Synthetic(Scorer):
    """TriAttention (arXiv 2604.04921) with the prompt's own queries in place of a calibration."""

    def prompt(self, tokens):
        half = DIM // 2

        def complex_of(rows):
            return rows[..., :half] + 1j * rows[..., half:]

        queries, keys = complex_of(tokens.queries), complex_of(tokens.k)
        mean, size = queries[4:].mean(0), np.abs(queries[4:]).mean(0)  # [HEADS, half]
        inverse = 1 / THETA ** (np.arange(0, DIM, 2) / DIM)
        ahead = tokens.positions[-1] + 1 + 2.0 ** np.arange(17)
        query = mean * np.exp(1j * ahead[:, None] * inverse).mean(0)
        grouped = query.reshape(KV_HEADS, GROUP, half)
        first = np.einsum("hgf,nhf->nhg", grouped, keys.conj()).real
        second = np.einsum("hgf,nhf->nhg", (size - np.abs(mean)).reshape(KV_HEADS, GROUP, half), np.abs(keys))
        scores = first + second
        scores = (scores - scores.mean(0)) / scores.std(0)
        return scores.max(-1).mean(-1).astype(np.float32)


class Window(Scorer):
    """SnapKV (arXiv 2404.14469): attention of the prompt's last queries. It has nothing to say about pages of the answer."""

    QUERIES, POOL = 16, 31

    def mass(self, tokens):
        count = min(self.QUERIES, len(tokens.q))
        return attention(tokens.q[-count:], tokens.k, len(tokens.k) - count)

    def prompt(self, tokens):
        return pooled(self.mass(tokens).mean((0, 1)), self.POOL)

    def page(self, tokens):
        return np.zeros(len(tokens.k), np.float32)


class WindowMost(Window):
    """DefensiveKV (arXiv 2510.13334): the most that any query and head gives, with the mean as a floor."""

    def prompt(self, tokens):
        mass = self.mass(tokens)
        near = np.apply_along_axis(smooth, -1, mass)
        near *= mass.sum(-1, keepdims=True) / near.sum(-1, keepdims=True)
        most = near.reshape(-1, near.shape[-1]).max(0)
        return pooled(np.maximum(most, most.mean()) * np.abs(tokens.v).sum(-1).mean(-1), self.POOL)


class Later(Scorer):
    """A bound: the most attention that the question and the true answer give, which no policy has."""

    most, first = np.zeros(0, np.float32), 0

    def prompt(self, tokens):
        behind = tokens.behind
        if behind is None:
            return np.zeros(len(tokens.k), np.float32)
        asking = behind.q[-tokens.asking :]
        keys = np.concatenate([tokens.k, behind.k])
        self.first = tokens.first
        self.most = attention(asking, keys, len(keys) - len(asking)).max((0, 1))
        return self.most[: len(tokens.k)]

    def page(self, tokens):
        return self.most[tokens.positions - self.first]


class Decayed(Window):
    """G-KV (arXiv 2512.00504) by pages: the most attention that any full page of queries gave, which fades with each more."""

    FADE = 0.8

    def prompt(self, tokens):
        mean = self.mass(tokens).mean((0, 1))
        return pooled(mean / mean[PAGE:-PAGE].max(), self.POOL)

    def again(self, tokens, resident):
        mean = attention(tokens.q, resident.keys, len(resident.keys) - len(tokens.k)).mean((0, 1))
        pages = (mean / mean[PAGE:-PAGE].max()).reshape(-1, PAGE).max(-1)
        return np.maximum(self.FADE * resident.numbers, np.repeat(pages, PAGE)).astype(np.float32)


class Again(Window):
    """KVzip (arXiv 2505.23416), a second prefill: the most attention that the text gives when it is repeated."""

    def prompt(self, tokens):
        return repeated(tokens).max(-1)


def repeated(tokens):
    """[tokens, KV_HEADS]: the most that any query of a group gives while the text is read again."""
    again, count = tokens.again, len(tokens.k)
    out = np.empty((count, KV_HEADS), np.float32)
    keys = np.concatenate([tokens.k, again.k])
    for head in range(KV_HEADS):
        queries = again.q[:, head * GROUP : (head + 1) * GROUP]
        mass = attention(queries, keys[:, head : head + 1], count)
        out[:, head] = mass[:, :, :count].max((0, 1))
    return out


class Ridge(Scorer):
    """A trained guess of what Again sees: `folio_trials.ridge` fits it, and FOLIO_RIDGE names its file."""

    def prompt(self, tokens):
        return (ridge_features(tokens) @ numbers_of("FOLIO_RIDGE")[tokens.layer]).mean(-1)


def ridge_features(tokens):
    """[tokens, features]: queries and keys without their rotation and values, which together are as good as the layer's input,
    because they are linear in it and have more numbers; and a 1."""
    count = len(tokens.k)
    parts = [rows.reshape(count, -1) for rows in (tokens.queries, tokens.unrotated, tokens.v)]
    return np.concatenate([*parts, np.ones((count, 1), np.float32)], axis=1)
