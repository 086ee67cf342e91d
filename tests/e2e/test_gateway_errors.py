"""Whatever a client sends to folio-gateway, it gets an error in OpenAI's form that names the field, and nothing is lost."""

import json
import socket
import time

import pytest
from gateway import Gateway

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "Hello"}]
DEEP = "[" * 100_000


@pytest.fixture(scope="module")
def gateway(tiny_cpu):
    flags = ["--max_body_bytes=64KiB", "--max_header_bytes=8KiB", "--header_timeout=1s", "--body_timeout=2s", "--idle_timeout=2s"]
    with Gateway(tiny_cpu, flags=flags) as gateway:
        yield gateway
        assert gateway.complete(prompt="still here", max_tokens=1).status == 200
    tiny_cpu.assert_all_free()


def chat(param, status=400, **fields):
    return CHAT, {"messages": HELLO, "max_tokens": 2, **fields}, status, param


def completion(param, status=400, **fields):
    return COMPLETIONS, {"prompt": "Hello", "max_tokens": 2, **fields}, status, param


def tool(**function):
    return [{"type": "function", "function": function}]


FIELDS = {
    "no messages": (CHAT, {}, 400, "messages"),
    "messages null": chat("messages", messages=None),
    "messages empty": chat("messages", messages=[]),
    "messages a string": chat("messages", messages="Hello"),
    "message a string": chat("messages[0]", messages=["Hello"]),
    "message without role": chat("messages[0].role", messages=[{"content": "a"}]),
    "message with role 5": chat("messages[1].role", messages=[*HELLO, {"role": 5, "content": "a"}]),
    "message without content": chat("messages[0].content", messages=[{"role": "user"}]),
    "message with content 5": chat("messages[0].content", messages=[{"role": "user", "content": 5}]),
    "part a string": chat("messages[0].content[0]", messages=[{"role": "user", "content": ["a"]}]),
    "part an image": chat("messages[0].content[0].type", messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]),
    "part without text": chat("messages[0].content[0].text", messages=[{"role": "user", "content": [{"type": "text"}]}]),
    "no prompt": (COMPLETIONS, {}, 400, "prompt"),
    "prompt empty": completion("prompt", prompt=""),
    "prompt an empty list": completion("prompt", prompt=[]),
    "prompt an object": completion("prompt", prompt={}),
    "prompt of mixed kinds": completion("prompt[1]", prompt=[1, "a"]),
    "prompt of a negative token": completion("prompt[1]", prompt=[1, -2]),
    "prompt of a fraction": completion("prompt[0]", prompt=[1.5]),
    "prompt of a token beyond the vocabulary": completion("prompt[0]", prompt=[299_999]),
    "prompts of one empty": completion("prompt[1]", prompt=["a", ""]),
    "too many prompts": completion("prompt", prompt=["a"] * 129),
    "body a list": (CHAT, [], 400, None),
    "body a string": (COMPLETIONS, json.dumps("a"), 400, None),
    "model a number": chat("model", model=5),
    "model unknown": chat("model", 404, model="gpt-4"),
    "max_tokens 0": chat("max_tokens", max_tokens=0),
    "max_tokens negative": completion("max_tokens", max_tokens=-1),
    "max_tokens a string": chat("max_tokens", max_tokens="5"),
    "max_tokens a fraction": chat("max_tokens", max_tokens=1.5),
    "max_tokens huge": completion("max_tokens", max_tokens=10**30),
    "max_tokens beyond the context": completion("max_tokens", max_tokens=100_000),
    "max_completion_tokens true": chat("max_completion_tokens", max_completion_tokens=True),
    "temperature a string": chat("temperature", temperature="hot"),
    "temperature negative": chat("temperature", temperature=-0.1),
    "temperature true": chat("temperature", temperature=True),
    "top_p 0": chat("top_p", top_p=0),
    "top_p above 1": completion("top_p", top_p=1.1),
    "top_k -2": chat("top_k", top_k=-2),
    "min_p above 1": chat("min_p", min_p=2),
    "seed a string": chat("seed", seed="x"),
    "n 0": chat("n", n=0),
    "n too large": completion("n", n=129),
    "n times prompts too large": completion("n", n=100, prompt=["a", "b"]),
    "presence_penalty 3": chat("presence_penalty", presence_penalty=3),
    "frequency_penalty a list": completion("frequency_penalty", frequency_penalty=[]),
    "repetition_penalty 0": chat("repetition_penalty", repetition_penalty=0),
    "logit_bias a list": chat("logit_bias", logit_bias=[]),
    "logit_bias of a word": chat("logit_bias", logit_bias={"word": 1}),
    "logit_bias too large": chat("logit_bias", logit_bias={"5": 101}),
    "stop a number": chat("stop", stop=5),
    "stop of numbers": completion("stop", stop=["a", 5]),
    "stop of too many": completion("stop", stop=["a"] * 17),
    "stop_token_ids a number": chat("stop_token_ids", stop_token_ids=5),
    "stop_token_ids of words": chat("stop_token_ids[1]", stop_token_ids=[1, "a"]),
    "min_tokens negative": chat("min_tokens", min_tokens=-1),
    "ignore_eos a string": chat("ignore_eos", ignore_eos="yes"),
    "stream a string": chat("stream", stream="true"),
    "stream_options without stream": chat("stream_options", stream_options={"include_usage": True}),
    "stream_options a list": chat("stream_options", stream=True, stream_options=[]),
    "include_usage a string": chat("stream_options.include_usage", stream=True, stream_options={"include_usage": "x"}),
    "logprobs of a chat a number": chat("logprobs", logprobs=5),
    "logprobs of a completion true": completion("logprobs", logprobs=True),
    "logprobs too many": completion("logprobs", logprobs=21),
    "top_logprobs without logprobs": chat("top_logprobs", top_logprobs=2),
    "top_logprobs too many": chat("top_logprobs", logprobs=True, top_logprobs=21),
    "priority too high": chat("priority", priority=101),
    "user a number": chat("user", user=5),
    "user too long": chat("user", user="u" * 300),
    "response_format a string": chat("response_format", response_format="json"),
    "response_format unknown": chat("response_format.type", response_format={"type": "xml"}),
    "json_schema without a schema": chat("response_format.json_schema", response_format={"type": "json_schema"}),
    "guided_json a number": chat("guided_json", guided_json=5),
    "guided_choice of numbers": completion("guided_choice", guided_choice=[1]),
    "guided_choice empty": completion("guided_choice", guided_choice=[]),
    "two formats": completion("guided_regex", guided_json={}, guided_regex="a"),
    "structured_outputs a list": chat("structured_outputs", structured_outputs=[]),
    "structured_outputs of a wrong type": chat("structured_outputs.regex", structured_outputs={"regex": 5}),
    "structured_outputs of tags": chat("structured_outputs.structural_tag", structured_outputs={"structural_tag": "{}"}),
    "no special tokens": completion("add_special_tokens", add_special_tokens=False),
    "echo": completion("echo", echo=True),
    "suffix": completion("suffix", suffix="end"),
    "best_of": completion("best_of", best_of=3),
    "prompt_logprobs": completion("prompt_logprobs", prompt_logprobs=1),
    "use_beam_search": completion("use_beam_search", use_beam_search=True),
    "functions": chat("functions", functions=[{"name": "f"}]),
    "continue_final_message": chat("continue_final_message", continue_final_message=True),
    "add_generation_prompt false": chat("add_generation_prompt", add_generation_prompt=False),
    "chat_template_kwargs a list": chat("chat_template_kwargs", chat_template_kwargs=[]),
    "tools a string": chat("tools", tools="f"),
    "tool a string": chat("tools[0]", tools=["f"]),
    "tool of another type": chat("tools[0].type", tools=[{"type": "web", "function": {"name": "f"}}]),
    "tool without a function": chat("tools[0].function", tools=[{"type": "function"}]),
    "tool without a name": chat("tools[0].function.name", tools=tool(description="f")),
    "tool with parameters 5": chat("tools[0].function.parameters", tools=tool(name="f", parameters=5)),
    "tool_choice without tools": chat("tool_choice", tool_choice="required"),
    "tool_choice unknown": chat("tool_choice", tools=tool(name="f"), tool_choice={"type": "function", "function": {"name": "g"}}),
    "tool_choice a number": chat("tool_choice", tools=tool(name="f"), tool_choice=5),
    "cache a string": chat("cache", cache="full"),
    "cache of an unknown field": chat("cache.bugdet", cache={"bugdet": 5}),
    "cache of an unknown policy": chat("cache.policy", cache={"policy": "magic", "budget": 64}),
    "cache with a budget of words": chat("cache.budget", cache={"policy": "key_diff", "budget": "much"}),
    "cache with a share above 1": chat("cache.budget", cache={"policy": "key_diff", "budget": 1.5}),
    "cache with layers of words": chat("cache.budget[0]", cache={"policy": "key_diff", "budget": ["a"]}),
    "cache with an unknown schedule": chat("cache.schedule", cache={"schedule": "steep"}),
    "cache with unknown layers": chat("cache.layers", cache={"layers": "none"}),
    "cache with a negative sink": chat("cache.sink_tokens", cache={"sink_tokens": -16}),
    "cache with a huge share": chat("cache.prompt_share", cache={"prompt_share": 2}),
    "tokenize nothing": ("/tokenize", {}, 400, "prompt"),
    "tokenize a number": ("/tokenize", {"prompt": 5}, 400, "prompt"),
    "tokenize without special tokens": ("/tokenize", {"prompt": "a", "add_special_tokens": False}, 400, "add_special_tokens"),
    "tokenize both": ("/tokenize", {"prompt": "a", "messages": HELLO}, 400, "prompt"),
    "detokenize nothing": ("/detokenize", {}, 400, "tokens"),
    "detokenize words": ("/detokenize", {"tokens": ["a"]}, 400, "tokens[0]"),
    "detokenize beyond the vocabulary": ("/detokenize", {"tokens": [5, 4_000_000]}, 400, "tokens[1]"),
}

