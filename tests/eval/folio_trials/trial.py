"""One way to choose: which scores, for which part of the budget, decided by each layer or by all together.

    difference~                      the tokens with the highest scores; ~N means each with N neighbours on either side
                                     (~ is ~2), ^N takes the highest of N neighbours, =N the mean of each chunk of N
    window:0.5|difference~           half of the budget by attention from the prompt's end, and the rest; there may be more parts
    leverage&mutual*2                the sum of two z-scores
    difference~8@20-25               layers 20 to 24 judge, where all layers decide together
    difference~8@alike               layers count the more, the more alike they judge neighbours (`likeness`)
    difference~8%mass                stretches of the prompt are cut and paid by attention instead of by length (`by_mass`)
    difference~8%fair                pages of the prompt and of the answer count by how they stand among their own (`Standings`)
"""

import copy
import re

import numpy as np

from folio_trials.arrays import chunked, pooled, smooth, z_scores
from folio_trials.cache import LAYERS, PAGE
from folio_trials.query_scores import Window
from folio_trials.scorer import Resident
from folio_trials.scorers import SCORERS


class TrialError(Exception):
    """A name that means no trial."""


TERM = re.compile(r"([a-z_]+)((?:~\d*|\^\d+|=\d+)*)(?:\*([\d.]+))?")


class Term:
    def __init__(self, text):
        found = TERM.fullmatch(text)
        if found is None or found[1] not in SCORERS:
            raise TrialError(f"no score {text!r}; there are {', '.join(SCORERS)}")
        self.name, self.weight = found[1], float(found[3] or 1)
        self.shapes = re.findall(r"[~^=]\d*", found[2])

    def shaped(self, row):
        for shape in self.shapes:
            if shape[0] == "~":
                row = smooth(row, int(shape[1:] or 2))
            elif shape[0] == "^":
                row = pooled(row, int(shape[1:]))
            else:
                row = chunked(row, int(shape[1:]))
        return row


class Scores:
    """A sum of terms for one layer of one sequence."""

    def __init__(self, text):
        self.terms = [Term(part) for part in text.split("&")]
        self.scorers = [SCORERS[term.name]() for term in self.terms]
        self.scales = []

    def prompt(self, tokens):
        """(what the compaction ranks by, what decode remembers), each one number per token."""
        raw = [said(tokens, term.name, scorer) for term, scorer in zip(self.terms, self.scorers)]
        rows = [term.shaped(row) for term, row in zip(self.terms, raw)]
        if len(rows) == 1:
            return rows[0].astype(np.float32), raw[0].astype(np.float32)
        self.scales = [(row.mean(), row.std() + 1e-9) for row in rows]
        return self.summed(rows), self.summed(raw)

    def page(self, tokens):
        rows = [scorer.page(tokens) for scorer in self.scorers]
        return rows[0].astype(np.float32) if len(rows) == 1 else self.summed(rows)

    def again(self, tokens, resident):
        # A score that changes afterwards stands alone.
        return self.scorers[0].again(tokens, resident) if len(self.scorers) == 1 else resident.numbers

    def summed(self, rows):
        sums = (term.weight * (row - mean) / width for term, row, (mean, width) in zip(self.terms, rows, self.scales))
        return sum(sums).astype(np.float32)


def said(tokens, name, scorer):
    """scorer.prompt(tokens), computed once for all trials."""
    if name not in tokens.memo:
        tokens.memo[name] = scorer.prompt(tokens), copy.deepcopy(scorer.__dict__)
    row, state = tokens.memo[name]
    scorer.__dict__.update(copy.deepcopy(state))
    return row


def equal(rows):
    return np.ones(LAYERS)


def band(begin, end):
    at = np.arange(LAYERS)
    return lambda rows: np.where((begin <= at) & (at < end), 1.0, 0.0)


LIKE, POWER = 8, 4


