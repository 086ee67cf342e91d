"""Facts told at several places of a conversation and asked for at its end: each is a part of the answer with a name."""

from folio_eval.items import Question, Value, ask_after, fitted
from folio_eval.tasks.needles import THINGS, Filler, hidden, mix
from folio_eval.tasks.streams import DECODED, writing_on

FACT = "The special magic number for {} is"
TURNS = 6
REPLY = 0.4  # of a turn's prose, the share that the assistant says


def draw(rng, count):
    """[(key, number)] of different keys and numbers."""
    return list(zip(rng.sample(THINGS, count), map(str, rng.sample(range(10000, 100000), count))))


def recalled(facts, names):
    """(lead, answer) of an answer that gives all numbers, each behind its own key. `names` are those of its parts."""
    answer = []
    for (key, number), name in zip(facts, names):
        answer += [f". {FACT.format(key)}" if answer else "", Value(f" {number}", name)]
    return FACT.format(facts[0][0]), tuple(answer)


def listing(facts):
    """The keys as a question names them."""
    *most, last = (key for key, _ in facts)
    return f"What are the special magic numbers for {', '.join(most)} and {last}?"


def joined(turns, words):
    """A conversation from the words of user and assistant, the user's first, and Subject.turns."""
    _, between, after, last = turns
    text = words[0]
    for at, said in enumerate(words[1:]):
        text += (after if at % 2 else last if at else between) + said
    return text


class ThreeFacts:
    """A number in the prompt, one early and one late among 1,000 decoded tokens of prose. All are asked for at the end.

    Memory that a policy gives to the answer is taken from the prompt, and the three parts show that exchange. The order
    of the questions is drawn, so that no part has the easier place.
    """

    one_form = True
    PARTS = ("prompt", "early", "late")
    PLACES = (0.1, 0.8)  # of the decoded tokens

    def item(self, subject, rng, length, index, blind):
        _, _, after, last = subject.turns
        facts = draw(rng, len(self.PARTS))
        deep, shift = rng.random(), rng.random() / 20
        order = rng.sample(range(len(facts)), len(facts))
        lead, answer = recalled([facts[at] for at in order], [self.PARTS[at] for at in order])
        notes, prose = Filler("prose", rng.random()), Filler("prose", rng.random())
        told = [(place + shift, hidden(*fact)) for place, fact in zip(self.PLACES, facts[1:])]
        decoded = subject.fit(DECODED, lambda units: mix(prose(units), told), follows=True)
        forced = (*decoded, *subject.more(f"{after}{listing([facts[at] for at in order])}{last}{lead}"))

        def text(units):
            return writing_on(subject.turns, mix(notes(units), [(deep, hidden(*facts[0]))]))

        return fitted(subject, length, text, forced, answer)


class Dialogue:
    """A conversation of six turns. In each the user tells a number amid prose, and the assistant answers with prose.

    The numbers of all turns are asked for at the end. With `decoded`, the prompt has the user's first words alone, and
    the rest of the conversation is decoded.
    """

    def __init__(self, decoded=False):
        self.decoded = self.one_form = decoded

    def item(self, subject, rng, length, index, blind):
        facts = draw(rng, TURNS)
        depths = [rng.random() for _ in facts]
        prose = [Filler("prose", rng.random()) for _ in range(2 * TURNS)]
        order = rng.sample(range(TURNS), TURNS)
        asked = [facts[at] for at in order]
        lead, answer = recalled(asked, [f"turn_{at + 1}" for at in order])

        def told(turn, units):
            return mix(prose[2 * turn](units), [(depths[turn], hidden(*facts[turn]))])

        def words(units, first=0):
            """The words of the turns from number `first`, with that many units of prose over all of them."""
            said = []
            for turn in range(first, TURNS):
                share = (units + turn) // (TURNS - first)
                reply = round(share * REPLY)
                said += [told(turn, share - reply), "".join(prose[2 * turn + 1](reply)).strip() or "I see."]
            return said

        if self.decoded:
            return self._decoded(subject, length, told, words, (listing(asked), lead, answer))
        question = Question(
            lambda units: joined(subject.turns, words(units)), listing(asked), lead, answer, gap=subject.turns[2]
        )
        return ask_after(subject, length, question, blind)

    @staticmethod
    def _decoded(subject, length, told, words, question):
        before, between, after, last = subject.turns
        asked, lead, answer = question
        decoded = subject.fit(
            DECODED,
            lambda units: joined(subject.turns, ["", "I see.", *words(units, 1)]).removeprefix(between),
            follows=True,
        )
        forced = (*decoded, *subject.more(f"{after}{asked}{last}{lead}"))
        return fitted(subject, length, lambda units: f"{before}{told(0, units)}{between}", forced, answer)
