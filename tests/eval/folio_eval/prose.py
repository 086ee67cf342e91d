"""Endless varied prose from a seed, made of the sentences in data/prose.txt.

A pass uses every sentence once, in paragraphs of one theme with its own people and place; the next
pass deals them anew, fills their slots otherwise, and puts an opening before those that have none.
"""

import functools
import itertools
import pathlib
import random
import re

DATA = pathlib.Path(__file__).parent / "data/prose.txt"
FIXED = ("person", "other", "place")
CUTS = (4, 5, 5, 6)  # sentences of a theme's paragraphs in one pass
SLOT = re.compile(r"(\b[Aa] )?\{(\w+)\}")


@functools.cache
def _data():
    """({slot: words}, {theme: its sentences})."""
    slots, themes = {}, {}
    for line in DATA.read_text().splitlines():
        if line.startswith("@"):
            name, words = line[1:].split(" ", 1)
            slots[name] = words.split("|")
        elif line.startswith("=="):
            sentences = themes[line[2:].strip()] = []
        elif line and not line.startswith("#"):
            sentences.append(line)
    return slots, themes


def _deal(rng, themes):
    """The paragraphs of one pass, as lists of sentences with slots."""
    paragraphs = []
    for theme in themes:
        left, cuts = rng.sample(theme, len(theme)), rng.sample(CUTS, len(CUTS))
        for cut in cuts:
            paragraphs.append(left[:cut])
            left = left[cut:]
    return rng.sample(paragraphs, len(paragraphs))


def _fill(rng, sentence, slots, fixed):
    def word(match):
        article, slot = match[1] or "", match[2]
        filled = fixed.get(slot) or rng.choice(slots[slot])
        return (article[:-1] + "n " if article and filled[0] in "aeiou" else article) + filled

    return SLOT.sub(word, sentence)


def sentences(seed):
    """Yields sentences for ever, each with the space or the empty line that follows it."""
    rng = random.Random(f"prose {seed}")
    slots, themes = _data()
    for turn in itertools.count():
        for paragraph in _deal(rng, list(themes.values())):
            fixed = {slot: rng.choice(slots[slot]) for slot in FIXED}
            for at, sentence in enumerate(paragraph):
                if turn and "{" not in sentence:
                    sentence = f"{rng.choice(slots['opening'])} {sentence[0].lower()}{sentence[1:]}"
                yield _fill(rng, sentence, slots, fixed) + ("\n\n" if at == len(paragraph) - 1 else " ")


def patterns():
    """{theme: its sentences that have slots}."""
    return {theme: [sentence for sentence in sentences if "{" in sentence] for theme, sentences in _data()[1].items()}


def filled(rng, pattern):
    """A sentence of a pattern, its slots filled at random."""
    return _fill(rng, pattern, _data()[0], {})
