"""Which tokens of a layer stay when it is compacted, by scores of the twin, as the headers of services/policy define them."""

import numpy as np
from evicting_twin import PAGE, token_scores
from twin import DIM, HEADS, KV_HEADS, THETA, rotate

# Of query_diff. Only the window is its default: a sequence that is compared must ask for them.
WINDOW, POOL, SHARE, SMOOTHED = 16, 31, 0.5, 2


def norms(values):
    return np.linalg.norm(values, axis=-1)


def head_scores(policy, keys, values):
    """[tokens, KV_HEADS]: what `token_scores` of evicting_twin takes the mean of."""
    one = [token_scores(policy, keys[:, [head]], values[:, [head]]) for head in range(keys.shape[1])]
    return np.stack(one, -1)


def angles(positions):
    """cos and sin of each token's rotation, [tokens, 1, DIM]."""
    inverse = (1 / THETA ** (np.arange(0, DIM, 2, dtype=np.float32) / DIM)).astype(np.float32)
    angle = np.tile(positions.astype(np.float32)[:, None] * inverse, 2)[:, None]
    return np.cos(angle), np.sin(angle)


def directions(keys, positions):
    """The keys with their rotation undone, of length 1."""
    cos, sin = angles(positions)
    turned = rotate(keys, cos, -sin)
    return turned / norms(turned)[..., None]


def differences(of, among):
    """[tokens, KV_HEADS]: minus the cosine between each of `of` and the mean of `among`, both of length 1."""
    mean = among.mean(0)
    return -(of * mean).sum(-1) / norms(mean)


def smooth(scores):
    """The mean of each token and its neighbours."""
    near = [scores[max(at - SMOOTHED, 0) : at + SMOOTHED + 1].mean() for at in range(len(scores))]
    return np.array(near)


def window_scores(queries, keys):
    """[tokens]: how much the last queries attend to each token or to one of its neighbours, over queries and heads."""
    group = HEADS // KV_HEADS
    rows = len(queries)
    hidden = np.triu(np.ones((rows, len(keys)), bool), 1 + len(keys) - rows)
    mass = np.zeros((KV_HEADS, len(keys)))
    for head in range(HEADS):
        share = queries[:, head].astype(np.float64) @ keys[:, head // group].T / np.sqrt(DIM)
        share[hidden] = -np.inf
        share = np.exp(share - share.max(-1, keepdims=True))
        mass[head // group] += (share / share.sum(-1, keepdims=True)).sum(0)
    near = POOL // 2
    pooled = [mass[:, max(at - near, 0) : at + near + 1].max(-1) for at in range(len(keys))]
    return np.array(pooled).mean(-1) / (rows * group)


def best(scores, wanted):
    """The slots of the `wanted` highest scores; among equals the newer are higher."""
    order = np.lexsort((np.arange(len(scores)), scores))
    return order[len(scores) - wanted :]


def highest(scores, budget, recent):
    """The slots that stay: the first page, the last `recent`, and the highest between them, ascending."""
    slots = np.arange(len(scores))
    middle = slots[PAGE : len(scores) - recent]
    chosen = middle[best(scores[middle], budget - PAGE - recent)]
    return np.sort(np.concatenate([slots[:PAGE], chosen, slots[len(scores) - recent :]]))


def crushed(scores, budget, share):
    """The slots that stay under KVCrush with the anchor mean. `scores` are [tokens, KV_HEADS]."""
    total, middle = len(scores), slice(PAGE, len(scores) - PAGE)
    representatives = int(share * budget)
    means, heads = scores.mean(-1)[middle], scores[middle]
    count = len(means)
    upper = np.zeros(heads.shape, bool)
    for head in range(heads.shape[1]):
        upper[best(heads[:, head], count // 2), head] = True
    above = best(means, count - (total - budget) - representatives)
    below = np.setdiff1d(np.arange(count), above)
    anchor = 2 * upper[below].sum(0) > len(below)
    distance = (upper[below] != anchor).sum(-1)
    ordered = below[np.argsort(distance, kind="stable")]
    chosen = ordered[[at * (len(ordered) - 1) // max(representatives - 1, 1) for at in range(representatives)]]
    stay = PAGE + np.concatenate([above, chosen])
    return np.sort(np.concatenate([np.arange(PAGE), stay, np.arange(total - PAGE, total)]))
