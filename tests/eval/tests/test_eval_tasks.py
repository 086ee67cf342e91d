"""Prompts repeat from their seed, have the length they should, and hold what they ask for."""

import ast
import itertools
import random
import re

import pytest
from conftest import FakeClient
from folio_eval import prose
from folio_eval.items import LAST
from folio_eval.subject import Subject
from folio_eval.tasks import TASKS, TaskError, find

FORCED = [name for name in TASKS if name != "decode_speed"]
BOTH = [name for name in FORCED if not getattr(find(name)[0], "one_form", False)]
SLACK = 64  # tokens that one more unit of filler may need


def make(subject, name, length=1024, seed=0, index=0):
    task, blind = find(name)
    return task.item(subject, random.Random(f"{name.removesuffix(':blind')} {seed} {index}"), length, index, blind)


def spans(client, item):
    return [client.words.text(item.answer[begin:end]) for begin, end in item.parts]


@pytest.mark.parametrize("name", FORCED)
def test_a_seed_repeats_a_prompt(subject, name):
    assert make(subject, name) == make(subject, name)
    assert make(subject, name) != make(subject, name, seed=1)
    assert make(subject, name, index=1) != make(subject, name, index=2)


@pytest.mark.parametrize("name", [*FORCED, *(f"{name}:blind" for name in BOTH)])
@pytest.mark.parametrize("length", [1024, 2048])
def test_prompts_have_their_length(subject, name, length):
    for index in range(3):
        item = make(subject, name, length, index=index)
        assert length - SLACK <= len(item.prompt) <= length


@pytest.mark.parametrize("name", FORCED)
def test_the_whole_sequence_fits_the_context(subject, name):
    item = make(subject, name, subject.context)
    whole = len(item.prompt) + len(item.forced) + len(item.answer)
    assert subject.context - 2 * SLACK <= whole <= subject.context


@pytest.mark.parametrize("name", [name for name in BOTH if name.startswith("needle")])
def test_a_needle_is_in_the_text_once(client, subject, name):
    for form in (name, f"{name}:blind"):
        item = make(subject, form)
        text = client.words.text(item.prompt)
        for number in spans(client, item):
            assert text.count(f" is{number}. ") + text.count(f" is{number}.\n") == 1


@pytest.mark.parametrize("name", BOTH)
def test_both_forms_ask_the_same_and_blind_asks_after_the_prompt(client, subject, name):
    aware, blind = make(subject, name), make(subject, f"{name}:blind")
    assert spans(client, aware) == spans(client, blind)
    question = client.words.text(blind.forced)
    assert client.words.text((*aware.prompt, *aware.forced)).endswith(question)
    assert len(aware.forced) == (LAST if name in ("code_completion", "few_shot") else 0)
    assert "?" not in client.words.text(blind.prompt)
    assert name in ("code_completion", "few_shot") or "<end><assistant>" in question


def test_needles_are_spread_over_the_text(client, subject):
    depths = []
    for index in range(16):
        item = make(subject, "needle_prose", index=index)
        text = client.words.text(item.prompt)
        depths.append(text.index("The special magic number for") / len(text))
    depths.sort()
    assert depths[0] < 0.15 and depths[-1] > 0.8
    assert max(b - a for a, b in itertools.pairwise(depths)) < 0.25


def test_the_chain_of_variables_ends_at_the_answer(client, subject):
    item = make(subject, "variable_tracking")
    text = client.words.text(item.prompt)
    values = dict(re.findall(r"VAR (\w+) = (\w+)\.", text))
    name = re.search(r"does the variable (\w+) hold", text)[1]
    assert name not in text[: text.index("VAR")], "the question stands behind the text"
    hops = 0
    while not name.isdigit():
        name, hops = values[name], hops + 1
    assert hops == 3 and spans(client, item) == [f" {name}"]


def test_common_words_are_the_most_frequent(client, subject):
    item = make(subject, "common_words")
    listed = re.findall(r"\d+\. (\w+)", client.words.text(item.prompt))
    counts = sorted(((listed.count(word), word) for word in set(listed)), reverse=True)
    assert [f" {word}" for _, word in counts[:3]] == spans(client, item)
    assert counts[2][0] > 2 * counts[3][0]


