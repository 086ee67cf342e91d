"""What docs/gateway.md shows, as a reader of it would do it: with curl, and with the openai client."""

import json
import os
import re

import pytest
from gateway import Gateway, events, text_of
from installed import ROOT, run

PAGE = (ROOT / "docs/gateway.md").read_text()
KEY = re.compile(r"^key=.*>> keys$", re.M)


def block(begin):
    """The one fenced block of the page that begins so."""
    (found,) = re.findall(rf"^```\w*\n({re.escape(begin)}.*?)^```$", PAGE, re.M | re.S)
    return found


def shell(command, gateway, *options, **rest):
    """The answer of a command of the page, at our port. `options` are further ones of curl."""
    assert command.count("localhost:8000") == 1
    here = command.replace("localhost:8000", f"127.0.0.1:{gateway.port}").replace("curl ", f"curl -sS {' '.join(options)} ", 1)
    return run("bash", "-euc", here, **rest)


def briefly(text, before, after):
    """The text of the page with a limit of the answer, which would take a minute or more without one."""
    assert text.count(before) == 1
    return text.replace(before, before + after)


def test_curl_gets_a_stream(open_gateway):
    command = briefly(block("curl localhost:8000/v1/chat/completions"), '"stream": true', ', "max_tokens": 60')
    chunks = events(shell(command, open_gateway, "-N").encode())
    assert text_of(chunks).strip() and chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")


def test_curl_gets_an_error(open_gateway):
    command = "curl localhost:8000/v1/completions -d '{\"prompt\": 5}'"
    said = shell(command, open_gateway, "-w", "'\\n%{http_code} %{header_json}'")
    body, status = said.split("\n", 1)
    assert json.loads(body)["error"]["param"] == "prompt" and status.startswith("400 ")
    assert json.loads(status[4:])["content-type"] == ["application/json"]


@pytest.mark.parametrize("options", ["--http1.0", "--compressed", "-H 'Expect: 100-continue'", "-H 'Transfer-Encoding: chunked'"])
def test_curl_asks_in_other_ways(open_gateway, options):
    body = json.dumps({"prompt": "word " * 300, "max_tokens": 1})
    said = shell("curl localhost:8000/v1/completions --data-binary @-", open_gateway, options, input=body)
    assert json.loads(said)["usage"]["completion_tokens"] == 1


def test_curl_gives_a_key_that_was_made_as_shown(reference, tmp_path):
    (command,) = KEY.findall(PAGE)
    key = run("bash", "-euc", f"{command}; echo $key", cwd=tmp_path).strip()
    with Gateway(reference, flags=[f"--api_keys={tmp_path}/keys"]) as gateway:
        models = "curl localhost:8000/v1/models"
        assert "data" in json.loads(shell(models, gateway, "-H", f"'Authorization: Bearer {key}'"))
        assert json.loads(shell(models, gateway))["error"]["code"] == "invalid_api_key"


def test_the_python_lines(open_gateway, python):
    lines = briefly(block("client = openai.OpenAI"), 'model=""', ", max_tokens=60")
    lines = lines.replace("localhost:8000", f"127.0.0.1:{open_gateway.port}")
    code = f"import openai\n{lines.replace('client.chat.completions', 'answer = client.chat.completions')}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    assert run(python, "-c", f"{code}print(answer.choices[0].message.content)", env=clean).strip()
