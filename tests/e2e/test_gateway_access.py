"""Who may ask folio-gateway, and how: API keys and tenants, TLS, browsers, connections."""

import hashlib
import http.client
import json
import socket
import ssl
import subprocess
import time

import pytest
from certificates import Authority
from gateway import Gateway
from node import BIN, PATIENCE, wait_until


def line(key, tenant):
    return f"{hashlib.sha256(key.encode()).hexdigest()} {tenant}\n"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def asking(gateway, headers=None):
    return gateway.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, headers)


def test_keys_have_tenants_and_can_be_changed(tiny_cpu, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# of the house\n\n" + line("sk-red", "red") + line("sk-blue", "blue"))
    with Gateway(tiny_cpu, flags=[f"--api_keys={keys}"]) as gateway:
        for headers in ({}, bearer("sk-green"), bearer(""), {"Authorization": "Basic sk-red"}, bearer("sk-re"), bearer("sk-redd")):
            answer = asking(gateway, headers)
            assert answer.status == 401 and answer.error()["code"] == "invalid_api_key", headers
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        for path in ("/health", "/metrics", "/version"):
            assert gateway.get(path).status == 200
        assert gateway.get("/v1/models").status == 401 and gateway.post("/tokenize", {"prompt": "a"}).status == 401
        assert asking(gateway, bearer("sk-red")).status == 200
        assert gateway.get("/v1/models", {"authorization": "bearer sk-blue"}).status == 200
        gateway.process.says("tenant=red")
        tiny_cpu.workers["worker"].says("tenant=red")
        # A wrong file changes nothing, and a right one counts soon.
        keys.write_text("nonsense\n")
        time.sleep(1.1)
        assert asking(gateway, bearer("sk-red")).status == 200
        gateway.process.says("API keys are wrong")
        keys.write_text(line("sk-green", "green"))
        wait_until(lambda: asking(gateway, bearer("sk-green")).status == 200, PATIENCE, "the new key counts")
        assert asking(gateway, bearer("sk-red")).status == 401


def test_tls(tiny_cpu, tmp_path):
    house, clients = Authority(tmp_path, "house"), Authority(tmp_path, "clients")
    server, client = house.issue("server"), clients.issue("client")
    context = ssl.create_default_context(cafile=house.ca)

    def ask(gateway, context, **fields):
        connection = http.client.HTTPSConnection("localhost", gateway.port, timeout=PATIENCE, context=context)
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 200, "ignore_eos": True, **fields}))
        body = connection.getresponse().read()
        connection.close()
        return body

    with Gateway(tiny_cpu, flags=server.server_flags(), wait=False) as gateway:
        gateway.process.says("worker serves")
        assert json.loads(ask(gateway, context))["usage"]["completion_tokens"] == 200
        assert ask(gateway, context, stream=True).endswith(b"data: [DONE]\n\n")
        with context.wrap_socket(gateway.socket(), server_hostname="localhost", suppress_ragged_eofs=False) as raw:
            raw.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = b""
            while piece := raw.recv(1000):  # an end without a farewell is an error
                answer += piece
            assert answer.startswith(b"HTTP/1.1 200")
        with gateway.socket() as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")
    with Gateway(tiny_cpu, flags=server.server_flags(clients.ca), wait=False) as gateway:
        gateway.process.says("worker serves")
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            ask(gateway, context)
        context.load_cert_chain(client.cert, client.key)
        assert json.loads(ask(gateway, context))["usage"]["completion_tokens"] == 200
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # with which a session is there as soon as the handshake is over
        with context.wrap_socket(gateway.socket(), server_hostname="localhost") as first:
            session = first.session
        with context.wrap_socket(gateway.socket(), server_hostname="localhost", session=session) as again:
            assert again.session_reused
            again.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert again.recv(100).startswith(b"HTTP/1.1 200")


def test_a_unix_socket_in_a_new_directory(tiny_cpu, tmp_path):
    path = tmp_path / "new" / "gateway.sock"
    with Gateway(tiny_cpu, flags=["--listen=127.0.0.1:0", f"--listen=unix:{path}"]):
        assert path.parent.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(str(path))
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
    assert not path.exists()


