"""Numbers of tokens beside one another, and attention."""

import numpy as np

from folio_trials.cache import DIM, GROUP


def z_scores(values):
    deviation = values.std()
    return (values - values.mean()) / deviation if deviation > 0 else np.zeros_like(values)


def smooth(values, reach=2):
    """Means over each number and `reach` neighbours on each side."""
    sums = np.cumsum(np.concatenate([[0], values]))
    at = np.arange(len(values))
    begin, end = np.maximum(at - reach, 0), np.minimum(at + reach + 1, len(values))
    return ((sums[end] - sums[begin]) / (end - begin)).astype(np.float32)


def pooled(values, pool):
    """Maxima over each number and its neighbours, `pool` in all."""
    reach = pool // 2
    padded = np.concatenate([np.full(reach, -np.inf), values, np.full(reach, -np.inf)])
    return np.lib.stride_tricks.sliding_window_view(padded, pool).max(-1)


def chunked(values, length):
    """The mean of each number's chunk."""
    chunk = np.arange(len(values)) // length
    means = np.bincount(chunk, values) / np.bincount(chunk)
    return means[chunk].astype(np.float32)


def attention(q, k, first=0, scale=DIM**-0.5):
    """[HEADS, queries, keys] of probabilities. Query i sees the keys up to `first` + i."""
    out = np.empty((q.shape[1], len(q), len(k)), np.float32)
    hidden = np.triu(np.ones((len(q), len(k)), bool), 1 + first)
    for head in range(q.shape[1]):
        logits = q[:, head] @ k[:, head // GROUP].T * np.float32(scale)
        logits[hidden] = -np.inf
        logits = np.exp(logits - logits.max(-1, keepdims=True))
        out[head] = logits / logits.sum(-1, keepdims=True)
    return out
