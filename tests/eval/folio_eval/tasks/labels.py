"""Few-shot classification: examples with labels that mean nothing, and a sentence without a label."""

import itertools

from folio_eval import prose
from folio_eval.items import Value, continue_text

LABELS = ("alpha", "beta", "gamma", "delta", "kappa", "sigma", "theta", "omega")
CLASSES = 5
PATTERNS = 3  # sentences of each class, which come again with other words in their slots
END = 24  # characters of a sentence behind its last slot


def _example(sentence, label):
    return f"Text: {sentence}\nLabel: {label}\n\n"


def _patterns():
    """{theme: its patterns whose last words are in every sentence}."""
    return {
        theme: [pattern for pattern in patterns if len(pattern) - pattern.rindex("}") > END]
        for theme, patterns in prose.patterns().items()
    }


class FewShot:
    """A class is a theme of the prose, and its label a Greek letter that is drawn for each prompt and means nothing.

    The sentence that is asked for has a pattern that the examples have too, with other people, places and numbers. The
    model continues the list itself, without a chat around it.
    """

    def item(self, subject, rng, length, index, blind):
        patterns = _patterns()
        themes, labels = rng.sample(sorted(patterns), CLASSES), rng.sample(LABELS, CLASSES)
        known = [
            (pattern, label) for theme, label in zip(themes, labels) for pattern in rng.sample(patterns[theme], PATTERNS)
        ]
        pattern, label = rng.choice(known)
        asked = prose.filled(rng, pattern)
        shown, examples = self._examples(type(rng)(rng.random()), known), []

        def context(units):
            examples.extend(itertools.islice(shown, max(0, units - len(examples))))
            return f"Each text has a label.\n\n{''.join(examples[:units])}"

        return continue_text(subject, length, context, f"Text: {asked}\nLabel:", (Value(f" {label}"),), blind)

    @staticmethod
    def _examples(rng, known):
        """Yields examples forever. A pass over the patterns has each of them once."""
        while True:
            for pattern, label in rng.sample(known, len(known)):
                yield _example(prose.filled(rng, pattern), label)