def test_browsers_may_ask_from_allowed_origins(tiny_cpu):
    page, other = {"Origin": "https://chat.example"}, {"Origin": "https://evil.example"}
    with Gateway(tiny_cpu, flags=["--cors_origins=https://chat.example"]) as gateway:
        preflight = gateway.ask(
            "OPTIONS", "/v1/chat/completions", headers={**page, "Access-Control-Request-Headers": "authorization,content-type"})
        assert preflight.status == 204 and preflight.headers["Access-Control-Allow-Origin"] == "https://chat.example"
        assert preflight.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
        assert asking(gateway, page).headers["Access-Control-Allow-Origin"] == "https://chat.example"
        assert gateway.post("/v1/completions", {}, page).headers["Access-Control-Allow-Origin"] == "https://chat.example"
        assert asking(gateway, other).headers["Access-Control-Allow-Origin"] is None
    with Gateway(tiny_cpu) as gateway:
        assert asking(gateway, page).headers["Access-Control-Allow-Origin"] is None


def test_connections_are_bounded(tiny_cpu):
    with Gateway(tiny_cpu, flags=["--max_connections=20"]) as gateway:
        open_ones = [gateway.socket() for _ in range(20)]
        with gateway.socket() as further:
            assert further.recv(1) == b""
        for one in open_ones:
            one.close()

        def served():
            try:
                return asking(gateway).status == 200
            except ConnectionError:  # the gateway has yet to notice that the others have left
                return False

        wait_until(served, PATIENCE, "there is room again")
        assert gateway.metric("folio:gateway_connections_refused_total") >= 1


class OnUnixSocket(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


def test_names_of_the_model_and_unix_sockets(tiny_cpu):
    path = tiny_cpu.path / "http.sock"
    with Gateway(tiny_cpu, flags=["--model_name=gpt-4o,small", f"--listen=127.0.0.1:0,unix:{path}"]) as gateway:
        assert [model["id"] for model in gateway.get("/v1/models").json()["data"]] == ["gpt-4o", "small"]
        for name in ("gpt-4o", "small"):
            assert gateway.complete(model=name, prompt="a", max_tokens=1).json()["model"] == name
        assert gateway.complete(prompt="a", max_tokens=1).json()["model"] == "gpt-4o"
        unknown = gateway.complete(model="tiny", prompt="a")
        assert unknown.status == 404 and unknown.error()["code"] == "model_not_found"
        connection = OnUnixSocket(path)
        connection.request("GET", "/v1/models/small")
        assert json.loads(connection.getresponse().read())["id"] == "small"
        connection.close()
    assert not path.exists()


@pytest.mark.parametrize("flags, words", [
    (["--listen=here"], ["listen", "here"]), (["--worker=nowhere"], ["worker", "nowhere"]), (["--threads=99"], ["threads", "64"]),
    (["--affinity=odd"], ["affinity", "prefix"]), (["--tls_cert=/tmp/a"], ["tls_key"]), (["--tls_client_ca=/tmp/a"], ["tls_client_ca"]),
    (["--max_body_bytes=1"], ["max_body_bytes", "1KiB"]), (["--idle_timeout=0"], ["idle_timeout"]), (["--nonsense"], ["nonsense"]),
    (["--worker="], ["worker"]),
])  # fmt: skip
def test_bad_flags_are_named(flags, words):
    result = subprocess.run([BIN / "folio-gateway", *flags], capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1
    assert all(word in result.stderr for word in words), result.stderr


@pytest.mark.parametrize("flags, words", [
    (["--api_keys=/nowhere/keys"], "/nowhere/keys"), (["--tls_cert=/nowhere/a", "--tls_key=/nowhere/b"], "/nowhere/a"),
])  # fmt: skip
def test_files_that_cannot_be_used_are_named(flags, words):
    result = subprocess.run([BIN / "folio-gateway", "--listen=127.0.0.1:0", *flags], capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 1 and words in result.stderr
