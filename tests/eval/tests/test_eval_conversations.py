"""Facts told in several places are asked for at the end, each as a part with a name."""

import random
import re

from folio_eval.tasks import find


def make(subject, name, length, index=0):
    task, blind = find(name)
    return task.item(subject, random.Random(f"{name.removesuffix(':blind')} 0 {index}"), length, index, blind)


def numbers(client, item):
    """{name of the part: its number}."""
    return {
        name: client.words.text(item.answer[begin:end]).strip()
        for name, (begin, end) in zip(item.names, item.parts, strict=True)
    }


def told(number):
    return f" is {number}."


def test_three_facts_stand_in_the_prompt_and_at_both_ends_of_what_is_decoded(client, subject):
    orders = set()
    for index in range(6):
        item = make(subject, "three_facts", 512, index)
        parts = numbers(client, item)
        prompt, decoded = client.words.text(item.prompt), client.words.text(item.forced)
        assert set(parts) == {"prompt", "early", "late"} and len(set(parts.values())) == 3
        assert [told(number) in prompt for number in parts.values()] == [name == "prompt" for name in parts]
        early, late = (decoded.index(told(parts[name])) / len(decoded) for name in ("early", "late"))
        assert 0.03 < early < 0.22 and 0.7 < late < 0.93 and told(parts["prompt"]) not in decoded
        assert 950 < len(item.forced) < 1100
        orders.add(tuple(parts))
    assert len(orders) > 2, "no part is always asked for first"


def test_the_question_names_the_keys_in_the_order_of_the_answer(client, subject):
    for name in ("three_facts", "dialogue"):
        item = make(subject, name, 1024)
        text = client.words.text(item.prompt + item.forced + item.answer)
        listed = re.search(r"magic numbers for ([\w, ]+)\?", text)[1]
        asked = text[text.index(listed) :]
        assert re.findall(r"magic number for (\w+) is", asked) == re.split(", | and ", listed)
        for key, number in re.findall(r"magic number for (\w+) is (\d+)", asked):
            assert text.count(f"The special magic number for {key} is {number}") == 2, "told once, answered once"


def test_each_turn_of_a_dialogue_tells_one_number(client, subject):
    for index in range(3):
        item = make(subject, "dialogue", 1024, index)
        turns = re.findall(r"<user>(.*?)<end>", client.words.text(item.prompt), re.S)
        replies = re.findall(r"<assistant>(.*?)<end>", client.words.text(item.prompt), re.S)
        parts = numbers(client, item)
        assert len(turns) == 7 and len(replies) == 6 and set(parts) == {f"turn_{at}" for at in range(1, 7)}
        for name, number in parts.items():
            assert [told(number) in turn for turn in turns] == [name == f"turn_{at}" for at in range(1, 8)]
        assert all(len(reply) > 40 and "magic" not in reply for reply in replies)


def test_a_decoded_dialogue_has_its_first_turn_in_the_prompt(client, subject):
    item = make(subject, "dialogue_decoded", 512)
    parts = numbers(client, item)
    prompt, decoded = client.words.text(item.prompt), client.words.text(item.forced)
    assert {name for name, number in parts.items() if told(number) in prompt} == {"turn_1"}
    assert {name for name, number in parts.items() if told(number) in decoded} == {f"turn_{at}" for at in range(2, 7)}
    whole = prompt + decoded
    assert prompt.endswith("<end><assistant>") and whole.count("<user>") == 7 and 900 < len(item.forced) < 1100
