"""One prompt of a task, and how a question about a context becomes one."""

import dataclasses


LAST = 4  # tokens of a prompt that `held_back` decodes


@dataclasses.dataclass(frozen=True)
class Item:
    """What is prefilled, what is then decoded unjudged, and the answer, as token ids."""

    prompt: tuple[int, ...]
    forced: tuple[int, ...]
    answer: tuple[int, ...]
    parts: tuple[tuple[int, int], ...]  # spans of the answer that are judged, each right or wrong as a whole
    names: tuple[str, ...] = ()  # of the parts, where each is also reported by itself


@dataclasses.dataclass(frozen=True)
class Value:
    """A judged piece of an answer; a plain string between values is not judged. One with a name is also reported alone."""

    text: str
    name: str = ""


@dataclasses.dataclass(frozen=True)
class Question:
    """`context(units)` is the text with that much filler; `lead` begins the model's answer."""

    context: object  # int -> str
    question: str
    lead: str
    answer: tuple  # of str and Value
    gap: str = "\n\n"  # between the text and the question


def held_back(item):
    """The item with the last tokens of its prompt decoded after the compaction.

    A prompt gives the first token of its answer before anything is forgotten. So an answer of one token would say nothing
    about a policy, and one of two tokens little.
    """
    return dataclasses.replace(item, prompt=item.prompt[:-LAST], forced=(*item.prompt[-LAST:], *item.forced))


def spell(subject, answer):
    """(ids, parts) of an answer: pieces are tokenized one by one, so that parts end between tokens."""
    ids, parts = [], []
    for piece in answer:
        judged = isinstance(piece, Value)
        more = subject.more(piece.text if judged else piece)
        if judged:
            parts.append((len(ids), len(ids) + len(more)))
        ids.extend(more)
    return tuple(ids), tuple(parts)


def fitted(subject, length, text, forced, answer):
    """The item whose prompt is `text(units)`, of `length` tokens or a little less, with as much filler as fits. `forced`
    are the tokens behind it, and `answer` the strings and values behind those."""
    ids, parts = spell(subject, answer)
    prompt = subject.fit(min(length, subject.context - len(forced) - len(ids)), text)
    # Either all values have a name or none has.
    names = tuple(piece.name for piece in answer if isinstance(piece, Value) and piece.name)
    return Item(tuple(prompt), tuple(forced), ids, parts, names)


def ask_after(subject, length, question, blind):
    """The question at the end of a prompt of `length` tokens or a little less; `blind`: the prompt is the context
    alone, and the question is decoded, after the cache was compacted."""
    before, between = subject.turns[:2]
    tail = f"{question.gap}{question.question}{between}{question.lead}"
    return _continued(subject, length, lambda units: before + question.context(units), tail, question.answer, blind)


def continue_text(subject, length, context, tail, answer, blind):
    """A text of `length` tokens or a little less that the model continues, with an answer of a token or a few.

    `context(units)` is the text with that much filler, and `tail` its end, which is decoded if `blind`.
    """
    item = _continued(subject, length, context, tail, answer, blind)
    return item if blind else held_back(item)


def _continued(subject, length, context, tail, answer, blind):
    forced = subject.more(tail) if blind else ()
    return fitted(subject, length, lambda units: context(units) + ("" if blind else tail), forced, answer)
