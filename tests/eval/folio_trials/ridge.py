"""Fits the weights of the `ridge` score: KVzap's linear form (arXiv 2601.07891), from a layer's input to a number for each KV head.

    python -m folio_trials.ridge --prompts 24 --out ridge.npy        then FOLIO_RIDGE=ridge.npy python -m folio_trials ...

The target is that of KVzip: the most attention that a token gets while its text is read a second time, times the length of its
value, as a logarithm. The texts are prose of seeds from 1,000 on, which no task of the evaluation asks."""

import argparse
import os

import numpy as np

from folio_eval.asking import Place
from folio_eval.node import Node
from folio_eval.runner import Questions
from folio_eval.subject import Subject
from folio_trials.asking import again_words
from folio_trials.cache import LAYERS, Text, Twin
from folio_trials.query_scores import repeated, ridge_features

SEED = 1000
PENALTY = 1e-3  # of the mean square of the features
LEAST = 1e-8  # attention


def target(tokens):
    """[tokens, KV_HEADS]"""
    return np.log(repeated(tokens) * np.linalg.norm(tokens.v, axis=-1) + LEAST)


def read_twice(twin, prompt, again):
    """The layers' tokens of a prompt, with those of its second reading."""
    text = Text(twin)
    text.feed(prompt)
    for tokens, second in zip(text.layers, text.copy().feed((*again, *prompt))):
        tokens.again = second
    return text.layers


class Fit:
    """Sums for the regression of one layer."""

    products, targets, squares, sums, count = 0, 0, 0, 0, 0

    def add(self, x, y):
        self.products, self.targets = self.products + x.T @ x, self.targets + x.T @ y
        self.squares, self.sums, self.count = self.squares + (y * y).sum(), self.sums + y.sum(0), self.count + len(y)

    def weights(self):
        penalty = PENALTY * np.trace(self.products) / len(self.products)
        return np.linalg.solve(self.products + penalty * np.eye(len(self.products)), self.targets)

    def explained(self, weights):
        """The share of the targets' variance, on what was fitted."""
        left = self.squares - 2 * (weights * self.targets).sum() + (weights * (self.products @ weights)).sum()
        return 1 - left / (self.squares - (self.sums**2).sum() / self.count)


def main():
    options = argparse.ArgumentParser(prog="folio_trials.ridge", description=__doc__.splitlines()[0])
    options.add_argument("--prompts", type=int, default=24)
    options.add_argument("--length", type=int, default=1024, help="tokens of each text")
    options.add_argument("--model", default=os.environ.get("FOLIO_MODEL"))
    options.add_argument("--out", required=True)
    options = options.parse_args()
    with Node(options.model) as node:
        subject = Subject(node.client)
        questions, again = Questions(subject), again_words(subject)
        prompts = [questions(Place("perplexity", options.length, SEED, at)).prompt for at in range(options.prompts)]
    twin, fits = Twin(options.model), [Fit() for _ in range(LAYERS)]
    for at, prompt in enumerate(prompts, 1):
        for fit, tokens in zip(fits, read_twice(twin, prompt, again)):
            fit.add(ridge_features(tokens).astype(np.float64), target(tokens))
        print(f"[ridge] {at} of {len(prompts)} texts", flush=True)
    weights = [fit.weights() for fit in fits]
    explained = [fit.explained(own) for fit, own in zip(fits, weights)]
    print(f"[ridge] explains {min(explained):.2f} to {max(explained):.2f} of the variance in a layer, {np.mean(explained):.2f} on average")
    np.save(options.out, np.array(weights, np.float32))


if __name__ == "__main__":
    main()
