"""Asks the model in NumPy what folio_eval asks the real one: the same prompts, the same judgement."""

import numpy as np

from folio_eval import measures, together
from folio_eval.asking import Outcome
from folio_eval.cells import FULL
from folio_trials.cache import LAYERS, PAGE, Cache, Text, joined
from folio_trials.trial import Trial

QUESTION = 32  # tokens at most


class Logits:
    """The distributions behind the judged tokens, as a worker reports them."""

    def __init__(self, twin):
        self.head = twin.weights["model.embed_tokens.weight"].T

    def __call__(self, hidden, tokens):
        """The Answer whose places have `hidden`, [places, hidden], and these tokens."""
        logits = (hidden @ self.head).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        top = np.argpartition(-logits, measures.TOP, axis=-1)[:, : measures.TOP]
        chosen = logits[np.arange(len(tokens)), tokens]
        rows = []
        for at, own in enumerate(top):
            rows.append({int(token): float(logits[at, token]) for token in own} | {tokens[at]: float(chosen[at])})
        best = logits.argmax(-1)
        return together.Answer(chosen, best, rows)


class Asked:
    """One prompt, computed once for all trials. `again` are the words that ask for its text once more, if it is wanted."""

    def __init__(self, twin, logits, task, item, again=()):
        self.twin, self.logits, self.task, self.item = twin, logits, task, item
        self.tail = item.forced + item.answer
        text = Text(twin)
        text.feed(item.prompt)
        self.layers, self.last = text.layers, text.hidden[-1:]
        behind = text.copy()
        seen = behind.feed(self.tail[:-1])
        for tokens, later in zip(self.layers, seen):
            tokens.behind, tokens.asking = later, len(item.answer) + QUESTION
        if again:
            second = text.copy().feed((*again, *item.prompt))
            for tokens, repeated in zip(self.layers, second):
                tokens.again = repeated
        self.full = self.judged(np.concatenate([self.last, behind.hidden]))

    def judged(self, hidden):
        start = len(self.item.forced)
        return self.logits(hidden[start:], self.item.answer)

    def outcome(self, setting):
        return self.measured(self.full) if setting.policy == FULL else self.run(setting)[0]

    def run(self, setting):
        """(outcome, the cache as it was when the last token was judged)"""
        trial, cache = Trial(setting.policy, setting), Cache(self.twin, self.layers)
        trial.compact(self.layers, cache)
        hidden, at, page = [self.last], 0, [[] for _ in range(LAYERS)]
        fed = self.tail[:-1]
        while at < len(fed):
            room = PAGE - len(cache.keys[0]) % PAGE
            more, seen = cache.feed(fed[at : at + room])
            hidden.append(more)
            at += room
            for own, tokens in zip(page, seen):
                own.append(tokens)
            if len(cache.keys[0]) % PAGE == 0:
                trial.fill(cache, [whole(own) for own in page])
                page = [[] for _ in range(LAYERS)]
        return self.measured(self.judged(np.concatenate(hidden))), cache

    def measured(self, answer):
        return Outcome(together.measured(self.task, self.item, answer, self.full))


def again_words(subject):
    """The ids that ask for the text once more (KVzip, arXiv 2505.23416)."""
    _, _, after, last = subject.turns
    return subject.more(f"{after}Repeat the previous context exactly.{last}")


def whole(parts):
    """The tokens of a page that filled in several feeds."""
    page = parts[0]
    for more in parts[1:]:
        page = joined(page, more)
    return page
