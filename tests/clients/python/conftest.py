"""Where to ask, and the client that does. It runs in the clients' environments, where nothing else of Folio is."""

import os
import re
import time
import urllib.request

import pytest

KEY = os.environ.get("FOLIO_KEY", "")
PATIENCE = 60


class Server:
    """A gateway, by the name of the variable that has its address."""

    def __init__(self, name):
        self.url = os.environ[f"FOLIO_{name}"]
        self.base = f"{self.url}/v1"

    def metric(self, name):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}[{{ ]", line))

    def until(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
            time.sleep(0.02)

    def until_idle(self):
        """The request for the metrics is the only one."""
        self.until(lambda: self.metric("folio:gateway_requests_running") == 1, "nothing else runs")


@pytest.fixture(scope="session")
def main():
    return Server("MAIN")


@pytest.fixture
def busy():
    server = Server("BUSY")
    server.until_idle()
    yield server
    server.until_idle()


@pytest.fixture(scope="session")
def empty():
    return Server("EMPTY")


@pytest.fixture(scope="session")
def client(main):
    import openai

    with openai.OpenAI(base_url=main.base, api_key=KEY, max_retries=0, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="session")
def model(client):
    (model,) = client.models.list().data
    return model.id