BODIES = {
    "nothing": b"",
    "not JSON": b"hello",
    "half of it": b'{"prompt": "a',
    "two values": b"{} {}",
    "a trailing comma": b'{"prompt": "a",}',
    "not a number": b'{"prompt": "a", "temperature": NaN}',
    "a number beyond floats": b'{"prompt": "a", "temperature": 1e999}',
    "bad UTF-8": b'{"prompt": "\xff\xfe"}',
    "half a character": b'{"prompt": "\xe2\x82"}',
    "half a surrogate": b'{"prompt": "\\ud800"}',
    "a raw line break": b'{"prompt": "a\nb"}',
    "too deep": b'{"prompt": ' + b"[" * 200 + b"]" * 200 + b"}",
    "very deep": DEEP[:60_000].encode(),
}


@pytest.mark.parametrize("path, body, status, param", FIELDS.values(), ids=FIELDS)
def test_a_bad_field_is_named(gateway, path, body, status, param):
    answer = gateway.post(path, body)
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/json"
    error = answer.error()
    assert set(error) == {"message", "type", "param", "code"} and error["type"] == "invalid_request_error"
    assert error["param"] == param and error["message"], error


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_bad_body_is_refused(gateway, body):
    answer = gateway.post(COMPLETIONS, body)
    assert answer.status == 400 and answer.error()["type"] == "invalid_request_error"


