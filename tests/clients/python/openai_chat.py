"""openai: chats, streams, log-probabilities, forms of the answer, completions and models."""

import datetime
import enum
import time
from typing import Literal

import openai
import pydantic
import pytest

CHAT = [{"role": "system", "content": "You answer in one word."}, {"role": "user", "content": "The capital of France?"}]
GREEDY = {"temperature": 0, "max_tokens": 24}
SAMPLED = {"temperature": 0.9, "seed": 11, "max_tokens": 12}


def say(text):
    return [{"role": "user", "content": text}]


def test_the_model_is_listed_and_found(client, model):
    found = client.models.retrieve(model)
    assert found.id == model and found.object == "model" and found.owned_by == "folio"
    assert abs(found.created - time.time()) < 3600 and found.max_model_len == 8192
    assert [one.id for one in client.models.list()] == [model]


def test_a_chat(client, model):
    answer = client.chat.completions.create(model=model, messages=CHAT, **GREEDY)
    (choice,) = answer.choices
    assert choice.message.role == "assistant" and "Paris" in choice.message.content and choice.message.tool_calls is None
    assert choice.finish_reason in ("stop", "length") and answer.model == model and answer.object == "chat.completion"
    usage = answer.usage
    assert usage.prompt_tokens + usage.completion_tokens == usage.total_tokens and usage.prompt_tokens_details.cached_tokens == 0
    # The names of newer and older fields, parts of text, and the role that newer models have.
    parts = [{"role": "developer", "content": CHAT[0]["content"]},
             {"role": "user", "content": [{"type": "text", "text": CHAT[1]["content"]}]}]  # fmt: skip
    same = client.chat.completions.create(model=model, messages=parts, temperature=0, max_completion_tokens=24)
    assert same.choices[0].message == choice.message


def test_a_conversation_continues(client, model):
    first = client.chat.completions.create(model=model, messages=CHAT, **GREEDY).choices[0].message
    messages = [*CHAT, first, *say("And of Italy?")]  # the client writes its own answer object back
    longer = client.chat.completions.create(model=model, messages=messages, **GREEDY)
    assert longer.choices[0].message.content and longer.usage.prompt_tokens > 40


def test_a_stream_has_the_same_text(client, model):
    whole = client.chat.completions.create(model=model, messages=CHAT, **SAMPLED)
    chunks = list(client.chat.completions.create(model=model, messages=CHAT, **SAMPLED, stream=True,
                                                 stream_options={"include_usage": True}))  # fmt: skip
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant" and len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].usage == whole.usage and [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason


def test_the_stream_helper_gathers_the_answer(client, model):
    asked = {"model": model, "messages": say("Say hi."), "temperature": 0, "max_tokens": 100, "logprobs": True, "top_logprobs": 2}
    whole = client.chat.completions.create(**asked)
    assert whole.choices[0].finish_reason == "stop"
    with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done", "logprobs.content.delta", "logprobs.content.done"} <= set(kinds)
    assert final.choices[0].message.content == whole.choices[0].message.content and final.usage == whole.usage
    assert final.choices[0].logprobs.content == whole.choices[0].logprobs.content


def test_choices_and_logprobs(client, model):
    answer = client.chat.completions.create(model=model, messages=CHAT, **SAMPLED, n=3, logprobs=True, top_logprobs=4)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) > 1
    for choice in answer.choices:
        for token in choice.logprobs.content:
            assert bytes(token.bytes).decode(errors="replace") == token.token and token.logprob <= 0
            assert len(token.top_logprobs) == 4 and token.top_logprobs[0].logprob >= token.logprob
    chunks = client.chat.completions.create(model=model, messages=CHAT, **SAMPLED, n=3, stream=True)
    texts = ["", "", ""]
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in answer.choices]


class Kind(enum.StrEnum):
    CITY = "city"
    RIVER = "river"


class Size(pydantic.BaseModel):
    metres: int = pydantic.Field(ge=0, le=9)


class Place(pydantic.BaseModel):
    kind: Kind
    founded: datetime.date
    sizes: list[Size] = pydantic.Field(max_length=2)
    mayor: bool | None


def test_an_answer_is_parsed_into_a_class(client, model):
    asked = {"model": model, "messages": say("Describe Rome."), "response_format": Place, "temperature": 0, "max_tokens": 120}
    for parse in (client.chat.completions.parse, client.beta.chat.completions.parse):
        message = parse(**asked).choices[0].message
        assert isinstance(message.parsed, Place) and message.refusal is None
        assert Place.model_validate_json(message.content) == message.parsed
    with client.chat.completions.stream(**asked) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == message.parsed
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(**{**asked, "max_tokens": 3})


class Reasoned(pydantic.BaseModel):
    reasons: Literal["it is old"]
    answer: Literal["Rome"]


