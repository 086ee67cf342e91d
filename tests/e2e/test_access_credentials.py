"""Credentials that daemons with --access know, and the callers that show them: TLS, Unix sockets, folioctl, the SDK, the gateway."""

import asyncio
import hashlib
import json
import os
import subprocess

import folio
import grpc
import pytest
from access import DENIED, OK, TOKENS, UNAUTHENTICATED, AccessNode, asking, bearer, lines, refusal, token_line
from access import node  # noqa: F401 - the fixture
from gateway import Gateway
from node import BIN, PATIENCE, wait_until
from stubs import admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc, kv_manager_pb2, kv_manager_pb2_grpc
from tls_node import port_of


@pytest.fixture(scope="module")
def encrypted(house, long_model):
    """TCP with TLS on both daemons. Certificates of clients are asked for."""
    authorities = house.directory / "house.pem"
    authorities.write_bytes(house.ca.read_bytes())
    flags = [*house.issue("access-server").server_flags(authorities), "--listen=127.0.0.1:0"]
    more = ["cert app.example alice", "cert named bob", "cert front.example * view"]
    with AccessNode(lines(*more, unix=""), manager_flags=flags, worker_flags=flags) as node:
        node.start_worker(model=long_model)
        yield node


def secure(house, pair, port):
    credentials = grpc.ssl_channel_credentials(
        house.ca.read_bytes(), pair.key.read_bytes(), pair.cert.read_bytes())
    return grpc.secure_channel(port, credentials)


def test_a_certificate_is_an_identity(house, other, encrypted):
    port = port_of(encrypted.workers["worker"])
    model = inference_pb2.GetModelRequest()
    cases = [
        ("app", ["DNS:localhost", "DNS:app.example"], OK, DENIED),
        ("named", ["DNS:localhost"], OK, OK),  # the common name counts too
        ("front", ["DNS:front.example"], OK, OK),
        ("stranger", ["DNS:stranger.example"], UNAUTHENTICATED, UNAUTHENTICATED),
        ("wild", ["DNS:*.example"], UNAUTHENTICATED, UNAUTHENTICATED),
    ]
    for name, names, code, for_bob in cases:
        with secure(house, house.issue(name, names), port) as channel:
            stub = inference_pb2_grpc.InferenceStub(channel)
            assert refusal(lambda: stub.GetModel(model, timeout=PATIENCE))[0] == code, name
            assert refusal(lambda: stub.Generate(asking(tenant="bob"), timeout=PATIENCE))[0] == for_bob, name
            # A token comes first, and a wrong one does not fall back to the certificate.
            assert refusal(lambda: stub.GetModel(model, metadata=bearer("alice"), timeout=PATIENCE))[0] == OK, name
            assert refusal(lambda: stub.GetModel(model, metadata=bearer("wrong"), timeout=PATIENCE))[0] == UNAUTHENTICATED, name
    expired, foreign = house.issue("app", ["DNS:app.example"], days=-1), other.issue("app", ["DNS:app.example"])
    for pair in (expired, foreign):
        with secure(house, pair, port) as channel:
            stub = inference_pb2_grpc.InferenceStub(channel)
            assert refusal(lambda: stub.GetModel(model, timeout=PATIENCE))[0] == grpc.StatusCode.UNAVAILABLE


def test_tokens_over_tls_and_the_unix_socket(house, encrypted):
    pair = house.issue("nameless", ["DNS:nameless.example"])
    manager, worker = port_of(encrypted.manager), port_of(encrypted.workers["worker"])
    with secure(house, pair, manager) as managers, secure(house, pair, worker) as workers:
        admin, stub = admin_pb2_grpc.AdminStub(managers), inference_pb2_grpc.InferenceStub(workers)
        pools = admin_pb2.ListPoolsRequest()
        for metadata, code in (((), UNAUTHENTICATED), (bearer("wrong"), UNAUTHENTICATED), (bearer("viewer"), OK), (bearer("alice"), DENIED)):
            assert refusal(lambda: admin.ListPools(pools, metadata=metadata, timeout=PATIENCE))[0] == code, metadata
            assert refusal(lambda: encrypted.admin.ListPools(pools, metadata=metadata, timeout=PATIENCE))[0] == code, metadata
        assert refusal(lambda: stub.Generate(asking(), metadata=bearer("alice"), timeout=PATIENCE))[0] == OK
        assert refusal(lambda: stub.Generate(asking(), timeout=PATIENCE))[0] == UNAUTHENTICATED
        # Workers are on the manager's machine, and certificates and tokens are none of theirs.
        attach = kv_manager_pb2_grpc.KvManagerStub(managers)
        for method, request in (("Attach", kv_manager_pb2.AttachRequest()), ("DescribePool", kv_manager_pb2.DescribePoolRequest())):
            code, words = refusal(lambda: getattr(attach, method)(request, metadata=bearer("steerer"), timeout=PATIENCE))
            assert (code, "Unix socket" in words) == (DENIED, True), words
        session = attach.Session(iter([kv_manager_pb2.SessionRequest()]), timeout=PATIENCE)
        assert refusal(lambda: session)[0] == DENIED


