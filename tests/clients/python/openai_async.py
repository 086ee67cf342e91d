"""openai: the asynchronous client, many requests at once, and requests that are given up."""

import asyncio

import openai
import pytest
from conftest import KEY, PATIENCE

SAMPLED = {"temperature": 0.8, "max_tokens": 8}
LONG = {"model": "", "prompt": "a", "max_tokens": 60_000, "extra_body": {"ignore_eos": True}}


def asking(server, **options):
    return openai.AsyncOpenAI(base_url=server.base, api_key=KEY, max_retries=0, **{"timeout": PATIENCE, **options})


def test_many_at_once_are_as_one_after_another(main, client, model):
    prompts = [f"{i} and {i + 1} and" for i in range(24)]
    expected = [client.completions.create(model=model, prompt=text, seed=i, **SAMPLED).choices[0].text
                for i, text in enumerate(prompts)]  # fmt: skip

    async def streamed(one, i, text):
        stream = await one.completions.create(model=model, prompt=text, seed=i, **SAMPLED, stream=True)
        return "".join([chunk.choices[0].text async for chunk in stream])

    async def all_of_them():
        async with asking(main) as one:
            whole = [one.completions.create(model=model, prompt=text, seed=i, **SAMPLED) for i, text in enumerate(prompts)]
            texts = [answer.choices[0].text for answer in await asyncio.gather(*whole)]
            return texts, await asyncio.gather(*[streamed(one, i, text) for i, text in enumerate(prompts)])

    assert asyncio.run(all_of_them()) == (expected, expected)


def test_the_stream_helper(main, model):
    async def gathered():
        async with asking(main) as one:
            messages = [{"role": "user", "content": "Say hi."}]
            async with one.chat.completions.stream(model=model, messages=messages, temperature=0, max_tokens=100) as stream:
                deltas = [event.delta async for event in stream if event.type == "content.delta"]
                return deltas, (await stream.get_final_completion()).choices[0].message.content

    deltas, text = asyncio.run(gathered())
    assert len(deltas) > 2 and "".join(deltas) == text


async def follow(stream):
    async for _ in stream:
        pass


@pytest.mark.parametrize("stream", [False, True])
def test_a_cancelled_task_ends_its_sequence(busy, stream):
    left = busy.metric("folio:gateway_clients_left_total")

    async def given_up():
        async with asking(busy) as one:
            asked = one.completions.create(**LONG, stream=stream)
            task = asyncio.create_task(follow(await asked) if stream else asked)
            # The metrics are asked for in another thread, so that the client gets its turns.
            while await asyncio.to_thread(busy.metric, "folio:gateway_requests_running") < 2:
                await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            await asyncio.to_thread(busy.until_idle)

    asyncio.run(given_up())
    assert busy.metric("folio:gateway_clients_left_total") == left + 1


def test_a_stream_that_is_closed_ends_its_sequence(busy):
    async def closed():
        async with asking(busy) as one:
            stream = await one.completions.create(**LONG, stream=True)
            async for chunk in stream:
                assert chunk.object == "text_completion"
                break
            await stream.close()
            await asyncio.to_thread(busy.until_idle)

    asyncio.run(closed())