def test_unknown_fields_and_nulls_are_ignored(gateway):
    answer = gateway.chat(messages=HELLO, max_tokens=2, store=True, metadata={"a": 1}, service_tier="auto", temperature=None,
                          stop=None, logit_bias=None, tools=None, n=None, frequency_penalty=0, echo=False, suffix=None)  # fmt: skip
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("method, path, status", [
    ("GET", CHAT, 405), ("PUT", COMPLETIONS, 405), ("POST", "/health", 405), ("DELETE", "/v1/models", 405),
    ("GET", "/", 404), ("POST", "/v1/chat", 404), ("GET", "/v1/models/none", 404), ("POST", "/v1/embeddings", 404),
    ("POST", "/v1/audio/speech", 404), ("GET", "/%2e%2e/etc/passwd", 404),
])  # fmt: skip
def test_paths_and_methods(gateway, method, path, status):
    answer = gateway.ask(method, path, b"{}" if method in ("POST", "PUT") else None)
    assert answer.status == status and answer.error()["message"]
    assert (answer.headers["Allow"] is not None) == (status == 405)


def raw(gateway, *pieces, pause=0.0, ends=False):
    """The answer to bytes as they are, up to the end of the connection."""
    with gateway.socket() as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
            return answer
        except (BrokenPipeError, ConnectionResetError):
            return answer if "answer" in locals() else b""


def head(*lines, path=COMPLETIONS):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


