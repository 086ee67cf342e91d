"""LongBench, RULER and lm-evaluation-harness files: read, asked and scored as they define it."""

import json
import random
import types

import pytest
from folio_eval.asking import Asker, Place
from folio_eval.cells import Setting
from folio_eval.tasks import TaskError, find

PLACE = Place("file", 256, 0, 0)


class Model:
    """Writes `text`, and finds a continuation the likelier the shorter it is: -1 nat per token."""

    def __init__(self, client, text):
        self.model, self.tokenize, self.words = client.model, client.tokenize, client.words
        self.text, self.calls = text, []
        self._usage = types.SimpleNamespace(queue_seconds=0, prefill_seconds=0, decode_seconds=0, generated_tokens=1)

    def generate(self, **call):
        self.calls.append(call)
        finished = types.SimpleNamespace(usage=self._usage)
        return types.SimpleNamespace(result=lambda: types.SimpleNamespace(text=self.text, finished=finished))

    def score(self, continuation_tokens, **call):
        self.calls.append(call)
        tops = [(types.SimpleNamespace(token=token),) for token in continuation_tokens]
        logprobs = [-1.0] * len(continuation_tokens)
        return types.SimpleNamespace(logprobs=logprobs, top=tops, usage=self._usage, evictions=())


def write(tmp_path, records, name="hotpotqa.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return str(path)


def ask(subject, client, name, text, length=256, index=0):
    task, blind = find(name)
    item = task.item(subject, random.Random(0), length, index, blind)
    model = Model(client, text)
    subject.client = model
    outcome = task.measure(Asker(subject), item, Setting("paged_eviction", 64), PLACE, False)
    return outcome.measures, model.calls, item


QA = {
    "input": "Who wrote it?", "context": "Anna wrote it. " * 200, "answers": ["Anna", "Anna K."], "dataset": "hotpotqa_e",
    "all_classes": None, "length": 3, "language": "en", "_id": "1",
}  # fmt: skip


def test_longbench(tmp_path, subject, client):
    measures, calls, item = ask(subject, client, "longbench:" + write(tmp_path, [QA]), "Anna")
    assert measures == {"score": 1.0, "nll": 1.0}
    assert calls[1]["max_tokens"] == 32 and calls[1]["tokens"] == item.item.prompt
    assert len(item.item.prompt) == 256, "cut to the length"
    text = client.words.text(item.item.prompt)
    assert text.startswith("<user>Anna wrote it.") and text.endswith("Who wrote it?<end><assistant>")


def test_longbench_with_its_own_prompts(tmp_path, subject, client):
    (tmp_path / "dataset2prompt.json").write_text(json.dumps({"hotpotqa": "Q: {input} IN {context}"}))
    _, _, item = ask(subject, client, "longbench:" + write(tmp_path, [QA]), "Anna")
    assert client.words.text(item.item.prompt).startswith("<user>Q: Who wrote it? IN Anna")


def test_longbench_asked_after_compaction(tmp_path, subject, client):
    measures, calls, item = ask(subject, client, f"longbench:{write(tmp_path, [QA])}:blind", "")
    assert measures == {"nll": 1.0} and len(calls) == 1, "Generate cannot be given decoded tokens"
    assert "Who" not in client.words.text(item.item.prompt) and "Who wrote it?" in client.words.text(item.item.forced)
    assert len(item.item.prompt) + len(item.item.forced) <= 256


def test_ruler(tmp_path, subject, client):
    record = {"index": 0, "input": "Numbers: 12 34", "outputs": ["12", "34"], "length": 9, "answer_prefix": " They are"}
    (tmp_path / "niah_multivalue").mkdir()
    name = "ruler:" + write(tmp_path / "niah_multivalue", [record], "validation.jsonl")
    measures, calls, item = ask(subject, client, name, " 34, I think.")
    assert measures["score"] == 0.5 and calls[1]["max_tokens"] == 128
    assert client.words.text(item.item.prompt) == "<user>Numbers: 12 34<end><assistant> They are"
    record["input"] = "<user>Numbers: 12 34<end><assistant>"
    _, _, item = ask(subject, client, "ruler:" + write(tmp_path, [record], "qa_1.jsonl"), "12")
    assert client.words.text(item.item.prompt) == record["input"] + " They are", "templated by RULER itself"
    assert ask(subject, client, "ruler:" + write(tmp_path, [record], "qa_2.jsonl"), "12")[0]["score"] == 1.0


LOGGED = {
    "doc_id": 3, "target": "1",
    "arguments": {"gen_args_0": {"arg_0": "The sky is", "arg_1": " very green"}, "gen_args_1": {"arg_0": "The sky is", "arg_1": " blue"}},
}  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        LOGGED,
        {**LOGGED, "arguments": [["The sky is", " very green"], ["The sky is", " blue"]], "target": 1},
        {"context": "The sky is ", "choices": ["very green", "blue"], "gold": 1},
    ],
    ids=["logged", "logged list", "plain"],
)
def test_lm_eval_choices(tmp_path, subject, client, record):
    measures, calls, item = ask(subject, client, "lm_eval:" + write(tmp_path, [record]), "")
    assert len(calls) == 2 and measures["score"] == 1.0 and measures["nll"] == 1.0
    # -2 nats over 11 characters beat -1 over 5 (or 4 without its space) where length is taken out.
    assert measures["acc_norm"] == 0.0
    assert [client.words.text(request.answer) for request, _ in item.requests] == [" very green", " blue"]


def test_lm_eval_text(tmp_path, subject, client):
    how = {"until": ["\n"], "max_gen_toks": 5}
    record = {"target": "the cat", "arguments": [["Who?", how]]}
    measures, calls, _ = ask(subject, client, "lm_eval:" + write(tmp_path, [record]), " the cat\n")
    assert measures["score"] == 1.0 and measures["rougeL"] == 1.0
    assert calls[1]["stop"] == ["\n"] and calls[1]["max_tokens"] == 5


@pytest.mark.parametrize(
    "kind, records, said",
    [
        ("longbench", [{"input": "x"}], "context, answers, dataset"),
        ("longbench", [{**QA, "dataset": "vcsum"}], "vcsum"),
        ("ruler", [{"input": "x"}], "outputs"),
        ("lm_eval", [{"question": "x"}], "choices"),
        ("ruler", [], "empty"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path, kind, records, said):
    with pytest.raises(TaskError, match=said):
        find(f"{kind}:{write(tmp_path, records)}")


def test_records_come_in_one_order(tmp_path, subject):
    records = [{**QA, "input": f"Number {at}?"} for at in range(20)]
    task, _ = find("longbench:" + write(tmp_path, records))
    order = [task.record(at)["input"] for at in range(task.records)]
    assert sorted(order) == sorted(record["input"] for record in records) and order != [r["input"] for r in records]
