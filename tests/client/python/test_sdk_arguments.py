"""Arguments that cannot be right: an error that names them, and nothing is sent."""

import math

import numpy
import pytest

import folio

INF, NAN = math.inf, math.nan
GENERATE = {
    # name: (arguments, error, words)
    "no prompt": ({"prompt": None}, TypeError, "give prompt or tokens or chat"),
    "two prompts": ({"tokens": [1]}, TypeError, "prompt and tokens are given"),
    "prompt of bytes": ({"prompt": b"x"}, TypeError, "prompt must be a str, not bytes"),
    "empty prompt": ({"prompt": ""}, ValueError, "prompt is empty"),
    "half a character": ({"prompt": "ab\ud800"}, ValueError, "prompt is not text that UTF-8 can encode, at character 2"),
    "no tokens": ({"prompt": None, "tokens": []}, ValueError, "tokens is empty"),
    "tokens of text": ({"prompt": None, "tokens": "abc"}, TypeError, "tokens must be a sequence of int"),
    "a token of text": ({"prompt": None, "tokens": [1, "2"]}, TypeError, "tokens[1] must be an int, not str"),
    "a token below zero": ({"prompt": None, "tokens": [1, -1]}, ValueError, "tokens[1] must be at least 0, is -1"),
    "a token too high": ({"prompt": None, "tokens": [2**32]}, ValueError, "tokens[0] must be at most 4294967295"),
    "chat of text": ({"prompt": None, "chat": "hi"}, TypeError, "chat must be a list"),
    "chat of one message": ({"prompt": None, "chat": {"role": "user", "content": "x"}}, TypeError, "chat must be a list"),
    "empty chat": ({"prompt": None, "chat": []}, ValueError, "chat is empty"),
    "chat without content": ({"prompt": None, "chat": [{"role": "user"}]}, ValueError, "chat[0] must have role and content"),
    "chat of triples": ({"prompt": None, "chat": [("user", "x", "y")]}, TypeError, "chat[0] must be a dict"),
    "chat content a number": ({"prompt": None, "chat": [("user", 1)]}, TypeError, "chat[0].content must be a str"),
    "chat field no JSON": (
        {"prompt": None, "chat": [{"role": "tool", "content": "x", "at": {1, 2}}]},
        TypeError,
        "chat[0] cannot be written as JSON",
    ),
    "chat field no number": (
        {"prompt": None, "chat": [{"role": "tool", "content": "x", "at": NAN}]},
        ValueError,
        "chat[0] cannot be written as JSON",
    ),
    "content none": ({"prompt": None, "chat": [{"role": "user", "content": None}]}, TypeError, "chat[0].content must be a str"),
    "tools without chat": ({"tools": [{}]}, TypeError, "tools goes with chat only"),
    "tools one dict": ({"prompt": None, "chat": [("user", "x")], "tools": {}}, TypeError, "tools must be a list of dicts"),
    "arguments a list": (
        {"prompt": None, "chat": [("user", "x")], "template_arguments": []},
        TypeError,
        "template_arguments must be a dict, not list",
    ),
    "unknown policy": ({"policy": "newest"}, ValueError, "policy: no kind 'newest'"),
    "policy's class": ({"policy": folio.KeyDiff}, TypeError, "policy must be a folio.Policy or its text form, not type; write"),
    "policy a number": ({"policy": 3}, TypeError, "policy must be a folio.Policy"),
    "budget of zero": ({"budget": 0}, ValueError, "budget must be at least 1"),
    "budget a flag": ({"budget": True}, TypeError, "budget must be an int, not bool"),
    "budget a text": ({"budget": "64"}, TypeError, "budget must be a number, not str"),
    "share of nothing": ({"budget": 0.0}, ValueError, "budget must be a number above 0 and at most 1, is 0.0"),
    "share over all": ({"budget": 1.5}, ValueError, "budget must be a number above 0 and at most 1"),
    "share not a number": ({"budget": NAN}, ValueError, "budget must be"),
    "budget with full": ({"policy": folio.Full(), "budget": 64}, ValueError, "budget does not go with policy full"),
    "sink with full": ({"policy": "full", "sink_tokens": 16}, ValueError, "sink_tokens does not go with policy full"),
    "sink below zero": ({"sink_tokens": -16}, ValueError, "sink_tokens must be at least 0"),
    "recent a fraction": ({"recent_tokens": 1.5}, TypeError, "recent_tokens must be an int, not float"),
    "unknown mode": ({"eviction_mode": "later"}, ValueError, "eviction_mode must be one of pipelined, synchronous"),
    "unknown schedule": ({"schedule": "cone"}, ValueError, "schedule must be one of uniform, pyramid"),
    "a misspelt name": ({"max_token": 4}, TypeError, "generate() got an unexpected keyword argument 'max_token'"),
    "unknown layers": ({"layers": "some"}, ValueError, "layers must be one of per_layer, shared"),
    "shared and a schedule": ({"layers": "shared", "schedule": "pyramid"}, ValueError, 'layers="shared" needs one budget'),
    "shared and budgets": ({"layers": "shared", "layer_budgets": [64]}, ValueError, 'layers="shared" needs one budget'),
    "shared with full": ({"policy": "full", "layers": "shared"}, ValueError, "layers does not go with policy full"),
    "a large share": ({"prompt_share": 0.95}, ValueError, "prompt_share must be a number at least 0 and at most 0.9"),
    "a share in words": ({"prompt_share": "half"}, TypeError, "prompt_share must be a number, not str"),
    "large ends": ({"protect_ends": 0.5}, ValueError, "protect_ends must be a number at least 0 and at most 0.4"),
    "no segment": ({"segments": 0}, ValueError, "segments must be at least 1"),
    "many segments": ({"segments": 65}, ValueError, "segments must be at most 64, is 65"),
    "ends with full": ({"policy": "full", "protect_ends": 0.1}, ValueError, "protect_ends does not go with policy full"),
    "segments with full": ({"policy": "full", "segments": 2}, ValueError, "segments does not go with policy full"),
    "two budgets": ({"budget": 64, "layer_budgets": [64]}, ValueError, "layer_budgets and budget are given"),
    "budgets and schedule": ({"schedule": "uniform", "layer_budgets": [64]}, ValueError, "layer_budgets and schedule"),
    "a layer without": ({"layer_budgets": [64, 0]}, ValueError, "layer_budgets[1] must be at least 1"),
    "no layers": ({"layer_budgets": []}, ValueError, "layer_budgets is empty"),
    "max_tokens of zero": ({"max_tokens": 0}, ValueError, "max_tokens must be at least 1"),
    "stop empty": ({"stop": ["a", ""]}, ValueError, "stop[1] is empty"),
    "stop a number": ({"stop": 3}, TypeError, "stop must be a str or a sequence of str"),
    "ignore_eos a number": ({"ignore_eos": 1}, TypeError, "ignore_eos must be a bool"),
    "cold": ({"temperature": -0.1}, ValueError, "temperature must be a number at least 0, is -0.1"),
    "hot": ({"temperature": INF}, ValueError, "temperature must be"),
    "too hot for float32": ({"temperature": 1e39}, ValueError, "temperature must be a number at least 0 and at most 3.4"),
    "temperature a text": ({"temperature": "1"}, TypeError, "temperature must be a number, not str"),
    "top_k below zero": ({"top_k": -1}, ValueError, "top_k must be at least 0"),
    "presence_penalty of three": ({"presence_penalty": 3}, ValueError, "presence_penalty must be a number at least -2"),
    "frequency_penalty as text": ({"frequency_penalty": "1"}, TypeError, "frequency_penalty must be a number, not str"),
    "repetition_penalty of zero": ({"repetition_penalty": 0}, ValueError, "repetition_penalty must be a number at least 0.01"),
    "logit_bias as pairs": ({"logit_bias": [(1, 2)]}, TypeError, "logit_bias must map token ids to numbers, not list"),
    "logit_bias of a word": ({"logit_bias": {"the": 2}}, TypeError, "a token of logit_bias must be an int, not str"),
    "logit_bias of a thousand": ({"logit_bias": {7: 1000}}, ValueError, "logit_bias[7] must be a number at least -100"),
    "min_tokens below zero": ({"min_tokens": -1}, ValueError, "min_tokens must be at least 0"),
    "stop_token_ids as text": ({"stop_token_ids": "12"}, TypeError, "stop_token_ids must be a sequence of int"),
    "two forms": ({"regex": "a", "json_schema": {}}, ValueError, "give only one of json_schema, regex and grammar"),
    "regex that is no text": ({"regex": 5}, TypeError, "regex must be a str, not int"),
    "top_p of zero": ({"top_p": 0}, ValueError, "top_p must be a number above 0 and at most 1"),
    "min_p over one": ({"min_p": 1.1}, ValueError, "min_p must be a number at least 0 and at most 1"),
    "seed below zero": ({"seed": -1}, ValueError, "seed must be at least 0"),
    "seed over 64 bits": ({"seed": 2**64}, ValueError, "seed must be at most 18446744073709551615"),
    "logprobs below zero": ({"logprobs": -1}, ValueError, "logprobs must be at least 0"),
    "label a number": ({"label": 7}, TypeError, "label must be a str"),
    "no time": ({"timeout": 0}, ValueError, "timeout must be a number above 0"),
    "time a text": ({"timeout": "1"}, TypeError, "timeout must be a number"),
}


