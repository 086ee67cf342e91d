"""Prompts out of files: LongBench and RULER jsonl, and lm-evaluation-harness's samples."""

import dataclasses
import json
import pathlib
import random

from folio_eval import published
from folio_eval.asking import Outcome, seconds_of
from folio_eval.items import Item

ANSWER_IN_BLIND = "\n\nAnswer this about the text above, in as few words as you can."


@dataclasses.dataclass(frozen=True)
class Written:
    """A prompt that the model answers in words. `item` has the true answer, for its nats."""

    item: Item
    max_tokens: int
    record: dict


def read_jsonl(path):
    lines = pathlib.Path(path).read_text().splitlines()
    records = [json.loads(line) for line in lines if line.strip()]
    if not records:
        raise ValueError("the file is empty")
    return records


def cut_middle(ids, room):
    """The first and last halves of what has room, as LongBench does it."""
    return tuple(ids) if len(ids) <= room else (*ids[: room // 2], *ids[len(ids) - (room - room // 2) :])


def behind(text, answer):
    """The answer as it follows a text: with a space, unless there is one."""
    return answer if text[-1:].isspace() else " " + answer


class FileTask:
    """Records in one shuffled order that every run has; `length` is the most tokens of a prompt."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._records = read_jsonl(path)
        random.Random(self.path.name).shuffle(self._records)
        self.records = len(self._records)
        for record in self._records:
            if missing := [name for name in self.fields if name not in record]:
                raise ValueError(f"a record has no {', '.join(missing)}")

    def record(self, index):
        return self._records[index]

    def wrap(self, subject, text, length, answer, max_tokens, lead="", chat=True, begins=True):
        """One turn of the user's, cut in the middle where it is too long. `begins`: nothing comes before it."""
        before, between = subject.turns[:2] if chat else ("", "")
        edges = subject.ids(before), subject.more(between + lead)
        body = subject.more(text) if before or not begins else subject.ids(text)
        taken = len(edges[0]) + len(edges[1])
        room = min(length, subject.context - max(max_tokens, len(answer))) - taken
        return Item((*edges[0], *cut_middle(body, room), *edges[1]), (), answer, ((0, len(answer)),))

    def score(self, text, record):
        raise NotImplementedError

    def generated(self, asker, written, setting, place, stop=()):
        result = asker.client.generate(
            tokens=written.item.prompt, max_tokens=written.max_tokens, stop=stop, **setting.arguments(place.salt)
        ).result()
        return result.text, result.finished.usage

    def measure(self, asker, item, setting, place, report):
        """The published metric of what the model writes, and nats per token of the (first) true answer."""
        outcome = asker.judged(item.item, setting, place, report)
        text, usage = self.generated(asker, item, setting, place)
        seconds = seconds_of(usage, len(item.item.prompt))
        both = {name: seconds[name] + value for name, value in outcome.seconds.items()}
        return Outcome({"score": self.score(text, item.record), "nll": outcome.measures["nll"]}, both, outcome.kept)


class LongBench(FileTask):
    """One data set of LongBench. Its own prompts are used when dataset2prompt.json lies beside the file."""

    fields = ("input", "context", "answers", "dataset")

    def __init__(self, path):
        super().__init__(path)
        names = {self.dataset(record) for record in self._records}
        if unknown := names - set(published.LONGBENCH):
            raise ValueError(f"no metric for data set {', '.join(sorted(unknown))}")
        prompts = self.path.parent / "dataset2prompt.json"
        self._prompts = json.loads(prompts.read_text()) if prompts.exists() else {}

    @staticmethod
    def dataset(record):
        return record["dataset"].removesuffix("_e")

    def item(self, subject, rng, length, index, blind):
        record = self.record(index)
        _, most, _, plain = published.LONGBENCH[self.dataset(record)]
        between = subject.turns[1] if blind or not plain else ""
        answer = subject.more(behind(between, record["answers"][0]))[:most]
        if blind:
            # The question is decoded after the compaction, so that what is written begins behind it.
            start = subject.ids(subject.turns[0])
            forced = subject.more(f"{ANSWER_IN_BLIND} {record['input']}{between}")
            room = length - len(forced) - len(start)
            context = self.wrap(subject, record["context"], room, answer, most, chat=False, begins=not start).prompt
            item = Item((*start, *context), forced, answer, ((0, len(answer)),))
        else:
            form = self._prompts.get(self.dataset(record), "{context}" + ANSWER_IN_BLIND + " {input}")
            text = form.replace("{context}", record["context"]).replace("{input}", record["input"])
            item = self.wrap(subject, text, length, answer, most, chat=not plain)
        return Written(item, most, record)

    def measure(self, asker, item, setting, place, report):
        if item.item.forced:  # Generate has no forced tokens: nats alone
            outcome = asker.judged(item.item, setting, place, report)
            del outcome.measures["score"], outcome.measures["exact"]
            return outcome
        return super().measure(asker, item, setting, place, report)

    def score(self, text, record):
        return published.longbench(self.dataset(record), text, record["answers"], record.get("all_classes") or ())


class Ruler(FileTask):
    """One task of RULER. Which rule applies follows from the folder's or the file's name: qa needs one answer of many."""

    fields = ("input", "outputs")
    one_form = True
    TOKENS = {"vt": 30, "cwe": 120, "fwe": 50, "qa": 32, "niah": 128}

    def __init__(self, path):
        super().__init__(path)
        words = f"{self.path.parent.name}_{self.path.stem}".lower().split("_")
        self._kind = next((kind for kind in self.TOKENS if kind in words), "niah")

    def item(self, subject, rng, length, index, blind):
        record = self.record(index)
        most = self.TOKENS[self._kind]
        marks = [part.strip() for part in subject.turns if part.strip()]
        templated = any(mark in record["input"] for mark in marks)
        lead = record.get("answer_prefix", "")
        before = (record["input"] if templated else subject.turns[1]) + lead
        answer = subject.more(behind(before, ", ".join(record["outputs"])))[:most]
        item = self.wrap(subject, record["input"], length, answer, most, lead, chat=not templated)
        return Written(item, most, record)

    def score(self, text, record):
        return published.ruler(text, record["outputs"], any_of=self._kind == "qa")


@dataclasses.dataclass(frozen=True)
class Choices:
    """A context with several continuations, one of them right."""

    requests: tuple  # (Item, characters of the continuation)
    gold: int


class LmEval(FileTask):
    """lm-evaluation-harness: its logged samples, or lines of {"context", "choices", "gold"} or {"context", "target"}.

    Multiple choice gives acc (as score) and acc_norm; text gives exact match (as score) and rougeL.
    """

    fields = ()
    one_form = True
    MOST = 256

    def __init__(self, path):
        super().__init__(path)
        for record in self._records:
            self.parse(record)

    @staticmethod
    def parse(record):
        """(context, choices or None, gold index or target text, how to generate)."""
        if "arguments" in record:
            given = record["arguments"]
            pairs = [(one["arg_0"], one["arg_1"]) for one in given.values()] if isinstance(given, dict) else given
            target = record["target"]
            if isinstance(pairs[0][1], str):
                return pairs[0][0], [pair[1] for pair in pairs], int(target), {}
            return pairs[0][0], None, str(target), pairs[0][1]
        if "context" in record and "choices" in record and "gold" in record:
            return record["context"], record["choices"], int(record["gold"]), {}
        if "context" in record and "target" in record:
            return record["context"], None, str(record["target"]), {}
        raise ValueError("a record has neither arguments nor context with choices and gold or with target")

    def item(self, subject, rng, length, index, blind):
        context, choices, gold, how = self.parse(self.record(index))
        if choices is None:
            answer = subject.more(behind(context, gold))
            most = int(how.get("max_gen_toks", self.MOST))
            item = self.wrap(subject, context, length, answer, most, chat=False)
            return Written(item, most, {"target": gold, "until": how.get("until", ["\n\n"])})
        # A space between the two belongs to the continuation, and the two are tokenized as one text.
        spaces = len(context) - len(context.rstrip(" "))
        bare = context[: len(context) - spaces]
        start, requests = len(subject.ids(bare)), []
        for choice in choices:
            ids = subject.ids(bare + " " * spaces + choice)
            answer = tuple(ids[start:])
            room = min(length, subject.context - len(answer))
            requests.append((Item(tuple(ids[:start])[-room:], (), answer, ((0, len(answer)),)), len(choice)))
        return Choices(tuple(requests), gold)

    def measure(self, asker, item, setting, place, report):
        if isinstance(item, Choices):
            return self._choose(asker, item, setting, place)
        outcome = asker.judged(item.item, setting, place, report)
        until = [item.record["until"]] if isinstance(item.record["until"], str) else item.record["until"]
        text, _ = self.generated(asker, item, setting, place, stop=[stop for stop in until if stop])
        target = item.record["target"]
        values = {"score": float(text.strip() == target.strip()), "rougeL": published.rouge_score_l(text, target)}
        return Outcome({**values, "nll": outcome.measures["nll"]}, outcome.seconds, outcome.kept)

    def _choose(self, asker, item, setting, place):
        outcomes = [asker.judged(request, setting, place, False) for request, _ in item.requests]
        sums = [
            -outcome.measures["nll"] * len(request.answer) for outcome, (request, _) in zip(outcomes, item.requests)
        ]
        normed = [value / max(1, characters) for value, (_, characters) in zip(sums, item.requests)]
        seconds = {name: sum(outcome.seconds[name] for outcome in outcomes) for name in outcomes[0].seconds}
        values = {
            "score": float(max(range(len(sums)), key=sums.__getitem__) == item.gold),
            "acc_norm": float(max(range(len(sums)), key=normed.__getitem__) == item.gold),
            "nll": outcomes[item.gold].measures["nll"],
        }
        return Outcome(values, seconds)
