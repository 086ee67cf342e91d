"""Tasks over long texts that people wrote: how their next words are predicted, and a name that the text had before."""

import collections
import functools
import re

from folio_eval import texts
from folio_eval.items import Item, Value, held_back, spell
from folio_eval.tasks.streams import Perplexity

NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{3,}\b")  # not at the beginning of a sentence
RARE = 10_000  # a name fills at most one place in that many characters of the whole text
NEAR, SHORT = 300, 3  # characters before the gap that do not have the name; characters that any token has on average
LONG = 8  # characters of a token at the most, on average


class TextPerplexity(Perplexity):
    """The last 256 tokens of a stretch of a text. The stretch begins with a sentence."""

    def __init__(self, name):
        self._text = texts.read(name)

    def stretch(self, subject, rng, least):
        most = LONG * least
        start = self._text.index(". ", rng.randrange(max(1, len(self._text) - most - 2000))) + 2
        return subject.ids(self._text[start : start + most])


class Cloze:
    """A proper name, of which the text before has several mentions and the last lines have none."""

    one_form = True

    def __init__(self, name):
        self._text = texts.read(name)

    @functools.cached_property
    def _names(self):
        """[(where, name)] of rare names inside sentences. A word that the text has in small letters too is none."""
        ordinary = set(re.findall(r"\b[a-z]+\b", self._text))
        found = [(match.start(), match[0]) for match in NAME.finditer(self._text)]
        counts = collections.Counter(name for _, name in found)
        most = len(self._text) / RARE
        return [(at, name) for at, name in found if counts[name] <= most and name.lower() not in ordinary]

    def _known(self, at, name, length):
        """Whether the stretch of `length` tokens before a place makes its name known."""
        far = self._text[max(0, at - SHORT * length) : at - NEAR]
        return at > LONG * length and far.count(name) > 1 and name not in self._text[at - NEAR : at]

    def item(self, subject, rng, length, index, blind):
        drawn = rng.sample(self._names, len(self._names))
        found = next((one for one in drawn if self._known(*one, length)), None)
        if found is None:
            raise ValueError(f"no name comes again within {length} tokens")
        at, name = found
        answer, parts = spell(subject, (Value(f" {name}"),))
        room = min(length, subject.context - len(answer))
        ids = subject.more(self._text[at - LONG * room : at - 1])
        room -= len(subject.first)
        return held_back(Item((*subject.first, *ids[-room:]), (), answer, parts))
