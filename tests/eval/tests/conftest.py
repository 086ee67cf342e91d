"""The package and the SDK on the path; a model that answers without a server."""

import functools
import itertools
import os
import pathlib
import re
import sys
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


class Words:
    """Tokenizes by words, lines ends and digits; a chat has marks around each turn."""

    def __init__(self):
        self._ids = {}

    def ids(self, text):
        pieces = re.findall(r"<\w+>|\d| ?[^\W\d]+| {4}|\s|[^\w\s]", text)
        assert "".join(pieces).replace("_", "") == text.replace("_", ""), "every character belongs to a piece"
        return tuple(self._ids.setdefault(piece, len(self._ids)) for piece in pieces)

    def text(self, ids):
        back = {number: piece for piece, number in self._ids.items()}
        return "".join(back[one] for one in ids)


class FakeClient:
    """What Subject and tasks ask of a folio.Client."""

    def __init__(self, context=8192, layers=2, begins_with=""):
        self.words = Words()
        self._begins_with = begins_with
        layout = types.SimpleNamespace(num_layers=layers, page_tokens=16)
        self._model = types.SimpleNamespace(context_length=context, layout=layout, chat_template=True)

    def model(self):
        return self._model

    def tokenize(self, text=None, chat=None):
        if chat is not None:
            text = "".join(f"<{role}>{words}<end>" for role, words in chat) + "<assistant>"
        return types.SimpleNamespace(ids=self.words.ids(self._begins_with + text), text=text)


@functools.cache
def made_up_text():
    """Prose in which names come, thrice each and far from one another, as a text of texts.sh has them."""
    from folio_eval import prose

    sentences, names = prose.sentences(0), ("Abelwick", "Dorrigan", "Hollister", "Quillfeather", "Tamberline")
    parts = []
    for name in names * 3:
        for _ in range(3):
            parts += [f"At last came {name} with a lamp. ", *itertools.islice(sentences, 8)]
        parts += itertools.islice(sentences, 100)
    return "".join(parts)


@pytest.fixture(autouse=True)
def no_download(monkeypatch):
    """No test fetches a text, except one that asks for it."""
    from folio_eval import texts
    from folio_eval.tasks import find

    find.cache_clear()
    monkeypatch.setattr(texts, "read", lambda name: made_up_text())
    yield
    find.cache_clear()


@pytest.fixture
def client():
    return FakeClient()


@pytest.fixture
def subject(client):
    from folio_eval.subject import Subject

    return Subject(client)


@pytest.fixture
def model():
    path = os.environ.get("FOLIO_MODEL")
    if not path:
        pytest.skip("FOLIO_MODEL is not set: NOTHING WAS EVALUATED")
    return path
