"""openai: tools that the model calls, and their results on the way back."""

import json

import openai
import pydantic

SAVE = {"type": "function", "function": {
    "name": "save", "description": "Saves a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
                   "additionalProperties": False}}}  # fmt: skip
NOW = {"type": "function", "function": {"name": "now", "description": "The time."}}
ASKED = {"messages": [{"role": "user", "content": "Save the city of Rome."}], "temperature": 0, "max_tokens": 80}
NAMED = {"type": "function", "function": {"name": "save"}}


class City(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)


class Weather(pydantic.BaseModel):
    """The weather of cities. The schema has the class above as a part that it refers to."""

    cities: list[City] = pydantic.Field(min_length=1, max_length=2)
    days: int = pydantic.Field(ge=1, le=9)


def test_a_tool_is_called_and_its_result_goes_back(client, model):
    tools = [SAVE, NOW]
    for choice in (NAMED, "required"):
        messages = list(ASKED["messages"])
        answer = client.chat.completions.create(**{**ASKED, "model": model, "tools": tools, "tool_choice": choice})
        (one,) = answer.choices
        assert one.finish_reason == ("stop" if choice is NAMED else "tool_calls") and one.message.content is None
        (call,) = one.message.tool_calls
        assert call.id.startswith("call_") and call.type == "function"
        messages.append(one.message)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "saved"})
        after = client.chat.completions.create(model=model, messages=messages, tools=tools, temperature=0, max_tokens=20)
        assert after.choices[0].message.content and after.usage.prompt_tokens > answer.usage.prompt_tokens
        if choice == NAMED:
            assert call.function.name == "save" and json.loads(call.function.arguments).keys() == {"city"}


def test_a_tool_call_in_a_stream(client, model):
    for choice in (NAMED, "required"):
        asked = {**ASKED, "model": model, "tools": [SAVE], "tool_choice": choice}
        whole = client.chat.completions.create(**asked).choices[0].message.tool_calls[0].function
        pieces = [
            chunk.choices[0].delta.tool_calls[0]
            for chunk in client.chat.completions.create(**asked, stream=True)
            if chunk.choices[0].delta.tool_calls
        ]
        assert pieces[0].id and pieces[0].type == "function" and {piece.index for piece in pieces} == {0}
        assert "".join(piece.function.name or "" for piece in pieces) == whole.name == "save"
        assert "".join(piece.function.arguments or "" for piece in pieces) == whole.arguments


def test_arguments_are_parsed_into_a_class(client, model):
    asked = {"model": model, "messages": [{"role": "user", "content": "The weather of Rome in 3 days?"}], "temperature": 0,
             "max_tokens": 120, "tools": [openai.pydantic_function_tool(Weather)]}  # fmt: skip
    for choice in ("required", {"type": "function", "function": {"name": "Weather"}}):
        (call,) = client.chat.completions.parse(**asked, tool_choice=choice).choices[0].message.tool_calls
        assert isinstance(call.function.parsed_arguments, Weather) and call.function.name == "Weather"
        with client.chat.completions.stream(**asked, tool_choice=choice) as stream:
            kinds = {event.type for event in stream}
            (streamed,) = stream.get_final_completion().choices[0].message.tool_calls
        assert "tool_calls.function.arguments.done" in kinds
        assert streamed.function.parsed_arguments == call.function.parsed_arguments


def test_a_function_without_parameters_gets_no_arguments(client, model):
    for choice in ("required", {"type": "function", "function": {"name": "now"}}):
        answer = client.chat.completions.create(**{**ASKED, "model": model, "tools": [NOW], "tool_choice": choice})
        (call,) = answer.choices[0].message.tool_calls
        assert call.function.name == "now" and json.loads(call.function.arguments) == {}


def test_tools_may_be_offered_and_not_used(client, model):
    for choice in ("auto", "none", openai.omit):
        answer = client.chat.completions.create(**{**ASKED, "model": model, "tools": [SAVE], "tool_choice": choice})
        assert answer.choices[0].message.content and answer.choices[0].finish_reason in ("stop", "length")


def test_streamed_calls_have_all_logprobs(client, model):
    for choice in (NAMED, "required", "auto"):
        asked = {**ASKED, "model": model, "tools": [SAVE], "tool_choice": choice, "max_tokens": 30, "logprobs": True}
        whole = client.chat.completions.create(**asked)
        chunks = [chunk for chunk in client.chat.completions.create(**asked, stream=True) if chunk.choices[0].logprobs]
        pieces = [one.token for chunk in chunks for one in chunk.choices[0].logprobs.content]
        assert pieces == [one.token for one in whole.choices[0].logprobs.content] and len(pieces) == whole.usage.completion_tokens


def test_a_call_that_is_cut_off_has_what_has_come(client, model):
    for choice in (NAMED, "required"):
        asked = {**ASKED, "model": model, "tools": [SAVE], "tool_choice": choice}
        whole = client.chat.completions.create(**asked)
        cut = client.chat.completions.create(**{**asked, "max_tokens": whole.usage.completion_tokens - 3}).choices[0]
        (call,) = cut.message.tool_calls
        assert cut.finish_reason == "length" and call.function.name == "save" and cut.message.content is None
        before = whole.choices[0].message.tool_calls[0].function.arguments
        said, cut_off = before.replace(" ", ""), call.function.arguments.replace(" ", "")
        assert said.startswith(cut_off) and 0 < len(cut_off) < len(said)