@pytest.mark.parametrize("name", GENERATE)
def test_generate_refuses(server, client, name):
    arguments, error, words = GENERATE[name]
    for call in (client.generate, client.agenerate):
        with pytest.raises(error) as refused:
            call(**{"prompt": "x", **arguments})
        assert words in str(refused.value)
    assert not server.requests


OTHERS = {
    "score without continuation": (lambda c: c.score("x"), TypeError, "give continuation or continuation_tokens"),
    "score with two": (lambda c: c.score("x", continuation="y", continuation_tokens=[1]), TypeError, "only one may be"),
    "score an empty text": (lambda c: c.score("x", continuation=""), ValueError, "continuation is empty"),
    "score without prompt": (lambda c: c.score(continuation="y"), TypeError, "give prompt"),
    "score with a wrong top": (lambda c: c.score("x", continuation="y", top_logprobs=None), TypeError, "top_logprobs"),
    "tokenize nothing": (lambda c: c.tokenize(), TypeError, "give text or chat"),
    "tokenize both": (lambda c: c.tokenize("x", chat=[("user", "y")]), TypeError, "text and chat are given"),
    "detokenize text": (lambda c: c.detokenize("x"), TypeError, "ids must be a sequence of int"),
    "sequence below zero": (lambda c: c.sequence(-1), ValueError, "sequence_id must be at least 0"),
    "explain a share": (lambda c: c.explain(1, "key_diff", 2.0), ValueError, "budget must be"),
    "window of zero": (lambda c: folio.SnapKv(0), ValueError, "window must be at least 1, is 0"),
    "window of text": (lambda c: folio.SnapKv("8"), TypeError, "window must be an int"),
    "window over 32 bits": (lambda c: folio.SnapKv(2**32), ValueError, "window must be at most 4294967295"),
    "pool of zero": (lambda c: folio.SnapKv(pool=0), ValueError, "pool must be at least 1, is 0"),
    "pool even": (lambda c: folio.SnapKv(pool=6), ValueError, "pool must be odd, is 6"),
    "pool a fraction": (lambda c: folio.SnapKv(pool=7.0), TypeError, "pool must be an int, not float"),
    "query_diff's share over all": (lambda c: folio.QueryDiff(1.1), ValueError, "at least 0 and at most 1, is 1.1"),
    "query_diff's share below zero": (lambda c: folio.QueryDiff(-0.1), ValueError, "share must be a number at least 0"),
    "query_diff's share no number": (lambda c: folio.QueryDiff(NAN), ValueError, "share must be a number"),
    "query_diff's share a text": (lambda c: folio.QueryDiff("0.5"), TypeError, "share must be a number, not str"),
    "query_diff's window": (lambda c: folio.QueryDiff(window=0), ValueError, "window must be at least 1, is 0"),
    "query_diff's neighbours": (lambda c: folio.QueryDiff(neighbours=-1), ValueError, "neighbours must be at least 0, is -1"),
    "query_diff's judges": (lambda c: folio.QueryDiff(judges_to=1.5), ValueError, "judges_to must be a number at least 0"),
    "query_diff's pool": (lambda c: folio.QueryDiff(pool=30), ValueError, "pool must be odd, is 30"),
    "random seed": (lambda c: folio.Random(-1), ValueError, "seed must be at least 0"),
    "share of all": (lambda c: folio.KvCrush(share=1), ValueError, "share must be below 1"),
    "share below zero": (lambda c: folio.KvCrush(share=-0.1), ValueError, "share must be a number at least 0"),
    "anchor": (lambda c: folio.KvCrush(anchor="middle"), ValueError, "anchor must be one of mean, alternating, zeros"),
    "base without scores": (lambda c: folio.KvCrush(folio.StreamingLlm()), TypeError, "base must be a policy that scores"),
    "prefill_only": (lambda c: folio.KvCrush(prefill_only=1), TypeError, "prefill_only must be a bool"),
    "base of two methods": (lambda c: folio.KvCrush(folio.QueryDiff()), TypeError, "base must be a policy that scores"),
    "base by its name": (lambda c: folio.KvCrush("key_diff"), TypeError, "base must be a policy"),
    "address": (lambda c: folio.Client("/run/x.sock"), ValueError, 'address "/run/x.sock": for a Unix socket write unix:'),
    "manager's address": (lambda c: folio.Client(manager="host"), ValueError, 'manager "host" is neither'),
    "port": (lambda c: folio.Client("host:70000"), ValueError, "is neither unix:/path nor host:port"),
    "no socket": (lambda c: folio.Client("unix:"), ValueError, "names no socket"),
    "client's timeout": (lambda c: folio.Client("a:1", timeout=-1), ValueError, "timeout must be a number above 0"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_refuse(server, client, name):
    call, error, words = OTHERS[name]
    with pytest.raises(error) as refused:
        call(client)
    assert words in str(refused.value)
    assert not server.requests


POLICY_TEXTS = {
    "": "no kind ''",
    "paged": "no kind 'paged'; there are full, paged_eviction",
    "full:": "policy 'full:': no parameter ''; it takes none",
    "snap_kv:span=3": "no parameter 'span=3'; there are window=",
    "snap_kv:window=wide": "window must be a number, is 'wide'",
    "snap_kv:window=0": "window must be at least 1",
    "snap_kv:pool=4": "policy 'snap_kv:pool=4': pool must be odd, is 4",
    "snap_kv:pool=x": "pool must be a number, is 'x'",
    "snap_kv:share=0.5": "no parameter 'share=0.5'; there are window=, pool=",
    "query_diff:share=x": "share must be a number, is 'x'",
    "query_diff:share=2": "share must be a number at least 0 and at most 1, is 2.0",
    "query_diff:pool=2": "pool must be odd, is 2",
    "query_diff:pool=3,pool=5": "given twice",
    "query_diff:seed=1": "no parameter 'seed=1'; there are share=, window=, pool=",
    "random:seed=1,seed=2": "given twice",
    "kv_crush:full": "base must be a policy that scores",
    "kv_crush:query_diff,window=3": "base must be a policy that scores",
    "kv_crush:key_diff,pool=3": "no parameter 'pool=3'",
    "kv_crush:nobody,share=0.1": "no parameter 'nobody'; there are share=, anchor=, seed=",
    "kv_crush:key_diff,,": "no parameter ''",
    "kv_crush:key_diff,share=1": "share must be below 1",
    "kv_crush:key_diff,anchor=left": "anchor must be one of",
    "kv_crush:key_diff,window=3": "no parameter 'window=3'",
    "kv_crush:key_diff,snap_kv": "no parameter 'snap_kv'",
    "kv_crush:decode=later": "decode must be one of crush, base",
    "kv_crush:prefill_only=1": "no parameter 'prefill_only=1'",
    "kv_crush:kv_crush": "base must be a policy that scores",
}


@pytest.mark.parametrize("text", POLICY_TEXTS)
def test_policy_texts_are_refused(text):
    with pytest.raises(ValueError) as refused:
        folio.policy(text)
    assert POLICY_TEXTS[text] in str(refused.value)


def test_numbers_of_numpy_are_numbers(server, client):
    client.score(
        tokens=numpy.arange(3), continuation_tokens=numpy.array([4, 5], dtype=numpy.uint16), budget=numpy.float32(0.25)
    )
    (request,) = server.requests
    assert list(request.input.tokens.ids) == [0, 1, 2] and list(request.continuation.tokens.ids) == [4, 5]
    assert request.cache.budget_share == 0.25
