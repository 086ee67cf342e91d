"""folio-gateway says over HTTP what the worker says over gRPC: texts, streams, usage, log-probabilities."""

import urllib.parse

import folio
import pytest
from gateway import Gateway, events, text_of

CHAT = [{"role": "system", "content": "You answer in one word."}, {"role": "user", "content": "The capital of France?"}]
SAMPLED = {"temperature": 0.9, "top_p": 0.9, "seed": 11, "max_tokens": 24}


@pytest.fixture(scope="module")
def gateway(bfloat16):
    with Gateway(bfloat16) as gateway:
        gateway.node = bfloat16
        yield gateway
    bfloat16.assert_all_free()


@pytest.fixture(scope="module")
def sdk(gateway):
    with folio.Client(gateway.node.worker_address()) as client:
        yield client


def stream(gateway, path, **fields):
    answer = gateway.post(path, {**fields, "stream": True, "stream_options": {"include_usage": True}})
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    return events(answer.body)


def test_a_chat_is_that_of_the_sdk(gateway, sdk):
    expected = sdk.generate(chat=[(one["role"], one["content"]) for one in CHAT], **SAMPLED).result()
    answer = gateway.chat(messages=CHAT, **SAMPLED)
    assert answer.status == 200, answer.body
    whole = answer.json()
    assert whole["object"] == "chat.completion" and whole["id"].startswith("chatcmpl-")
    (choice,) = whole["choices"]
    assert choice["message"] == {"role": "assistant", "content": expected.text, "refusal": None}
    assert choice["finish_reason"] == ("length" if expected.finished.reason == "length" else "stop")
    assert whole["usage"]["completion_tokens"] == len(expected.tokens)
    assert whole["usage"]["total_tokens"] == whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"]
    assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    chunks = stream(gateway, "/v1/chat/completions", messages=CHAT, **SAMPLED)
    assert text_of(chunks) == expected.text
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == whole["usage"]
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-2]["choices"][0]["finish_reason"] == choice["finish_reason"]
    assert len({chunk["id"] for chunk in chunks}) == 1


@pytest.mark.parametrize("kind", ["text", "tokens"])
def test_a_completion_is_that_of_the_sdk(gateway, sdk, kind):
    text = "The ships sailed at dawn, and"
    expected = sdk.generate(text, **SAMPLED).result()
    prompt = text if kind == "text" else list(sdk.tokenize(text).ids)
    whole = gateway.complete(prompt=prompt, **SAMPLED).json()
    assert whole["object"] == "text_completion" and whole["choices"][0]["text"] == expected.text
    assert text_of(stream(gateway, "/v1/completions", prompt=prompt, **SAMPLED)) == expected.text


def test_prompts_and_choices_have_their_own_indices_and_seeds(gateway):
    prompts, sampled = ["One two three", "Red green blue"], {**SAMPLED, "max_tokens": 8}
    whole = gateway.complete(prompt=prompts, n=2, **sampled).json()
    texts = [choice["text"] for choice in whole["choices"]]
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2, 3]
    for prompt in (0, 1):
        for i in (0, 1):
            alone = gateway.complete(prompt=prompts[prompt], **{**sampled, "seed": 11 + i}).json()
            assert alone["choices"][0]["text"] == texts[2 * prompt + i]
    chunks = stream(gateway, "/v1/completions", prompt=prompts, n=2, **sampled)
    assert [text_of(chunks, index) for index in range(4)] == texts
    assert whole["usage"]["completion_tokens"] == chunks[-1]["usage"]["completion_tokens"] <= 32


