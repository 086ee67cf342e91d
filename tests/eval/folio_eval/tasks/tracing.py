"""Things that are spread over the whole context: chains of variables, frequent words, a record among records."""

from folio_eval.items import Question, Value, ask_after
from folio_eval.tasks.needles import THINGS, Filler, depth, mix

LETTERS = "ABCDEFGHKLMNPRSTUVWXYZ"


class VariableTracking:
    """A number is assigned to a variable, that to another, and so on: what does the last one hold?"""

    def __init__(self, hops=2, chains=1, filler="repeat"):
        self.hops, self.chains, self.filler = hops, chains, filler

    def item(self, subject, rng, length, index, blind):
        names = set()
        while len(names) < self.chains * (self.hops + 1):
            names.add("".join(rng.choice(LETTERS) for _ in range(3)))
        names = rng.sample(sorted(names), len(names))
        numbers = rng.sample(range(10000, 100000), self.chains)
        lines = []
        for chain in range(self.chains):
            own = names[chain * (self.hops + 1) :][: self.hops + 1]
            places = sorted([depth(rng, index), *(rng.random() for _ in range(self.hops))])
            values = [str(numbers[chain]), *own]
            lines += [(place, f"VAR {name} = {value}. ") for place, name, value in zip(places, own, values)]
        filler = Filler(self.filler, rng.random())
        asked = names[self.hops]
        question = Question(
            lambda units: "Follow the chain of variable assignments hidden in the text below.\n\n"
            + mix(filler(units), lines),
            f"Which number does the variable {asked} hold in the end?",
            f"The variable {asked} holds the number",
            (Value(f" {numbers[0]}"),),
        )
        return ask_after(subject, length, question, blind)


class CommonWords:
    """A long list of words, three of which come far more often than the rest."""

    COMMON, SHARE = 3, 0.45

    def item(self, subject, rng, length, index, blind):
        words = rng.sample(THINGS, len(THINGS))
        common, rare = words[: self.COMMON], words[self.COMMON :]
        order = rng.random()

        def context(units):
            # Each unit is one of the list; shares of the common ones fall, so that their order is plain.
            shares = [self.SHARE * (self.COMMON - at) * 2 / (self.COMMON * (self.COMMON + 1)) for at in range(self.COMMON)]
            listed = [word for word, share in zip(common, shares) for _ in range(round(units * share))]
            listed += [rare[at % len(rare)] for at in range(units - len(listed))]
            type(rng)(order).shuffle(listed)
            return "Below is a numbered list of words. Remember those that come most often.\n\n" + " ".join(
                f"{at + 1}. {word}" for at, word in enumerate(listed)
            )

        answer = [Value(f" {common[0]}")]
        for word in common[1:]:
            answer += [",", Value(f" {word}")]
        question = Question(
            context,
            f"Which {self.COMMON} words come most often in the list, the most frequent first?",
            f"The {self.COMMON} words that come most often are",
            tuple(answer),
        )
        return ask_after(subject, length, question, blind)


class KeyValue:
    """Keys of two words with random numbers as one JSON object; the number of one key is asked for."""

    def item(self, subject, rng, length, index, blind):
        keys = [f"{one}-{other}" for one in THINGS for other in THINGS]
        rng.shuffle(keys)
        pairs = [f'"{key}": "{rng.randrange(10000, 100000)}"' for key in keys]
        deep, (key, value) = depth(rng, index), pairs[0].replace('"', "").split(": ")

        def context(units):
            rest = pairs[1 : units + 1]
            at = round(deep * len(rest))
            return f"Below is a JSON object.\n\n{{{', '.join([*rest[:at], pairs[0], *rest[at:]])}}}"

        question = Question(
            context,
            f'What is the value of the key "{key}" in the JSON object?',
            f'The value of the key "{key}" is "',
            (Value(value),),
        )
        return ask_after(subject, length, question, blind)
