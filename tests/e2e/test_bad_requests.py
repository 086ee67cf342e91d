"""Malformed requests: each is refused by code and in words that name the field; nothing is lost."""

import math

import grpc
import pytest
from node import cache, tokens
from stubs import admin_pb2, inference_pb2, types_pb2

INVALID, NOT_FOUND = "INVALID_ARGUMENT", "NOT_FOUND"
VOCAB, CONTEXT = 49152, 8192
Input, Sampling = inference_pb2.Input, types_pb2.SamplingParams
TEXT = Input(text="Once upon a time")


def chat(*messages):
    return Input(chat=inference_pb2.Chat(messages=[inference_pb2.ChatMessage(role=r, content=c) for r, c in messages]))


def generate(**fields):
    return "Generate", inference_pb2.GenerateRequest(**{"input": TEXT, "max_tokens": 4, **fields})


def score(**fields):
    return "Score", inference_pb2.ScoreRequest(**{"input": TEXT, "continuation": TEXT, **fields})


def sampled(**fields):
    return generate(sampling=Sampling(**fields))


def cached(policy, budget=0, **fields):
    return generate(cache=cache(policy, budget, **fields))


def with_policy(name, budget=512, policy=None, **fields):
    """A policy with parameters of its own, and other fields of CacheOptions."""
    kind = types_pb2.Policy(**{name: policy} if policy is not None else {})
    if policy is None:
        getattr(kind, name).SetInParent()
    return generate(cache=types_pb2.CacheOptions(policy=kind, budget_tokens=budget, **fields))


NO_MODE = types_pb2.CacheOptions()
NO_MODE.eviction_mode = 77