def folioctl(*arguments, code=0, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FOLIO_")}
    environment |= {"HOME": "/nonexistent", **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run([BIN / "folioctl", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stderr if code else done.stdout


def refused_by_folioctl(*arguments):
    done = subprocess.run([BIN / "folioctl", *map(str, arguments), "--timeout", "30s"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0 and "INVALID_ARGUMENT" in done.stderr, done.stderr
    return done.stderr


def test_folioctl_shows_a_token(node, tmp_path):
    file = tmp_path / "token"
    file.write_text(TOKENS["alice"] + "\n")
    generate = ["generate", "a", "--max_tokens", 2, "--address", node.worker_address(), "--timeout", "30s"]
    assert "UNAUTHENTICATED" in folioctl(*generate, "--token", "wrong", code=1)
    assert "PERMISSION_DENIED" in folioctl(*generate, code=1)
    folioctl(*generate, "--token", TOKENS["alice"])
    folioctl(*generate, "--token_file", file)
    folioctl(*generate, FOLIO_TOKEN=TOKENS["bob"])
    folioctl(*generate, FOLIO_TOKEN_FILE=file)
    config = {"FOLIO_CONFIG": tmp_path / "config.json"}
    folioctl("config", "set-context", "lab", "--worker", node.worker_address(), "--token_file", file, **config)
    assert json.loads((tmp_path / "config.json").read_text())["contexts"]["lab"]["token_file"] == str(file)
    folioctl("generate", "a", "--max_tokens", 2, **config)
    assert "UNAUTHENTICATED" in folioctl("generate", "a", "--max_tokens", 2, FOLIO_TOKEN="wrong", code=1, **config)
    for flags, words in ((["--token", "x", "--token_file", file], "not both"), (["--token", "a b"], "has a space"),
                         (["--token_file", tmp_path / "none"], "cannot be read")):  # fmt: skip
        assert words in refused_by_folioctl("model", "--address", node.worker_address(), *flags)
    assert "without encryption" in refused_by_folioctl("model", "--address", "192.0.2.1:7001", "--token", "x")


def test_folioctl_makes_tokens(long_model, tmp_path):
    file = tmp_path / "new.token"
    line = folioctl("token", "alice", "--out", file).strip()
    assert file.stat().st_mode & 0o777 == 0o600
    assert line == token_line(file.read_text().strip(), "alice") and len(file.read_text().strip()) == 64
    assert "File exists" in folioctl("token", "alice", "--out", file, code=1), "a token is not overwritten"
    answer = json.loads(folioctl("token", "--right", "view", "--output", "json"))
    assert answer["line"] == token_line(answer["token"], "- view")
    assert folioctl("token", "alice") != folioctl("token", "alice")
    folioctl("token", code=2)
    with AccessNode(f"tenant alice\n{line}\n") as node:
        node.start_worker(model=long_model)
        folioctl("model", "--address", node.worker_address(), "--token_file", file)


def test_the_sdk_shows_a_token(node, monkeypatch):
    with folio.Client(node.worker_address(), node.manager_address, token=TOKENS["alice"]) as client:
        assert client.generate(tokens=[1, 2], max_tokens=3, ignore_eos=True).result().finished.reason == "length"
        with pytest.raises(folio.PermissionDenied, match="right view"):
            client.sequences()

    async def in_a_loop():
        async with folio.Client(node.worker_address(), token=TOKENS["bob"]) as client:
            return await client.agenerate(tokens=[1, 2], max_tokens=3, ignore_eos=True).text()

    assert asyncio.run(in_a_loop()) is not None
    with folio.Client(node.worker_address(), node.manager_address, token="wrong") as client:
        with pytest.raises(folio.Unauthenticated, match="token is not known"):
            client.model()
    monkeypatch.setenv("FOLIO_TOKEN", TOKENS["viewer"])
    with folio.Client(node.worker_address(), node.manager_address) as client:
        assert client.manager().pid == node.manager.pid
        assert client.events()
    for address in ("192.0.2.1:7001", "worker.example:7001"):
        with pytest.raises(ValueError, match="without encryption"):
            folio.Client(address, node.manager_address, token="x")
        folio.Client(address, node.manager_address, token="x", tls=folio.Tls()).close()
    folio.Client("127.0.0.1:7001", "[::1]:7001", token="x").close()


def test_a_gateway_shows_its_own_token(node, tmp_path):
    file, keys = tmp_path / "token", tmp_path / "keys"
    file.write_text(TOKENS["gateway"] + "\n")
    keys.write_text(f"{hashlib.sha256(b'sk-red').hexdigest()} red operator\n")
    ask = {"prompt": "a", "max_tokens": 1}
    with Gateway(node, flags=[f"--upstream_token_file={file}", f"--manager={node.manager_address}", f"--api_keys={keys}"]) as gateway:
        key = {"Authorization": "Bearer sk-red"}
        assert gateway.post("/v1/completions", ask, key).status == 200
        node.workers["worker"].says("tenant=red")
        # The token of a caller's key does not travel further, and the gateway's may change.
        file.write_text("wrong")
        wait_until(lambda: gateway.post("/v1/completions", ask, key).status != 200, PATIENCE, "the new token is sent")
        file.write_text(TOKENS["gateway"])
        wait_until(lambda: gateway.post("/v1/completions", ask, key).status == 200, PATIENCE, "the right one is sent")
