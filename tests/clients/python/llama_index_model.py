"""LlamaIndex's OpenAILike: answers, streams, tools and classes. It brings an older major version of the openai client."""

import asyncio

import openai
import pydantic
import pytest
from conftest import KEY
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

QUESTION = [ChatMessage(role="system", content="You answer in one word."), ChatMessage(role="user", content="The capital of France?")]


class City(pydantic.BaseModel):
    """A city and its size."""

    name: str = pydantic.Field(max_length=20)
    people: int = pydantic.Field(ge=1, le=9999)


@pytest.fixture
def like(main, model):
    def of(**options):
        kind = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 8192, "temperature": 0, "max_tokens": 80}
        return OpenAILike(model=model, api_base=main.base, api_key=KEY, **{**kind, **options})

    return of


def test_the_client_is_an_older_one():
    assert int(openai.__version__.split(".")[0]) < 3


def test_chats(like):
    answer = like().chat(QUESTION)
    assert "Paris" in answer.message.content and answer.raw.usage.completion_tokens > 0
    assert "".join(piece.delta for piece in like().stream_chat(QUESTION)) == answer.message.content
    assert "Paris" in like().complete("What is the capital of France?").text


def test_completions(like):
    plain = like(is_chat_model=False, is_function_calling_model=False, max_tokens=8)
    whole = plain.complete("One two three").text
    assert whole and "".join(piece.delta for piece in plain.stream_complete("One two three")) == whole


def test_many_at_once(like):
    short = like(max_tokens=8)
    questions = [f"What is {i} and {i}?" for i in range(8)]

    async def asked():
        return await asyncio.gather(*[short.acomplete(question) for question in questions])

    assert [answer.text for answer in asyncio.run(asked())] == [short.complete(question).text for question in questions]


def test_tools(like):
    asked = []

    def weather(city: str) -> str:
        """The weather of a city."""
        asked.append(city)
        return "sunny"

    tool = FunctionTool.from_defaults(weather)
    (call,) = like().get_tool_calls_from_response(like().chat_with_tools([tool], "How is the weather in Rome?", tool_required=True))
    assert call.tool_name == "weather" and call.tool_kwargs.keys() == {"city"}
    assert like().predict_and_call([tool], "How is the weather in Rome?", tool_required=True).response == "sunny"
    assert asked == [call.tool_kwargs["city"]]


@pytest.mark.parametrize("structured", [False, True])
def test_an_answer_becomes_a_class(like, structured):
    answer = like(should_use_structured_outputs=structured).as_structured_llm(City).complete("Name a city.")
    assert isinstance(answer.raw, City)