REQUESTS = {
    # name: ((method, request), code, words)
    "no input": (generate(input=None), INVALID, ["input"]),
    "input without kind": (generate(input=Input()), INVALID, ["input must be given", "text, tokens or chat"]),
    "empty text": (generate(input=Input(text="")), INVALID, ["input", "empty"]),
    "no tokens": (generate(input=tokens([])), INVALID, ["input", "empty"]),
    "token at the end of the vocabulary": (generate(input=tokens([1, VOCAB])), INVALID, ["ids[1]", "49152"]),
    "token of 2^32 - 1": (generate(input=tokens([2**32 - 1])), INVALID, ["ids[0]", "4294967295"]),
    "empty chat": (generate(input=chat()), INVALID, ["chat.messages", "empty"]),
    "chat without role": (generate(input=chat(("", "Hi"))), INVALID, ["messages[0].role"]),
    "too many messages": (generate(input=chat(*[("user", "x")] * 20000)), INVALID, ["chat"]),
    "text too long": (generate(input=Input(text="a b " * 8192)), INVALID, ["context", "8192"]),
    "text far too long": (generate(input=Input(text="a" * (3 << 20))), INVALID, ["input.text", "bytes long"]),
    "chat far too long": (generate(input=chat(("user", "a" * (3 << 20)))), INVALID, ["input.chat", "bytes long"]),
    "prompt fills the context": (generate(input=tokens([5] * CONTEXT)), INVALID, ["8192", "no room"]),
    "prompt and max_tokens pass the context": (generate(max_tokens=CONTEXT), INVALID, ["max_tokens is 8192", "context"]),
    "max_tokens of 2^32 - 2": (generate(max_tokens=2**32 - 2), INVALID, ["max_tokens", "context"]),
    "temperature below zero": (sampled(temperature=-0.1), INVALID, ["temperature", "at least 0"]),
    "temperature not a number": (sampled(temperature=math.nan), INVALID, ["temperature", "nan"]),
    "temperature infinite": (sampled(temperature=math.inf), INVALID, ["temperature", "inf"]),
    "top_p zero": (sampled(top_p=0.0), INVALID, ["top_p", "above 0"]),
    "top_p over one": (sampled(top_p=1.01), INVALID, ["top_p", "1.01"]),
    "top_p below zero": (sampled(top_p=-1.0), INVALID, ["top_p", "-1"]),
    "top_p not a number": (sampled(top_p=math.nan), INVALID, ["top_p", "nan"]),
    "min_p below zero": (sampled(min_p=-0.5), INVALID, ["min_p", "-0.5"]),
    "min_p over one": (sampled(min_p=1.5), INVALID, ["min_p", "1.5"]),
    "min_p not a number": (sampled(min_p=math.nan), INVALID, ["min_p", "nan"]),
    "empty stop": (generate(stop=["a", ""]), INVALID, ["stop[1]", "empty"]),
    "long stop": (generate(stop=["x" * 100000]), INVALID, ["stop[0]", "bytes long"]),
    "many stops": (generate(stop=["x"] * 1000), INVALID, ["stop has 1000"]),
    "too many logprobs": (generate(logprobs=21), INVALID, ["logprobs is 21", "20"]),
    "logprobs of 2^32 - 1": (generate(logprobs=2**32 - 1), INVALID, ["logprobs"]),
    "long label": (generate(label="x" * 100000), INVALID, ["label", "bytes long"]),
    "long cache options": (
        generate(cache=types_pb2.CacheOptions(layer_budget_tokens=[16] * 20000)), INVALID, ["cache is 20", "16384"]
    ),
    "budget with full": (cached("full", 64), INVALID, ["budget_tokens 64", "full"]),
    "no budget": (cached("paged_eviction"), INVALID, ["budget_tokens is missing", "paged_eviction"]),
    "no budget, other policy": (cached("streaming_llm"), INVALID, ["budget_tokens is missing", "streaming_llm"]),
    "budget in between": (cached("paged_eviction", 100), INVALID, ["budget_tokens 100", "96 or 112"]),
    "budget of one page": (cached("streaming_llm", 16), INVALID, ["sink_tokens", "budget_tokens 16"]),
    "budget of 2^32 - 1": (cached("streaming_llm", 2**32 - 1), INVALID, ["budget_tokens 4294967295"]),
    "sink in between": (cached("paged_eviction", 64, sink=8), INVALID, ["sink_tokens 8", "0 or 16"]),
    "recent in between": (cached("paged_eviction", 64, recent=17), INVALID, ["recent_tokens 17", "16 or 32"]),
    "sink over budget": (cached("paged_eviction", 64, sink=64), INVALID, ["sink_tokens 64", "budget_tokens"]),
    "sink and recent wrap around": (
        cached("paged_eviction", 64, sink=2**32 - 16, recent=2**32 - 16),
        INVALID,
        ["sink_tokens", "budget_tokens"],
    ),
    "no policy of a kind": (generate(cache=types_pb2.CacheOptions(policy=types_pb2.Policy())), INVALID, ["kv_crush"]),
    "share above one": (with_policy("key_diff", 0, budget_share=1.5), INVALID, ["budget_share 1.5", "at most 1"]),
    "share below zero": (with_policy("key_diff", 0, budget_share=-1), INVALID, ["budget_share -1", "above 0"]),
    "share not a number": (with_policy("random", 0, budget_share=math.nan), INVALID, ["budget_share nan"]),
    "share and tokens": (with_policy("random", 64, budget_share=0.5), INVALID, ["budget_share", "give one"]),
    "one layer's budget": (with_policy("random", 0, layer_budget_tokens=[64]), INVALID, ["has 1 entries", "30 layers"]),
    "a layer without budget": (
        with_policy("random", 0, layer_budget_tokens=[64] * 29 + [0]),
        INVALID,
        ["layer_budget_tokens[29]", "missing"],
    ),
    "a layer's budget in between": (
        with_policy("key_diff", 0, layer_budget_tokens=[64] * 3 + [33] + [64] * 26),
        INVALID,
        ["layer_budget_tokens[3] 33", "32 or 48"],
    ),
    "layer budgets with full": (with_policy("full", 0, layer_budget_tokens=[64] * 30), INVALID, ["full", "leave it out"]),
    "unknown schedule": (with_policy("random", budget_schedule=9), INVALID, ["budget_schedule", "9"]),
    "window of nothing": (with_policy("snap_kv", policy=types_pb2.SnapKvPolicy(window=0)), INVALID, ["window 0"]),
    "window above the budget": (
        with_policy("snap_kv", 64, types_pb2.SnapKvPolicy(window=64)),
        INVALID,
        ["window 64", "= 80", "to 80"],
    ),
    "window above the chunk": (
        generate(
            input=tokens([5] * 1000),
            cache=types_pb2.CacheOptions(
                policy=types_pb2.Policy(snap_kv=types_pb2.SnapKvPolicy(window=600)), budget_tokens=960
            ),
        ),
        INVALID,
        ["window 600", "--prefill_chunk 512"],
    ),
    "crush share of one": (with_policy("kv_crush", policy=types_pb2.KvCrushPolicy(share=1)), INVALID, ["share 1", "below 1"]),
    "crush share below zero": (
        with_policy("kv_crush", policy=types_pb2.KvCrushPolicy(share=-0.1)),
        INVALID,
        ["kv_crush.share -0.1"],
    ),
    "crush representatives over budget": (
        with_policy("kv_crush", 64, types_pb2.KvCrushPolicy(share=0.75)),
        INVALID,
        ["representatives 48", "to 128"],
    ),
    "unknown anchor": (
        with_policy("kv_crush", policy=types_pb2.KvCrushPolicy(anchor=9)),
        INVALID,
        ["kv_crush.anchor", "unknown value 9"],
    ),
    "unknown eviction mode": (generate(cache=NO_MODE), INVALID, ["eviction_mode", "77"]),
    "score without input": (score(input=None), INVALID, ["input"]),
    "score without continuation": (score(continuation=None), INVALID, ["continuation"]),
    "score an empty text": (score(continuation=Input(text="")), INVALID, ["continuation", "empty"]),
    "score a chat": (score(continuation=chat(("user", "x"))), INVALID, ["continuation.chat"]),
    "score an unknown token": (score(continuation=tokens([VOCAB])), INVALID, ["continuation", "ids[0]"]),
    "score past the context": (score(continuation=tokens([5] * CONTEXT)), INVALID, ["continuation", "context"]),
    "score with too many candidates": (score(top_logprobs=21), INVALID, ["top_logprobs is 21"]),
    "score with a wrong budget": (score(cache=cache("paged_eviction", 33)), INVALID, ["budget_tokens 33"]),
    "tokenize nothing": (("Tokenize", inference_pb2.TokenizeRequest()), INVALID, ["input"]),
    "tokenize tokens": (("Tokenize", inference_pb2.TokenizeRequest(input=tokens([1]))), INVALID, ["input.tokens"]),
    "tokenize an empty chat": (("Tokenize", inference_pb2.TokenizeRequest(input=chat())), INVALID, ["chat.messages"]),
    "more tokens than the context": (generate(input=tokens([5] * (CONTEXT + 1))), INVALID, ["has 8193 tokens", "8192"]),
    "detokenize more than the context": (
        ("Detokenize", inference_pb2.DetokenizeRequest(ids=[5] * (CONTEXT + 1))),
        INVALID,
        ["ids has 8193 tokens", "context of 8192"],
    ),
    "detokenize an unknown token": (
        ("Detokenize", inference_pb2.DetokenizeRequest(ids=[1, 2, VOCAB])),
        INVALID,
        ["ids[2]", "49152"],
    ),
}


