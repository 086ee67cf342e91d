"""Tasks about long continuations: what decode eviction forgets, and how a tail of prose is predicted."""

import itertools

from folio_eval import measures, prose
from folio_eval.asking import Outcome, seconds_of
from folio_eval.cells import FULL, Setting
from folio_eval.items import Item, Value, fitted
from folio_eval.tasks.needles import THINGS, Filler, hidden, mix

DECODED = 1000  # tokens between the prompt and the question
NEEDLE_WITHIN = 96  # decoded tokens, in which the needle comes
TAIL = 256


def writing_on(turns, notes):
    """A prompt that has the model go on writing behind these notes. `turns` are Subject.turns."""
    return f"{turns[0]}Read these notes.\n\n{notes}\n\nNow go on writing, at length.{turns[1]}"


class LongGeneration:
    """The model "writes" about 1,000 tokens of prose with a needle near their beginning, then is asked for it.

    The needle is decoded, so that only evictions in decode can lose it; with `in_prompt` it is in the prompt.
    """

    one_form = True

    def __init__(self, in_prompt=False):
        self.in_prompt = in_prompt

    def item(self, subject, rng, length, index, blind):
        _, _, after, last = subject.turns
        key, number = rng.choice(THINGS), str(rng.randrange(10000, 100000))
        deep, seeds = rng.random(), (rng.random(), rng.random())
        question = f"{after}What is the special magic number for {key}?{last}The special magic number for {key} is"

        def written(units):
            text = Filler("prose", seeds[0])(units)
            if self.in_prompt:
                return "".join(text).strip()
            first = max(1, round(deep * NEEDLE_WITHIN / 24))
            return "".join([*text[:first], hidden(key, number), *text[first:]]).strip()

        decoded = subject.fit(DECODED, written, follows=True)
        forced = (*decoded, *subject.more(question))
        filler = Filler("prose", seeds[1])
        needles = [(deep, hidden(key, number))] if self.in_prompt else []
        answer = (Value(f" {number}"),)
        return fitted(subject, length, lambda units: writing_on(subject.turns, mix(filler(units), needles)), forced, answer)


class Perplexity:
    """The last 256 tokens of prose that follow a prompt of exactly `length` tokens of it, each one judged."""

    one_form = True

    def item(self, subject, rng, length, index, blind):
        length = min(length, subject.context - TAIL)
        ids = self.stretch(subject, rng, length + TAIL)
        tail = tuple(ids[length : length + TAIL])
        return Item(tuple(ids[:length]), (), tail, ((0, TAIL),))

    def stretch(self, subject, rng, least):
        """The ids of a text, of which there are `least` or more."""
        source, text, ids = prose.sentences(rng.random()), "", ()
        while len(ids) < least:
            text += "".join(itertools.islice(source, 2 + (least - len(ids)) // 16))
            ids = subject.ids(text.rstrip())
        return ids

    def measure(self, asker, item, setting, place, report):
        """Nats per token, and the mean divergence from the full cache at the same places."""

        def distributions(chosen, report=False):
            result = asker.score(item, chosen, place.salt, top=measures.TOP, report=report)
            return result, [measures.known(*at) for at in zip(result.top, result.tokens, result.logprobs)]

        reference = asker.once(place, lambda: distributions(Setting(FULL)))
        result, here = reference if setting.policy == FULL else distributions(setting, report)
        values = {"nll": -sum(result.logprobs) / TAIL, "kl": measures.mean_divergence(reference[1], here)}
        kept = asker.kept(item, result) if report else None
        return Outcome(values, seconds_of(result.usage, len(item.prompt)), kept)
