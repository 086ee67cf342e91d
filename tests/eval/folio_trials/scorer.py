"""A scorer has `prompt(tokens)`, one number per token of a layer's prompt, and `page(tokens)`, the same for a page that
filled in decode, after the prompt and the pages before it. A high number means keep. Numbers of KV heads are averaged,
because a page of the cache holds all heads of a token. A scorer belongs to one layer of one sequence.
"""

import dataclasses
import functools
import os

import numpy as np


@functools.cache
def numbers_of(variable):
    """The array in the file that an environment variable names."""
    return np.load(os.environ[variable])


class Scorer:
    def page(self, tokens):
        return self.prompt(tokens)

    def again(self, tokens, resident):
        """The numbers of all `resident` tokens, after the page of `tokens`, the last of them, was scored."""
        return resident.numbers


@dataclasses.dataclass(frozen=True)
class Resident:
    """What a layer of the cache holds, in the order of positions."""

    keys: np.ndarray  # [tokens, KV_HEADS, DIM]
    positions: np.ndarray
    numbers: np.ndarray  # as they were scored before
