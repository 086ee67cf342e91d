"""Writes the mean direction of the model's keys in some text, which the score `usual` compares with.

    python -m folio_trials.usual --text speeches --out usual.npy        then FOLIO_USUAL=usual.npy python -m folio_trials ...

The text is a stretch of one of folio_eval's long texts, or tokens that are drawn at random."""

import argparse
import os

import numpy as np

from folio_eval import texts
from folio_eval.node import Node
from folio_eval.subject import Subject
from folio_trials.cache import PAGE, Text, Twin, unit

TOKENS = 1024
STRETCH = slice(200_000, 206_000)  # characters, of which the first TOKENS tokens count
RANDOM = "random"


def ids_of(text, model):
    if text == RANDOM:
        return tuple(map(int, np.random.default_rng(5).integers(20, 49_000, TOKENS)))
    with Node(model) as node:
        return Subject(node.client).ids(texts.read(text)[STRETCH])[:TOKENS]


def main():
    options = argparse.ArgumentParser(prog="folio_trials.usual", description=__doc__.splitlines()[0])
    options.add_argument("--text", choices=("novel", "speeches", RANDOM), required=True)
    options.add_argument("--model", default=os.environ.get("FOLIO_MODEL"))
    options.add_argument("--out", required=True)
    options = options.parse_args()
    text = Text(Twin(options.model))
    text.feed(ids_of(options.text, options.model))
    np.save(options.out, np.array([unit(tokens.unrotated)[PAGE:].sum(0) for tokens in text.layers], np.float32))


if __name__ == "__main__":
    main()