MALFORMED = {
    "not HTTP": ([b"hello there\r\n\r\n"], 400),
    "TLS": ([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)], 400),
    "HTTP/2": ([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], 505),
    "HTTP/3.0": ([b"GET /health HTTP/3.0\r\nHost: x\r\n\r\n"], 505),
    "no host": ([b"GET /health HTTP/1.1\r\n\r\n"], 400),
    "two hosts": ([b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"], 400),
    "a space in a name": ([b"GET /health HTTP/1.1\r\nHost: x\r\nBad Name: y\r\n\r\n"], 400),
    "a length that is no number": ([head("Content-Length: many")], 400),
    "a negative length": ([head("Content-Length: -1")], 400),
    "two lengths": ([head("Content-Length: 2", "Content-Length: 3") + b"{}"], 400),
    "length and chunks": ([head("Content-Length: 2", "Transfer-Encoding: chunked") + b"0\r\n\r\n"], 400),
    "an unknown coding": ([head("Transfer-Encoding: gzip")], 501),
    "a compressed body": ([head("Content-Encoding: gzip", "Content-Length: 2") + b"{}"], 415),
    "a chunk that is no number": ([head("Transfer-Encoding: chunked") + b"zz\r\n{}\r\n0\r\n\r\n"], 400),
    "a header too large": ([b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 10_000 + b"\r\n\r\n"], 431),
    "a line too long": ([b"GET /" + b"y" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"], 431),
    "a body too large": ([head("Content-Length: 70000") + b"x" * 70_000], 413),
    "a body too large to begin": ([head("Content-Length: 99999999999")], 413),
    "chunks too large": ([head("Transfer-Encoding: chunked") + b"11170\r\n" + b"x" * 70_000 + b"\r\n0\r\n\r\n"], 413),
    "expects a body too large": ([head("Content-Length: 70000", "Expect: 100-continue")], 413),
    "a header that does not end": ([b"GET /health HTTP/1.1\r\nHost: x\r\n"], 408),
    "a body that does not come": ([head("Content-Length: 20")], 408),
    "chunks that do not end": ([head("Transfer-Encoding: chunked") + b"2\r\n{}\r\n"], 408),
}  # fmt: skip


@pytest.mark.parametrize("pieces, status", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests_end_the_connection(gateway, pieces, status):
    answer = raw(gateway, *pieces)
    line, _, rest = answer.partition(b"\r\n")
    assert line.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    assert b"Connection: close" in rest and json.loads(rest.partition(b"\r\n\r\n")[2])["error"]["message"]


def test_a_slow_header_has_its_time_and_no_more(gateway):
    begin = time.monotonic()
    answer = raw(gateway, *[b"G", b"E", b"T", b" ", b"/", b"h", b"e", b"a", b"l"], pause=0.3)
    assert time.monotonic() - begin < 30 and (b" 408 " in answer or answer == b"")


def test_idle_connections_are_closed(gateway):
    assert raw(gateway) == b""


def test_a_half_closed_connection_gets_what_is_ready(gateway):
    assert raw(gateway, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", ends=True).startswith(b"HTTP/1.1 200 ")
    # A client that has closed half of the connection has left, and its request is cancelled. It is long enough for that to be noticed.
    body = json.dumps({"prompt": "a", "max_tokens": 2000, "ignore_eos": True}).encode()
    assert raw(gateway, head(f"Content-Length: {len(body)}") + body, ends=True) == b""
    assert raw(gateway, head("Content-Length: 50") + b"{", ends=True) == b""


def test_requests_in_pieces_and_in_a_row(gateway):
    health = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET http://x/version?a=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = raw(gateway, b"\r\n" + health + health, last)
    assert answer.count(b"HTTP/1.1 200 OK") == 3
    body = b'{"prompt": "a", "max_tokens": 1}'
    pieces = [head("Transfer-Encoding: chunked", "Connection: close")]
    pieces += [b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:])] + [b"0\r\n\r\n"]
    assert raw(gateway, *pieces, pause=0.05).startswith(b"HTTP/1.1 200 OK")
    continued = raw(gateway, head(f"Content-Length: {len(body)}", "Expect: 100-continue", "Connection: close"), body, pause=0.2)
    assert continued.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


def test_http_1_0_streams_until_the_connection_ends(gateway):
    body = json.dumps({"prompt": "a", "max_tokens": 3, "stream": True}).encode()
    request = f"POST {COMPLETIONS} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    answer = raw(gateway, request)
    assert b"Transfer-Encoding" not in answer and answer.endswith(b"data: [DONE]\n\n")


def test_head_has_no_body(gateway):
    answer = gateway.ask("HEAD", "/v1/models")
    assert answer.status == 200 and answer.body == b"" and int(answer.headers["Content-Length"]) > 0
