"""folio-gateway as a process, and plain HTTP to it."""

import http.client
import json
import re
import socket

from node import PATIENCE, Process, wait_until


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def error(self):
        return self.json()["error"]


def events(body):
    """The chunks of a stream, without its end."""
    pieces = body.decode().split("\n\n")
    assert pieces[-2:] == ["data: [DONE]", ""], pieces[-3:]
    assert all(piece.startswith("data: ") for piece in pieces[:-1])
    return [json.loads(piece.removeprefix("data: ")) for piece in pieces[:-2]]


def text_of(chunks, index=0):
    """The text of a choice in the chunks of a stream."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" if "delta" in choice else choice["text"] for choice in choices)


class Gateway:
    """Serves the workers of a node at a port of its own. It ends with the `with` block."""

    def __init__(self, node, *workers, flags=(), wait=True):
        listen = [] if any(flag.startswith("--listen=") for flag in flags) else ["--listen=127.0.0.1:0"]
        self.process = Process(
            "folio-gateway",
            [*listen, *(f"--worker={node.worker_address(name)}" for name in workers or ["worker"]),
             "--health_interval=100ms", *flags],
            node.path / "gateway.log",
        )  # fmt: skip
        self.process.says("listening address=127.0.0.1:")
        self.port = int(re.search(r"listening address=127\.0\.0\.1:(\d+)", self.process.words())[1])
        if wait:
            self.until_serving()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.process.stop()
            assert self.process.popen.returncode == 0, self.process.words()
        finally:
            self.process.popen.kill()
            self.process.wait()

    def until_serving(self):
        wait_until(lambda: self.get("/health").status == 200, PATIENCE, "the gateway serves")

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def socket(self, timeout=PATIENCE):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def ask(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.ask("GET", path, headers=headers)

    def post(self, path, body, headers=None):
        return self.ask("POST", path, body, {"Content-Type": "application/json", **(headers or {})})

    def chat(self, **fields):
        return self.post("/v1/chat/completions", fields)

    def complete(self, **fields):
        return self.post("/v1/completions", fields)

    def open(self, path, body):
        """(connection, response) of a stream that begins."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def metric(self, name):
        """The sum of the metric over its labels."""
        lines = self.get("/metrics").body.decode().splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}[{{ ]", line)]
        assert values, f"no metric {name}"
        return sum(values)