def likeness(rows):
    """How much of the variance of a layer's scores a mean over neighbours leaves, to a power. A fact is longer than a token,
    so a layer that tells facts judges neighbours alike; a layer whose scores jump from token to token tells words."""
    smoothed = [smooth(row, LIKE) for row in rows]
    return np.array([(s[PAGE:-PAGE].var() / (row[PAGE:-PAGE].var() + 1e-20)) ** POWER for s, row in zip(smoothed, rows)])


def judges(text):
    if text in ("", "alike"):
        return likeness if text else equal
    ends = re.fullmatch(r"(\d+)-(\d+)", text)
    if ends is None or not int(ends[1]) < int(ends[2]) <= LAYERS:
        raise TrialError(f"no layers {text!r}; say alike, or from and to, such as 20-25 of {LAYERS}")
    return band(int(ends[1]), int(ends[2]))


class Standings:
    """How a layer's pages stand among all pages of their own kind so far: those of the prompt, and those of the answer."""

    def __init__(self):
        self.prompt, self.answer = None, []

    def standing(self, numbers, of_prompt):
        """z-scores of page numbers, of which the last is new."""
        if self.prompt is None:
            self.prompt = numbers[of_prompt]
        self.answer.append(numbers[-1])
        out = np.empty_like(numbers)
        for kind, known in ((of_prompt, self.prompt), (~of_prompt, np.array(self.answer))):
            out[kind] = (numbers[kind] - known.mean()) / (known.std() + 1e-9)
        return out


