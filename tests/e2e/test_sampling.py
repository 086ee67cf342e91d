"""Penalties, biases, least lengths, stop tokens and forms of answers, through real processes."""

import collections
import json
import math
import re

import folio
import pytest
from node import Node
from streams import kill

PROMPT = "Once upon a time there was a small boat on the sea, and the small boat sailed to the"
EOS = 2  # <|im_end|> of the reference model
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


@pytest.fixture
def client(nothing_lost):
    with folio.Client(nothing_lost.worker_address()) as client:
        yield client


def generate(client, **arguments):
    return client.generate(PROMPT, **{"max_tokens": 24, "logprobs": 20, **arguments}).result()


def test_penalties_choose_by_their_definition(client):
    result = generate(client, presence_penalty=1.5, frequency_penalty=0.7)
    assert list(result.tokens) != list(generate(client).tokens)
    seen = collections.Counter()
    for token, step in zip(result.tokens, result.logprobs, strict=True):
        # Log-probabilities differ from logits by one number, which does not change the order. The greatest changed
        # logit lies among the 20 likeliest as long as few tokens are lowered.
        values = {one.token: one.logprob - 0.7 * seen[one.token] - 1.5 * (one.token in seen) for one in step.top}
        assert values[token] >= max(values.values()) - 1e-4
        seen[token] += 1


def test_a_repetition_penalty_counts_the_prompt(client):
    plain = generate(client)
    result = generate(client, repetition_penalty=5.0)
    prompt = set(client.tokenize(PROMPT).ids)
    assert prompt & set(plain.tokens)
    assert not prompt & set(result.tokens)
    assert len(set(result.tokens)) == len(result.tokens)
    # The numbers that clients see are the model's own.
    assert result.logprobs[0].top == plain.logprobs[0].top


def test_biases_force_and_exclude(client):
    plain = generate(client)
    first = plain.tokens[0]
    without = generate(client, logit_bias={first: -100})
    assert first not in without.tokens
    second = plain.logprobs[0].top[1].token
    assert without.tokens[0] == second
    always = generate(client, logit_bias={1000: 100}, max_tokens=5)
    assert list(always.tokens) == [1000] * 5
    assert always.logprobs[0].logprob == pytest.approx(plain.logprobs[0].logprob, abs=30)
    assert always.logprobs[0].logprob < plain.logprobs[0].logprob


def test_an_answer_has_its_least_length(client):
    ended = client.generate(PROMPT, logit_bias={EOS: 100}, max_tokens=20).result()
    assert ended.finished.reason == "eos" and len(ended.tokens) == 1 and ended.finished.stop_token == EOS
    later = client.generate(PROMPT, logit_bias={EOS: 100}, min_tokens=7, max_tokens=20).result()
    assert later.finished.reason == "eos" and len(later.tokens) == 8 and EOS not in later.tokens[:7]
    # Stop strings count from there on too.
    text = generate(client).text
    word = text.split()[0]
    assert client.generate(PROMPT, stop=word).text().strip() == ""
    longer = client.generate(PROMPT, stop=word, min_tokens=3, max_tokens=24).result()
    assert len(longer.tokens) >= 3 and longer.text.startswith(text[: text.index(word) + len(word)])


def test_a_token_ends_an_answer(client):
    plain = generate(client)
    at = next(i for i, token in enumerate(plain.tokens) if i > 3 and token not in plain.tokens[:i])
    result = generate(client, stop_token_ids=[plain.tokens[at], 4000])
    assert list(result.tokens) == list(plain.tokens[: at + 1])
    assert plain.text.startswith(result.text) and len(result.text) < len(plain.text)
    assert result.finished.reason == "stop"
    assert result.finished.stop == "" and result.finished.stop_token == plain.tokens[at]


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_schema_gives_json(client, temperature):
    for seed in range(3):
        result = generate(client, json_schema=SCHEMA, max_tokens=120, temperature=temperature, seed=seed)
        assert result.finished.reason == "eos"
        value = json.loads(result.text)
        assert list(value) == ["name", "age", "tags"]
        assert len(value["name"]) <= 12 and 0 <= value["age"] <= 99
        assert set(value["tags"]) <= {"red", "green"} and len(value["tags"]) <= 2