def outcome(call, *arguments):
    """Code and words of a call that must fail."""
    with pytest.raises(grpc.RpcError) as failure:
        result = call(*arguments, timeout=60)
        if hasattr(result, "__next__"):
            list(result)
    return failure.value.code().name, failure.value.details()


@pytest.mark.parametrize("name", REQUESTS)
def test_refused_by_code_and_words(nothing_lost, name):
    (method, request), code, words = REQUESTS[name]
    got, details = outcome(getattr(nothing_lost.stub, method), request)
    assert got == code, f"{got}: {details}"
    for word in words:
        assert word in details, f'"{word}" is not in "{details}"'


def test_there_are_enough_of_them():
    assert len(REQUESTS) >= 50


BYTES = {
    "no protocol buffer": b"\xff\xff\xff\xff\xff",
    "cut short": inference_pb2.GenerateRequest(input=TEXT).SerializeToString()[:-3],
    "text that is no UTF-8": b"\x0a\x04\x0a\x02\xff\xfe",
    "stop that is no UTF-8": b"\x0a\x03\x0a\x01a\x2a\x02\xc3\x28",
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_request(nothing_lost, name):
    channel = nothing_lost.channels[-1]
    call = channel.unary_stream(
        "/folio.v1.Inference/Generate", request_serializer=None, response_deserializer=None
    )
    code, _ = outcome(call, BYTES[name])
    # gRPC 1.51 refuses what does not parse before a callback service sees it, and has this code for that.
    assert code == "UNIMPLEMENTED"


def test_unknown_methods(nothing_lost):
    channel = nothing_lost.channels[-1]
    for method in ("/folio.v1.Inference/Translate", "/folio.v1.Admin/ListPools", "/x.Y/Z"):
        code, _ = outcome(channel.unary_unary(method), b"")
        assert code == "UNIMPLEMENTED", method


@pytest.mark.parametrize("sequence_id", [0, 1 << 40, 2**64 - 1])
def test_unknown_sequences(nothing_lost, sequence_id):
    code, details = outcome(nothing_lost.admin.GetSequence, admin_pb2.GetSequenceRequest(sequence_id=sequence_id))
    assert code == NOT_FOUND and str(sequence_id) in details
