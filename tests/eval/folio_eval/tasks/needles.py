"""A number or several hidden in filler, and a question for one of them."""

import itertools

from folio_eval import prose
from folio_eval.items import Question, Value, ask_after

FILLER = "The grass is green and the sky is wide. We walk to the hill and back again. Then we rest for a while. "
THINGS = """acorn amber anvil basil beacon birch bonfire bramble bugle candle canyon cedar chimney clover cobalt comet
copper coral cricket crocus curtain daisy dolphin donkey ember falcon feather fiddle flint garlic geyser ginger glacier
goblet harp hazel heron honey indigo ivory jasmine kelp lagoon lantern laurel lemon lichen lily magnet maple marble meadow
melon mitten nutmeg oyster paddle parsley pebble pepper pillow plume poppy prairie quartz quiver raven saddle saffron
sparrow spruce teapot thistle timber trumpet tulip turnip umbrella velvet violin walnut willow yarrow zinc""".split()
INTRO = "Some special magic numbers are hidden in the text below. Remember them: there will be a question about them."


def hidden(key, number):
    """The sentence that is the needle."""
    return f"The special magic number for {key} is {number}. "


def depth(rng, index):
    """Where in the text, from 0 to 1: spread evenly over the prompts of a seed."""
    return (rng.random() / 8 + index * 0.6180339887) % 1.0


def mix(units, needles):
    """`needles` are (depth, sentence); each stands before the unit at its depth."""
    text, at = [], 0
    for deep, sentence in sorted(needles):
        place = round(deep * len(units))
        text += [*units[at:place], sentence]
        at = place
    return "".join([*text, *units[at:]]).strip()


class Filler:
    """The first `n` units of a filler, made when needed."""

    def __init__(self, kind, seed):
        self._source = prose.sentences(seed) if kind == "prose" else itertools.repeat(FILLER)
        self._units = []

    def __call__(self, n):
        self._units += itertools.islice(self._source, max(0, n - len(self._units)))
        return self._units[:n]


class Needle:
    """`keys` numbers in the filler, one of them asked for; or `values` numbers of one key, all of them asked for."""

    def __init__(self, filler, keys=1, values=1):
        self.filler, self.keys, self.values = filler, keys, values

    def item(self, subject, rng, length, index, blind):
        keys = rng.sample(THINGS, self.keys)
        numbers = [str(rng.randrange(10000, 100000)) for _ in range(max(self.keys, self.values))]
        places = [depth(rng, index)] + [rng.random() for _ in numbers[1:]]
        if self.values > 1:
            places.sort()  # asked for in the order of the text
        needles = [(place, hidden(keys[at % self.keys], number)) for at, (place, number) in enumerate(zip(places, numbers))]
        filler = Filler(self.filler, rng.random())
        question = Question(
            lambda units: f"{INTRO}\n\n{mix(filler(units), needles)}", *self._question(keys[0], numbers)
        )
        return ask_after(subject, length, question, blind)

    def _question(self, key, numbers):
        if self.values == 1:
            asked = f"What is the special magic number for {key} mentioned in the text?"
            return asked, f"The special magic number for {key} mentioned in the text is", (Value(f" {numbers[0]}"),)
        asked = f"What are all the special magic numbers for {key} mentioned in the text, in their order?"
        answer = [Value(f" {numbers[0]}")]
        for number in numbers[1:]:
            answer += [",", Value(f" {number}")]
        return asked, f"The special magic numbers for {key} mentioned in the text are", tuple(answer)