def test_properties_come_in_the_order_of_the_schema(client, model):
    asked = {"model": model, "messages": CHAT, "temperature": 0, "max_tokens": 60}
    tools = {"tools": [openai.pydantic_function_tool(Reasoned)], "tool_choice": "required"}
    parsed = client.chat.completions.parse(**asked, response_format=Reasoned).choices[0].message.content
    called = client.chat.completions.create(**asked, **tools).choices[0].message.tool_calls[0].function.arguments
    guided = client.chat.completions.create(**asked, extra_body={"guided_json": Reasoned.model_json_schema()})
    for text in (parsed, called, guided.choices[0].message.content):
        assert text.index("reasons") < text.index("answer"), text


def test_an_answer_is_any_object(client, model):
    for form in ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "any", "schema": {"type": "object"}}}):
        answer = client.chat.completions.create(model=model, messages=say("Describe Rome in JSON."), response_format=form, **GREEDY)
        assert answer.choices[0].message.content.lstrip().startswith("{")
    words = client.chat.completions.create(model=model, messages=CHAT, extra_body={"guided_choice": ["Rome", "Oslo"]}, **GREEDY)
    assert words.choices[0].message.content in ("Rome", "Oslo")


def test_completions(client, model):
    text = "The ships sailed at dawn, and"
    whole = client.completions.create(model=model, prompt=text, **GREEDY, logprobs=2)
    (choice,) = whole.choices
    assert whole.object == "text_completion" and "".join(choice.logprobs.tokens).startswith(choice.text)
    assert all(2 <= len(top) <= 3 for top in choice.logprobs.top_logprobs)
    assert len(choice.logprobs.text_offset) == len(choice.logprobs.token_logprobs) == whole.usage.completion_tokens
    stream = client.completions.create(model=model, prompt=text, **GREEDY, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == choice.text
    assert client.completions.create(model=model, prompt=text, temperature=0).usage.completion_tokens == 16  # OpenAI's default
    many = client.completions.create(model=model, prompt=[text, [1, 2, 3]], n=2, **SAMPLED)
    assert [choice.index for choice in many.choices] == [0, 1, 2, 3]
    stop = choice.text[8:10]
    ended = client.completions.create(model=model, prompt=text, **GREEDY, stop=[stop])
    assert ended.choices[0].text == choice.text[: choice.text.index(stop)] and ended.choices[0].finish_reason == "stop"


def test_options_of_the_cache_and_of_vllm(client, model):
    prompt = "word " * 300
    (choice,) = client.completions.create(
        model=model, prompt=prompt, max_tokens=4, temperature=0,
        extra_body={"cache": {"policy": "key_diff", "budget": 64}, "top_k": 3, "min_p": 0.1, "ignore_eos": True},
    ).choices  # fmt: skip
    assert choice.cache["policy"] == "key_diff" and choice.cache["budget_tokens"] == 64 and choice.cache["evicted_tokens"] > 100
    streamed = client.chat.completions.create(model=model, messages=say(prompt), max_tokens=4, stream=True,
                                              extra_body={"cache": {"policy": "streaming_llm", "budget": 0.5}})  # fmt: skip
    assert list(streamed)[-1].choices[0].cache["policy"] == "streaming_llm"


def test_the_id_of_a_request(client, model):
    raw = client.chat.completions.with_raw_response.create(model=model, messages=CHAT, max_tokens=1)
    assert raw.request_id and raw.request_id == raw.headers["x-request-id"] == raw.parse()._request_id
    mine = client.completions.create(model=model, prompt="a", max_tokens=1, extra_headers={"X-Request-Id": "mine-7"})
    assert mine._request_id == "mine-7"
    with client.chat.completions.with_streaming_response.create(model=model, messages=CHAT, max_tokens=3, stream=True) as raw:
        assert raw.request_id and list(raw.iter_lines())[-2:] == ["data: [DONE]", ""]


def test_fields_of_openai_that_mean_nothing_here_are_ignored(client, model):
    answer = client.chat.completions.create(
        model=model, messages=CHAT, **GREEDY, store=False, metadata={"a": "b"}, service_tier="auto", parallel_tool_calls=False,
        reasoning_effort="low", verbosity="low", safety_identifier="someone", modalities=["text"],
        prediction={"type": "content", "content": "Paris"}, stop=openai.omit, user="somebody", prompt_cache_key="mine",
    )  # fmt: skip
    assert "Paris" in answer.choices[0].message.content


def test_connections_are_kept(main, client, model):
    """The client's pool opens one connection for requests one after another."""
    with openai.DefaultHttpxClient() as counting:
        with openai.OpenAI(base_url=main.base, api_key=client.api_key, http_client=counting) as one:
            before = main.metric("folio:gateway_connections")
            for _ in range(5):
                one.completions.create(model=model, prompt="a", max_tokens=1)
                assert main.metric("folio:gateway_connections") <= before + 1
