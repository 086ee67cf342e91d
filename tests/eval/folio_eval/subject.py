"""The model under evaluation: its tokenizer and chat template, through a client."""

import functools
import threading

MARKS = ("FOLIO-ONE", "FOLIO-TWO", "FOLIO-THREE")


class Subject:
    """Thread-safe, as the client is."""

    def __init__(self, client):
        self.client = client
        self.model = client.model()
        self.context = self.model.context_length
        self.page_tokens = self.model.layout.page_tokens
        self._lock = threading.Lock()

    def ids(self, text):
        """Token ids of a text that begins a sequence; special tokens written in the text are recognised."""
        return self.client.tokenize(text).ids if text else ()

    def more(self, text):
        """Token ids of a text that follows other tokens, without the token that some models begin with."""
        return self.ids(text)[len(self.first) :]

    @functools.cached_property
    def first(self):
        """The tokens that a sequence begins with, whatever its text is. Many models have none."""
        one, other = self.ids("x"), self.ids("y")
        return one[: next(at for at in range(len(one)) if one[at] != other[at])]

    @functools.cached_property
    def _rendered(self):
        roles = ("user", "assistant", "user")
        with self._lock:
            text = self.client.tokenize(chat=list(zip(roles, MARKS))).text
        parts = []
        for mark in MARKS:
            part, found, text = text.partition(mark)
            if not found:
                raise ValueError(f"the model's chat template drops or changes {mark!r}")
            parts.append(part)
        return (*parts, text)

    @property
    def turns(self):
        """The template's text (before the user's words, between these and the answer, between the answer and the
        user's next words, between these and the next answer)."""
        return self._rendered if self.model.chat_template else ("", "\n", "\n", "\n")

    def fit(self, length, text, follows=False):
        """The ids of `text(units)`, which `follows` others or begins a sequence, for the most units that need no more
        than `length` tokens.

        `text` must grow with its argument. ValueError when not even 0 units fit.
        """
        ids_of = self.more if follows else self.ids
        ids = ids_of(text(0))
        if len(ids) > length:
            raise ValueError(f"needs {len(ids)} tokens before there is any filler, {length} allowed")
        low, best, high, guess = 0, ids, None, max(1, (length - len(ids)) // 24)
        while high is None or high - low > 1:
            ids = ids_of(text(guess))
            if len(ids) <= length:
                low, best = guess, ids
            else:
                high = guess
            step = (length - len(ids)) * guess // max(1, len(ids))  # as if all units were of one size
            guess = max(low + 1, guess + step, low + 1)
            if high is not None:
                guess = min(guess, high - 1)
        return best
