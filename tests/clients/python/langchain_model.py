"""LangChain's ChatOpenAI and OpenAI: answers, streams, tools, structured output and batches."""

import asyncio

import pydantic
import pytest
from conftest import KEY
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI

QUESTION = [SystemMessage("You answer in one word."), HumanMessage("The capital of France?")]
ASKED = []


class City(pydantic.BaseModel):
    """A city and its size."""

    name: str = pydantic.Field(max_length=20)
    people: int = pydantic.Field(ge=1, le=9999)


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    ASKED.append(city)
    return "It is sunny."


@pytest.fixture(scope="module")
def loop():
    """LangChain keeps its connections for as long as the program runs, so one loop runs all that is asynchronous."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def chat(main, model):
    def of(**options):
        return ChatOpenAI(base_url=main.base, api_key=KEY, model=model, **{"temperature": 0, "max_tokens": 80, **options})

    return of


def test_an_answer_and_its_usage(chat, model):
    answer = chat().invoke(QUESTION)
    assert "Paris" in answer.content and answer.response_metadata["finish_reason"] in ("stop", "length")
    assert answer.response_metadata["model_name"] == model
    usage = answer.usage_metadata
    assert usage["input_tokens"] + usage["output_tokens"] == usage["total_tokens"] and usage["input_token_details"] == {"cache_read": 0}


def test_a_stream(chat, loop):
    chunks = list(chat(stream_usage=True).stream(QUESTION))
    whole = sum(chunks[1:], chunks[0])
    assert len(chunks) > 3 and whole.content == chat().invoke(QUESTION).content
    assert whole.usage_metadata["output_tokens"] > 0

    async def streamed():
        return [chunk.content async for chunk in chat().astream(QUESTION)]

    assert "".join(loop.run(streamed())) == whole.content


def test_a_chain(chat):
    prompt = ChatPromptTemplate.from_messages([("system", "You answer in one word."), ("user", "The capital of {country}?")])
    chain = prompt | chat() | StrOutputParser()
    assert "Paris" in chain.invoke({"country": "France"})


def test_a_batch_is_as_one_after_another(chat, loop):
    questions = [f"What is {i} and {i}?" for i in range(12)]
    short = chat(max_tokens=8)
    expected = [short.invoke(question).content for question in questions]
    assert [answer.content for answer in loop.run(short.abatch(questions))] == expected
    assert [answer.content for answer in short.batch(questions)] == expected


@pytest.mark.parametrize("choice", ["any", "required", "weather", "strict"])
def test_a_tool_is_called_and_its_result_goes_back(chat, choice):
    strict = {"strict": True, "parallel_tool_calls": False, "tool_choice": "weather"}
    bound = chat().bind_tools([weather], **(strict if choice == "strict" else {"tool_choice": choice}))
    messages = [HumanMessage("How is the weather in Rome?")]
    answer = bound.invoke(messages)
    (call,) = answer.tool_calls
    assert call["name"] == "weather" and call["args"].keys() == {"city"} and not answer.invalid_tool_calls
    result = weather.invoke(call)
    assert result.tool_call_id == call["id"] and ASKED[-1] == call["args"]["city"]
    after = chat(max_tokens=20).bind_tools([weather]).invoke([*messages, answer, result])
    assert after.content and not after.tool_calls


def test_a_tool_call_in_a_stream(chat):
    for choice in ("weather", "any"):
        bound = chat().bind_tools([weather], tool_choice=choice)
        chunks = list(bound.stream("How is the weather in Rome?"))
        whole = sum(chunks[1:], chunks[0])
        (call,) = whole.tool_calls
        assert call["name"] == "weather" and call["args"] == bound.invoke("How is the weather in Rome?").tool_calls[0]["args"]


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(chat, method):
    bound = chat().with_structured_output(City, method=method, include_raw=True)
    answer = bound.invoke("Name a city.")
    assert isinstance(answer["parsed"], City) and answer["parsing_error"] is None
    assert answer["raw"].response_metadata["finish_reason"] in ("stop", "tool_calls")


def test_other_fields_reach_the_gateway(chat):
    answer = chat(max_tokens=3, logprobs=True, top_logprobs=2).invoke(QUESTION)
    tokens = answer.response_metadata["logprobs"]["content"]
    assert len(tokens) >= 2 and all(len(token["top_logprobs"]) == 2 for token in tokens)
    many = chat(max_tokens=4, n=3, temperature=1, seed=3).generate([QUESTION])
    assert len(many.generations[0]) == 3 and many.llm_output["token_usage"]["completion_tokens"] > 3
    steered = chat(max_tokens=3, extra_body={"cache": {"policy": "key_diff", "budget": 64}}).invoke(QUESTION)
    assert steered.content


def test_completions(main, model):
    options = {"base_url": main.base, "api_key": KEY, "model": model, "temperature": 0, "max_tokens": 8}
    texts = OpenAI(**options).batch(["One two three", "Red green blue"])
    assert len(texts) == 2 and all(texts)
    assert "".join(OpenAI(**options).stream("One two three")) == texts[0]
