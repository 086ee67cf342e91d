"""What is measured of an answer: right or wrong, nats, and the distance to the full cache's distributions."""

import math

TOP = 20  # the most candidates that a worker reports


def judge(item, logprobs, tops):
    """{"score", "exact", "nll"} of a scored item: the share of its parts whose every token the model itself would have
    chosen, whether all parts are, and nats per judged token. A part with a name gives "score.NAME" and "nll.NAME" too."""
    start = len(item.forced)
    right, nats, tokens = [], [], []
    for begin, end in item.parts:
        places = range(start + begin, start + end)
        right.append(all(tops[at][0].token == item.answer[at - start] for at in places))
        nats.append(-sum(logprobs[at] for at in places))
        tokens.append(end - begin)
    values = {"score": sum(right) / len(right), "exact": float(all(right)), "nll": sum(nats) / sum(tokens)}
    for at, name in enumerate(item.names):
        values |= {part_of("score", name): float(right[at]), part_of("nll", name): nats[at] / tokens[at]}
    return values


def part_of(measure, name):
    """The name of a measure of one part of the answers."""
    return f"{measure}.{name}"


def split(measure):
    """(measure, name of the part or "") of the name of a measure."""
    kind, _, name = measure.partition(".")
    return kind, name


def known(top, token, logprob):
    """{token: log-probability} of what is known at a place: the likeliest ones and the one that was fed."""
    return {**{candidate.token: candidate.logprob for candidate in top}, token: logprob}


def divergence(reference, other):
    """KL(reference || other) in nats, of two `known`s of one place.

    Both are coarsened to the tokens that both know and one bin for all the rest, so that this is a lower bound
    of the true divergence (merging outcomes never makes it larger).
    """
    shared = reference.keys() & other.keys()
    total = sum(math.exp(reference[token]) * (reference[token] - other[token]) for token in shared)
    rests = [max(1e-9, 1 - sum(math.exp(side[token]) for token in shared)) for side in (reference, other)]
    return max(0.0, total + rests[0] * math.log(rests[0] / rests[1]))


def mean_divergence(reference, other):
    """Over the places of two lists of `known`s."""
    return sum(divergence(*pair) for pair in zip(reference, other, strict=True)) / len(reference)