class Trial:
    def __init__(self, name, setting):
        name, *manners = name.split("%")
        if unknown := set(manners) - {"mass", "fair"}:
            raise TrialError(f"no manner {min(unknown)!r}; there are mass and fair")
        self.masses = [Window() for _ in range(LAYERS)] if "mass" in manners else None
        self.standings = [Standings() for _ in range(LAYERS)] if "fair" in manners else None
        name, _, who = name.partition("@")
        self.weigh, self.weights = judges(who), np.ones(LAYERS)
        *first, rest = name.split("|")
        self.rest = [Scores(rest) for _ in range(LAYERS)]
        self.first = []
        for part in first:
            scores, _, share = part.partition(":")
            self.first.append(([Scores(scores) for _ in range(LAYERS)], float(share or 0)))
        self.budget, self.shared = setting.budget, setting.layers == "shared"
        self.segments, self.prompt_share = setting.segments or 1, setting.prompt_share or 0
        self.prompt = 0

    def compact(self, layers, cache):
        """Scores the prompt, and keeps `budget` of its tokens if it has more."""
        self.prompt = len(layers[0].k)
        merits = []
        for layer, tokens in enumerate(layers):
            merit, cache.scores[layer] = self.rest[layer].prompt(tokens)
            merits.append(merit)
        self.weights = self.weigh(cache.scores)
        self.weights = self.weights / self.weights.sum()
        if self.prompt <= self.budget:
            return
        merits = self.agreed(merits)
        firsts = []
        for part, share in self.first:
            rows = [scores.prompt(tokens)[0] for scores, tokens in zip(part, layers)]
            firsts.append((self.agreed(rows), share))
        unprotected = self.budget - 2 * PAGE
        for layer in range(LAYERS):
            merit = merits[layer].copy()
            # The queries' own tokens stay, as in the policy.
            merit[:PAGE] = merit[-PAGE:] = np.inf
            for rows, share in firsts:
                free = np.flatnonzero(np.isfinite(merit))
                order = free[np.argsort(-rows[layer][free], kind="stable")]
                merit[order[: int(share * unprotected)]] = np.inf
            cache.keep(layer, chosen(merit, self.budget, self.stretches(layers[layer], layer)))

    def stretches(self, tokens, layer):
        """[(end, its part of the quotas)] of the prompt."""
        if self.masses:
            return by_mass(self.masses[layer].mass(tokens).mean((0, 1)))
        count, length = self.segments, len(tokens.k)
        return [(length * (at + 1) // count, 1 / count) for at in range(count)] if count > 1 else []

    def agreed(self, rows):
        """[LAYERS] of numbers to rank by, which are the same for all layers if these decide together."""
        if not self.shared:
            return rows
        mean = sum(weight * z_of_middle(row) for weight, row in zip(self.weights, rows)).astype(np.float32)
        return [mean] * LAYERS

    def fill(self, cache, seen):
        """A page has filled: scores its tokens, and drops a page while there are more than the budget."""
        for layer, tokens in enumerate(seen):
            cache.scores[layer][-len(tokens.k) :] = self.rest[layer].page(tokens)
            resident = Resident(cache.keys[layer], cache.positions[layer], cache.scores[layer])
            cache.scores[layer] = self.rest[layer].again(tokens, resident)
        pages = [cache.scores[layer].reshape(-1, PAGE).mean(-1) for layer in range(LAYERS)]
        if self.standings:
            of_prompt = [positions.reshape(-1, PAGE)[:, 0] < self.prompt for positions in cache.positions]
            pages = [one.standing(*both) for one, both in zip(self.standings, zip(pages, of_prompt))]
        if len(cache.keys[0]) <= self.budget:
            return
        ranking = self.agreed_pages(pages)
        for layer in range(LAYERS):
            numbers = ranking[layer].copy()
            numbers[0] = numbers[-1] = np.inf
            starts = cache.positions[layer].reshape(-1, PAGE)[:, 0]
            self.hold(numbers, starts, cache.length)
            # The older of equals goes.
            cache.drop(layer, int(np.argmin(numbers)))

    def agreed_pages(self, pages):
        if not self.shared:
            return pages
        mean = sum(weight * z_scores(np.clip(row, -1e30, 1e30)[1:-1]) for weight, row in zip(self.weights, pages))
        return [np.concatenate([[0], mean, [0]])] * LAYERS

    def hold(self, numbers, starts, length):
        """Pages that the prompt's share or their stretch's quota keeps."""
        held = np.zeros(len(numbers), bool)
        of_prompt = starts < self.prompt
        if self.prompt_share and of_prompt.sum() * PAGE <= self.prompt_share * self.budget:
            held |= of_prompt
        if self.segments > 1:
            stretch = starts * self.segments // length
            free = np.isfinite(numbers) & ~held
            quota = (free.sum() - 1) * 3 // 4 // self.segments
            for own in range(self.segments):
                inside = free & (stretch == own)
                if 0 < inside.sum() <= quota:
                    held |= inside
        if (np.isfinite(numbers) & ~held).any():
            numbers[held] = np.inf


def z_of_middle(row):
    """z-scores by the tokens that may go; the sinks' numbers are extreme. Infinities stay."""
    middle = row[PAGE:-PAGE]
    middle = middle[np.isfinite(middle)]
    return ((row - middle.mean()) / (middle.std() + 1e-9)).astype(np.float32)


def by_mass(mass, part=0.02, least=32, most=1024):
    """Stretches as in Adaptive Mass Segment (arXiv 2605.23200): each has that part of the attention of the last queries, or is
    as long as one may be. Half of the quotas go by attention, and half by length, as no query may have looked at a fact yet."""
    mass = mass / mass.sum()
    stretches, begin, own = [], 0, 0.0
    for at, more in enumerate(mass, 1):
        own += more
        if at == len(mass) or (at - begin >= least and (own >= part or at - begin >= most)):
            stretches.append((at, (own + (at - begin) / len(mass)) / 2))
            begin, own = at, 0.0
    return stretches


def chosen(merit, budget, stretches):
    """The `budget` slots with the highest numbers, ascending, after three quarters were dealt out to the stretches."""
    merit = merit.copy()
    free = budget - int(np.isposinf(merit).sum())
    if free > 0:
        for begin, (end, part) in zip([0, *(end for end, _ in stretches)], stretches):
            own = begin + np.flatnonzero(np.isfinite(merit[begin:end]))
            quota = int(free * 3 / 4 * part)
            merit[own[np.argsort(-merit[own], kind="stable")[:quota]]] = np.inf
    return np.sort(np.argsort(-merit, kind="stable")[:budget])
