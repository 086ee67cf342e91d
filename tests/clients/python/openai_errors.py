"""openai: each error is the exception that the client has for it, and the client tries again when it may."""

import threading
import time

import openai
import pytest
from conftest import KEY

HELLO = [{"role": "user", "content": "Hello"}]
LONG = {"model": "", "prompt": "a", "max_tokens": 60_000, "extra_body": {"ignore_eos": True}}


def asking(server, **options):
    return openai.OpenAI(base_url=server.base, **{"api_key": KEY, "max_retries": 0, "timeout": 60, **options})


@pytest.mark.parametrize("key", ["sk-wrong", "x"])
def test_a_wrong_key(main, key):
    for ask in (lambda one: one.models.list(), lambda one: one.chat.completions.create(model="", messages=HELLO)):
        with asking(main, api_key=key) as one, pytest.raises(openai.AuthenticationError) as caught:
            ask(one)
        assert (caught.value.status_code, caught.value.code) == (401, "invalid_api_key")


def test_a_model_that_is_not_there(client):
    asks = [lambda: client.models.retrieve("gpt-4o"), lambda: client.chat.completions.create(model="gpt-4o", messages=HELLO),
            lambda: client.completions.create(model="gpt-4o", prompt="a")]  # fmt: skip
    for ask in asks:
        with pytest.raises(openai.NotFoundError) as caught:
            ask()
        error = caught.value
        assert (error.status_code, error.code, error.param) == (404, "model_not_found", "model")
        assert "gpt-4o" in error.message and error.request_id


@pytest.mark.parametrize("fields, param", [
    ({"temperature": -1}, "temperature"), ({"top_p": 2}, "top_p"), ({"n": 0}, "n"), ({"max_tokens": 0}, "max_tokens"),
    ({"messages": []}, "messages"), ({"messages": [{"role": "user"}]}, "messages[0].content"), ({"top_logprobs": 2}, "top_logprobs"),
    ({"response_format": {"type": "xml"}}, "response_format.type"), ({"tool_choice": "required"}, "tool_choice"),
    ({"extra_body": {"cache": {"policy": "magic", "budget": 1}}}, "cache.policy"), ({"max_tokens": 9000}, "max_tokens"),
    ({"audio": {"voice": "alloy", "format": "wav"}, "modalities": ["text", "audio"]}, "audio"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]}, "messages[0].content[0].type"),
])  # fmt: skip
def test_a_wrong_field(client, model, fields, param):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**{"model": model, "messages": HELLO, "stream": stream, **fields})
        error = caught.value
        assert (error.status_code, error.type, error.param) == (400, "invalid_request_error", param)
        assert error.body["message"] and error.request_id


def test_a_prompt_that_is_too_long(client, model):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "word " * 9000}])
    assert "8192" in caught.value.message


def test_endpoints_of_other_models(client, model):
    asks = [lambda: client.embeddings.create(model=model, input="a"), lambda: client.responses.create(model=model, input="a"),
            lambda: client.moderations.create(input="a"), lambda: client.images.generate(prompt="a")]  # fmt: skip
    for ask in asks:
        with pytest.raises(openai.NotFoundError) as caught:
            ask()
        assert caught.value.code == "unsupported_endpoint" and "/v1/chat/completions" in caught.value.message


def begins_and_ends(one):
    """A stream that is closed as soon as it begins, which is when it leaves the queue."""
    one.completions.create(**LONG, stream=True).close()


def test_a_queue_that_is_full(busy):
    with asking(busy) as one, asking(busy) as other:
        first = one.completions.create(**LONG, stream=True)
        second = threading.Thread(target=begins_and_ends, args=[other])
        second.start()
        busy.until(lambda: busy.metric("folio:gateway_requests_running") == 3, "one runs and one waits")
        with pytest.raises(openai.RateLimitError) as caught:
            one.completions.create(model="", prompt="a", max_tokens=1)
        assert caught.value.status_code == 429 and caught.value.type == "rate_limit_error"
        assert int(caught.value.response.headers["retry-after"]) >= 1

        # A client that may try again waits for as long as the gateway says, and then has its answer.
        refusals = []

        def hear(response):
            if response.status_code == 429:
                refusals.append(time.monotonic())
                first.close()

        with openai.DefaultHttpxClient(event_hooks={"response": [hear]}) as http:
            trying = asking(busy, max_retries=8, http_client=http)
            answer = trying.completions.create(model="", prompt="a", max_tokens=1)
        assert answer.usage.completion_tokens == 1 and refusals and time.monotonic() - refusals[0] > 0.9
        second.join()


def test_no_worker_serves(empty):
    with asking(empty) as one, pytest.raises(openai.InternalServerError) as caught:
        one.chat.completions.create(model="", messages=HELLO)
    assert caught.value.status_code == 503 and caught.value.type == "service_unavailable_error"
    assert caught.value.response.headers["retry-after"] == "1"
    with asking(empty, max_retries=1) as one, pytest.raises(openai.InternalServerError):
        begin = time.monotonic()
        one.chat.completions.create(model="", messages=HELLO)
    assert time.monotonic() - begin > 0.9


def test_a_timeout_ends_the_sequence(busy):
    left = busy.metric("folio:gateway_clients_left_total")
    with asking(busy, timeout=0.7) as one:
        with pytest.raises(openai.APITimeoutError):
            one.completions.create(**LONG)
        busy.until(lambda: busy.metric("folio:gateway_clients_left_total") == left + 1, "the gateway has seen it")
        busy.until_idle()