def test_a_regex_and_a_grammar_hold(client):
    result = generate(client, regex=r"[a-c]{3}-[0-9]{2}", temperature=1, seed=3)
    assert re.fullmatch(r"[a-c]{3}-[0-9]{2}", result.text) and result.finished.reason == "eos"
    result = generate(client, grammar='start: ("yes" | "no") " " NUMBER\nNUMBER: /[1-9][0-9]?/', temperature=1, seed=3)
    assert re.fullmatch(r"(yes|no) [1-9][0-9]?", result.text) and result.finished.reason == "eos"


def test_forms_stand_beside_free_text(client):
    expected = generate(client, max_tokens=60)
    free = client.generate(PROMPT, max_tokens=60)
    formed = [client.generate(PROMPT, json_schema=SCHEMA, max_tokens=120, seed=i, temperature=1) for i in range(4)]
    for generation in formed:
        json.loads(generation.text())
    assert list(free.result().tokens) == list(expected.tokens)


def test_another_worker_keeps_to_the_rules():
    asking = {
        "max_tokens": 120,
        "json_schema": {"type": "array", "items": {"type": "integer"}, "minItems": 30},
        "temperature": 0.9,
        "seed": 11,
        "repetition_penalty": 1.2,
        "frequency_penalty": 0.4,
        "logit_bias": {30: 2.0},
    }
    with Node(pool="512MiB") as node:
        node.start_worker("first")
        node.start_worker("second")
        with folio.Client(node.worker_address("first"), standby=[node.worker_address("second")]) as client:
            expected = client.generate(PROMPT, **asking).result()
            generation = client.generate(PROMPT, **asking, timeout=120)
            for _, _ in zip(range(15), generation, strict=False):
                pass
            kill(node, "first")
            result = generation.result()
        assert list(result.tokens) == list(expected.tokens) and result.text == expected.text
        node.assert_all_free()
        node.assert_alive()


REFUSED = {
    "presence": ({"presence_penalty": 3}, "presence_penalty"),
    "frequency": ({"frequency_penalty": math.nan}, "frequency_penalty"),
    "repetition": ({"repetition_penalty": 0}, "repetition_penalty"),
    "bias": ({"logit_bias": {5: 101}}, "logit_bias[5]"),
    "bias of no token": ({"logit_bias": {49152: 1}}, "logit_bias has token 49152"),
    "many biases": ({"logit_bias": {i: 1 for i in range(1025)}}, "1024"),
    "min_tokens": ({"min_tokens": 30, "max_tokens": 20}, "min_tokens is 30"),
    "stop token": ({"stop_token_ids": [49152]}, "stop_token_ids[0]"),
    "stop tokens": ({"stop_token_ids": list(range(65))}, "stop_token_ids has 65"),
    "two forms": ({"regex": "a", "grammar": "b"}, "only one"),
    "endless form": ({"regex": "a", "ignore_eos": True}, "ignore_eos"),
    "schema that is no JSON": ({"json_schema": "{"}, "format.json_schema"),
    "schema of an unknown type": ({"json_schema": {"type": "colour"}}, "format.json_schema"),
    "regex": ({"regex": "(a"}, "format.regex"),
    "grammar": ({"grammar": "start: missing"}, "format.grammar"),
    "long form": ({"regex": "a" * 70000}, "65536"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(client, name):
    arguments, words = REFUSED[name]
    with pytest.raises((ValueError, folio.FolioError)) as refused:
        client.generate(PROMPT, **arguments).result()
    assert words in str(refused.value)


def test_rules_that_leave_no_token(client):
    with pytest.raises(folio.FolioError, match="no token is left"):
        client.generate(PROMPT, regex="a", min_tokens=5, max_tokens=9).result()
    assert client.generate(PROMPT, max_tokens=2).result().finished.reason == "length"