def test_the_record_is_in_the_object(client, subject):
    item = make(subject, "kv_retrieval")
    text = client.words.text(item.prompt)
    pairs = dict(re.findall(r'"([a-z-]+)": "(\d{5})"', text))
    key = re.search(r'value of the key "([a-z-]+)"', text)[1]
    assert len(pairs) > 20 and spans(client, item) == [pairs[key]]


def test_long_generation_hides_the_needle_in_what_is_decoded(client, subject):
    item = make(subject, "long_generation")
    (number,) = spans(client, item)
    decoded = client.words.text(item.forced)
    assert 1000 - SLACK <= len(item.forced) <= 1000 + SLACK
    assert f"is{number}." not in client.words.text(item.prompt) and f"is{number}." in decoded[: len(decoded) // 4]
    item = make(subject, "long_generation_prompt")
    (number,) = spans(client, item)
    assert f"is{number}." in client.words.text(item.prompt)


def test_the_examples_tell_the_label(client, subject):
    for index in range(5):
        item = make(subject, "few_shot", index=index)
        (label,) = spans(client, item)
        *shown, (asked, _) = re.findall(r"Text: (.*)\nLabel:(?: (\w+))?", client.words.text((*item.prompt, *item.forced)))
        labels = {}
        for text, given in shown:
            labels.setdefault(given, []).append(set(text.split()))
        assert len(labels) == 5 and min(map(len, labels.values())) >= 3
        words = set(asked.split())
        alike = {given: max(len(words & other) for other in texts) for given, texts in labels.items()}
        assert max(alike, key=alike.get) == label.strip(), "the examples have its pattern"


def test_the_code_defines_what_its_last_line_repeats(client, subject):
    for index in range(6):
        item = make(subject, "code_completion", index=index)
        text, answer = client.words.text((*item.prompt, *item.forced)), client.words.text(item.answer)
        module, _, tail = text.rpartition("# ")
        ast.parse(module)
        if index % 2:
            name = re.search(r"^def (\w+)\($", tail, re.M)[1]
            assert re.findall(rf"def {name}\((.*)\):", module) == [answer] and len(item.parts) == 3
        else:
            name = re.search(r"^(\w+) =$", tail, re.M)[1]
            assert re.findall(rf"^{name} =(.*)$", module, re.M) == [answer] and len(item.parts) == 1


@pytest.mark.parametrize("name", ["perplexity", "novel_perplexity"])
def test_perplexity_goes_on_where_the_prompt_ended(client, subject, name):
    item = make(subject, name, 1024)
    assert len(item.prompt) == 1024 and item.parts == ((0, 256),)
    if name != "perplexity":
        return  # a longer stretch begins elsewhere in the text
    longer = make(subject, name, 1280)
    assert longer.prompt == item.prompt + item.answer


def test_prose_varies_and_has_no_slot_left():
    text = list(itertools.islice(prose.sentences(0), 1000))
    assert len(set(text)) > 950
    assert not any("{" in sentence for sentence in text)
    assert not re.search(r"\b[Aa] (?:amber|ivory|ochre|oak|iron)\b", " ".join(text))
    first = [re.sub(r"\d+", "", sentence) for sentence in text[:300]]
    assert len(set(first)) == 300, "a pass says nothing twice"
    assert text != list(itertools.islice(prose.sentences(1), 1000))


@pytest.mark.parametrize("name", ["needle", "perplexity:blind", "longbench:/no/such/file", "csv:x"])
def test_unknown_tasks_are_refused_by_name(name):
    with pytest.raises(TaskError, match=re.escape(name.removesuffix(":blind"))):
        find(name)


@pytest.mark.parametrize("name", [*FORCED, *(f"{name}:blind" for name in BOTH)])
def test_a_first_token_comes_once(name):
    """Some models begin every sequence with a token, which no text that follows others may have."""
    client = FakeClient(begins_with="<begin>")
    (first,) = client.words.ids("<begin>")
    item = make(Subject(client), name)
    ids = (*item.prompt, *item.forced, *item.answer)
    assert ids[0] == first and ids.count(first) == 1
