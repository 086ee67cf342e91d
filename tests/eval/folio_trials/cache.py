"""What the model computes of a text, and the cache of a sequence that forgets."""

import copy
import dataclasses
import functools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "oracle"))
import evicting_twin  # noqa: E402
from evicting_twin import PAGE, token_scores  # noqa: E402
from twin import DIM, HEADS, KV_HEADS, LAYERS, THETA, Twin, attend, rotate  # noqa: E402

GROUP = HEADS // KV_HEADS


def rotated_back(keys, positions):
    """Keys without their rotation; `keys` is [tokens, heads, DIM]."""
    inverse = 1 / THETA ** (np.arange(0, DIM, 2, dtype=np.float32) / DIM)
    angles = np.tile(np.asarray(positions, np.float32)[:, None] * inverse, 2)[:, None]
    return rotate(keys, np.cos(angles), -np.sin(angles))


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@dataclasses.dataclass
class Tokens:
    """Tokens of one layer in the order of their positions: q is [tokens, HEADS, DIM], k and v [tokens, KV_HEADS, DIM], all
    as attention sees them. `behind` is the same of what comes after them, whose last `asking` tokens are the question and the
    answer. `again` is of the text when it is read a second time. No policy has these: only bounds may read them."""

    layer: int
    first: int  # position of the first token
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    behind: object = None
    asking: int = 0
    again: object = None
    memo: dict = dataclasses.field(default_factory=dict)  # of scorers, by their name: what they said, and their state

    @property
    def positions(self):
        return np.arange(self.first, self.first + len(self.k))

    @functools.cached_property
    def unrotated(self):
        return rotated_back(self.k, self.positions)

    @functools.cached_property
    def queries(self):
        """Without their rotation."""
        return rotated_back(self.q, self.positions)


class Text:
    """Feeds tokens to the model and keeps all that it computes, layer by layer, without forgetting."""

    def __init__(self, twin):
        self.twin, self.layers, self.length = twin, [None] * LAYERS, 0
        self.hidden = None

    def feed(self, ids):
        first, seen = self.length, [None] * LAYERS

        def attention(layer, q, k, v):
            seen[layer] = Tokens(layer, first, q, k, v)
            before = self.layers[layer]
            if before is None:
                return attend(q, k, v)
            return attend(q, np.concatenate([before.k, k]), np.concatenate([before.v, v]))

        self.hidden = self.twin.hidden(np.array(ids), first=first, attention=attention)
        for layer, now in enumerate(seen):
            before = self.layers[layer]
            self.layers[layer] = now if before is None else joined(before, now)
        self.length += len(ids)
        return seen

    def copy(self):
        other = copy.copy(self)
        other.layers = list(self.layers)
        return other


def joined(before, now):
    both = (np.concatenate([getattr(before, name), getattr(now, name)]) for name in "qkv")
    return Tokens(before.layer, before.first, *both)


class Cache(evicting_twin.Cache):
    """Has the positions and the scores of the resident tokens too."""

    def __init__(self, twin, layers):
        self.twin = twin
        self.length = layers[0].first + len(layers[0].k)
        self.keys = [tokens.k for tokens in layers]
        self.values = [tokens.v for tokens in layers]
        self.positions = [tokens.positions for tokens in layers]
        self.scores = [np.zeros(len(tokens.k), np.float32) for tokens in layers]

    def feed(self, ids):
        """(hidden states after the last norm, [LAYERS] of Tokens) of the next tokens."""
        seen = []

        def attention(layer, q, k, v):
            seen.append(Tokens(layer, self.length, q, k, v))
            self.positions[layer] = np.concatenate([self.positions[layer], np.arange(len(k)) + self.length])
            self.scores[layer] = np.concatenate([self.scores[layer], np.zeros(len(k), np.float32)])
            return self.attend(layer, q, k, v)

        hidden = self.twin.hidden(np.array(ids), first=self.length, attention=attention)
        self.length += len(ids)
        return hidden, seen

    def keep(self, layer, slots):
        super().keep(layer, slots)
        for rows in (self.positions, self.scores):
            rows[layer] = rows[layer][slots]


__all__ = ["DIM", "GROUP", "HEADS", "KV_HEADS", "LAYERS", "PAGE", "THETA", "Cache", "Text", "Tokens", "Twin", "token_scores"]