def test_a_stop_string_ends_the_answer_and_is_named(gateway):
    asked = {"prompt": "1, 2, 3, 4, 5, 6, 7,", "temperature": 0, "max_tokens": 40}
    full = gateway.complete(**asked).json()["choices"][0]["text"]
    stop = full[6:8]
    (choice,) = gateway.complete(**asked, stop=[stop, "never said"]).json()["choices"]
    assert choice["text"] == full[: full.index(stop)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    assert text_of(stream(gateway, "/v1/completions", **asked, stop=stop)) == choice["text"]


def test_logprobs_of_a_chat(gateway):
    asked = {"messages": CHAT, "temperature": 0, "max_tokens": 6, "logprobs": True, "top_logprobs": 3}
    (choice,) = gateway.chat(**asked).json()["choices"]
    content = choice["logprobs"]["content"]
    assert "".join(one["token"] for one in content).startswith(choice["message"]["content"])
    for one in content:
        assert bytes(one["bytes"]).decode(errors="replace") == one["token"]
        assert len(one["top_logprobs"]) == 3 and one["logprob"] == one["top_logprobs"][0]["logprob"] <= 0
    chunks = stream(gateway, "/v1/chat/completions", **asked)
    parts = [choice["logprobs"]["content"] for chunk in chunks for choice in chunk["choices"] if choice["logprobs"]]
    assert sum(parts, []) == content
    # Without candidates the chosen tokens alone are shown, also those that are not the most likely.
    asked = {**asked, **SAMPLED, "temperature": 5, "top_logprobs": 0}
    content = gateway.chat(**asked).json()["choices"][0]["logprobs"]["content"]
    assert content and all(one["top_logprobs"] == [] and one["bytes"] for one in content)


def test_logprobs_of_a_completion(gateway):
    asked = {"prompt": "The sun rises in the", "temperature": 0, "max_tokens": 5, "logprobs": 2}
    (choice,) = gateway.complete(**asked).json()["choices"]
    logprobs = choice["logprobs"]
    assert "".join(logprobs["tokens"]) == choice["text"]
    assert [choice["text"][offset:].startswith(token) for offset, token in zip(logprobs["text_offset"], logprobs["tokens"])]
    for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
        assert top[token] == logprob and 2 <= len(top) <= 3
    chunks = [chunk for chunk in stream(gateway, "/v1/completions", **asked) if chunk["choices"]]
    parts = [chunk["choices"][0]["logprobs"] for chunk in chunks if chunk["choices"][0]["logprobs"]]
    for field in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert sum((part[field] for part in parts), []) == logprobs[field]


def test_the_cache_can_be_steered_and_is_reported(gateway):
    asked = {"prompt": "word " * 200, "max_tokens": 4, "temperature": 0}
    (choice,) = gateway.complete(**asked, cache={"policy": "streaming_llm", "budget": 64}).json()["choices"]
    assert choice["cache"]["policy"] == "streaming_llm" and choice["cache"]["budget_tokens"] == 64
    assert choice["cache"]["evicted_tokens"] > 100 and choice["cache"]["resident_tokens"] <= 64 + 32
    assert "cache" not in gateway.complete(**asked).json()["choices"][0]
    chunks = stream(gateway, "/v1/completions", **asked, cache={"policy": "key_diff", "budget": 0.5})
    assert chunks[-2]["choices"][0]["cache"]["policy"] == "key_diff"


def test_a_chat_without_a_length_may_use_the_whole_context(gateway):
    # The model would stop by itself, and 256 is the worker's default.
    answer = gateway.chat(messages=CHAT, temperature=0, stop=["France", "Paris", "."])
    assert answer.status == 200
    chunks = stream(gateway, "/v1/chat/completions", messages=[{"role": "user", "content": "Count from 1 to 300."}],
                    temperature=0, ignore_eos=True, max_completion_tokens=300)  # fmt: skip
    assert chunks[-1]["usage"]["completion_tokens"] == 300


def test_models_tokens_and_versions(gateway, sdk):
    (model,) = gateway.get("/v1/models").json()["data"]
    assert model["id"] == sdk.model().layout.model and model["max_model_len"] == sdk.model().context_length
    assert gateway.get(f"/v1/models/{urllib.parse.quote(model['id'])}").json() == model
    assert gateway.complete(model=model["id"], prompt="a", max_tokens=1).json()["model"] == model["id"]
    text = "Grüße, 世界 👋"
    tokens = gateway.post("/tokenize", {"prompt": text, "return_token_strs": True}).json()
    assert tokens["tokens"] == list(sdk.tokenize(text).ids) and tokens["count"] == len(tokens["tokens"])
    assert tokens["max_model_len"] == model["max_model_len"] and len(tokens["token_strs"]) == tokens["count"]
    assert gateway.post("/detokenize", {"tokens": tokens["tokens"]}).json() == {"prompt": text}
    chat = gateway.post("/tokenize", {"messages": CHAT}).json()
    assert chat["count"] == gateway.chat(messages=CHAT, max_tokens=1).json()["usage"]["prompt_tokens"]
    assert gateway.get("/version").json()["version"]
    refused = gateway.post("/v1/embeddings", {"input": "a"})
    assert refused.status == 404 and "/v1/embeddings is not supported" in refused.error()["message"]


def test_request_ids_come_back_and_reach_the_worker(gateway):
    answer = gateway.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, {"X-Request-Id": "mine-42"})
    assert answer.headers["x-request-id"] == "mine-42"
    gateway.node.workers["worker"].says("request_id=mine-42")
    gateway.process.says("request_id=mine-42")
    assert len(gateway.get("/health").headers["x-request-id"]) == 32
    assert gateway.get("/health", {"X-Request-Id": "no spaces"}).headers["x-request-id"] != "no spaces"


def test_metrics_count(gateway):
    before = gateway.metric("folio:gateway_generation_tokens_total")
    gateway.complete(prompt="a", max_tokens=7, ignore_eos=True)
    assert gateway.metric("folio:gateway_generation_tokens_total") == before + 7
    assert gateway.metric("folio:gateway_worker_serving") == 1
    assert gateway.metric("folio:gateway_time_to_first_token_seconds_count") > 0
