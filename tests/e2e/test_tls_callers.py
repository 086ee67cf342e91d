"""folioctl and folio-gateway ask daemons by TLS, as their flags, the environment and contexts say."""

import json
import os
import subprocess
import types

import certificates
import folio
import pytest
from certificates import Authority
from gateway import Gateway
from node import BIN, PATIENCE, wait_until
from tls_node import TlsNode

CHAT = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def own(house):
    """The callers' certificate."""
    return house.issue("caller")


@pytest.fixture(scope="module")
def node(house, tiny_model):
    """Clients need a certificate. The worker "named" is not called as its address."""
    with TlsNode(house.issue("server").server_flags(house.ca)) as node:
        node.start_worker(model=tiny_model)
        named = house.issue("named", ["DNS:worker.folio"]).server_flags(house.ca)
        node.start_worker("named", model=tiny_model, flags=named)
        yield node
        node.assert_alive()
        node.assert_all_free()


@pytest.fixture
def folioctl(tmp_path):
    """Runs a command. The environment has only `variables` of Folio's, and the file of contexts is `config` if it is there."""

    def run(*arguments, code=0, variables=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FOLIO_")}
        environment |= {"FOLIO_CONFIG": str(run.config), **{name: str(value) for name, value in (variables or {}).items()}}
        command = [BIN / "folioctl", *map(str, arguments), "--timeout", "30s"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
        assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done.stderr if code else done.stdout

    run.config = tmp_path / "config.json"
    return run


def flags(house, own):
    return [f"--tls_ca={house.ca}", f"--tls_cert={own.cert}", f"--tls_key={own.key}"]


def variables(house, own):
    return {"FOLIO_TLS_CA": house.ca, "FOLIO_TLS_CERT": own.cert, "FOLIO_TLS_KEY": own.key}


def settings(house, own):
    """Of a context."""
    return {"tls_ca": str(house.ca), "tls_cert": str(own.cert), "tls_key": str(own.key)}


def expected_text(node):
    with folio.Client(node.worker_address()) as client:
        return client.generate("Once", max_tokens=8, ignore_eos=True).text()


GENERATE = ["generate", "Once", "--max_tokens", 8, "--ignore_eos"]


def test_folioctl_by_flags(node, house, own, folioctl):
    given = flags(house, own)
    said = folioctl(*GENERATE, "--address", node.worker_port(), *given)
    assert said.rstrip("\n") == expected_text(node)
    dashes = [flag.replace("--tls_", "--tls-") for flag in given]
    (pool,) = json.loads(folioctl("pools", "--output", "json", "--address", node.operators_port(), *dashes))["pools"]
    assert len(pool["workers"]) == 2
    folioctl("health", "--address", node.worker_port("named"), *given, code=3)
    folioctl("health", "--address", node.worker_port("named"), *given, "--tls_server_name=worker.folio")


def test_folioctl_by_the_environment(node, house, own, folioctl):
    given = {**variables(house, own), "FOLIO_ADDRESS": node.worker_port(), "FOLIO_MANAGER_ADDRESS": node.operators_port()}
    for more in ({}, {"FOLIO_TLS": "1"}, {"FOLIO_TLS": "true"}):
        assert folioctl("health", variables={**given, **more}).count("serving") == 2
    for off in ("0", "false"):
        folioctl("health", variables={**given, "FOLIO_TLS": off}, code=3)
    assert "$FOLIO_TLS" in folioctl("model", variables={**given, "FOLIO_TLS": "yes"}, code=2)
    named = {**given, "FOLIO_ADDRESS": node.worker_port("named")}
    folioctl("model", variables=named, code=3)
    folioctl("model", variables={**named, "FOLIO_TLS_SERVER_NAME": "worker.folio"})


def test_folioctl_by_a_context(node, house, own, folioctl):
    given = settings(house, own)
    contexts = {
        "far": {"worker": node.worker_port(), "manager": node.operators_port(), **given},
        "said": {"worker": node.worker_port(), "manager": node.operators_port(), "tls": "true", **given},
        "named": {"worker": node.worker_port("named"), "tls_server_name": "worker.folio", **given},
        "plain": {"worker": node.worker_port(), "manager": node.operators_port()},
    }
    folioctl.config.write_text(json.dumps({"current": "far", "contexts": contexts}))
    assert folioctl("health").count("serving") == 2
    assert folioctl("health", "--context", "said").count("serving") == 2
    folioctl("model", "--context", "named")
    folioctl("health", "--context", "plain", code=3)
    assert folioctl("health", "--context", "plain", *flags(house, own)).count("serving") == 2
    # The command keeps the flags.
    folioctl("config", "set-context", "kept", "--worker", node.worker_port(), *flags(house, own))
    assert json.loads(folioctl.config.read_text())["contexts"]["kept"] == {"worker": node.worker_port(), **given}
    folioctl("model", "--context", "kept")


REFUSED = {
    # name: (flags of the house's authority, another one, and the caller's certificate; words)
    "plain": (lambda house, other, own: [], ["connect with TLS"]),
    "another authority": (lambda house, other, own: flags(other, own), []),
    "the system's authorities": (lambda house, other, own: ["--tls"], []),
    "no certificate": (lambda house, other, own: [f"--tls_ca={house.ca}"], []),
    "another's certificate": (lambda house, other, own: flags(house, other.issue("stranger")), []),
}


@pytest.mark.parametrize("name", REFUSED)
def test_folioctl_says_why_it_is_not_served(node, house, own, folioctl, tmp_path, name):
    given, words = REFUSED[name]
    other = Authority(tmp_path)
    for command, address in (("model", node.worker_port()), ("pools", node.operators_port())):
        said = folioctl(command, "--address", address, *given(house, other, own), code=3)
        assert f'at "{address}"' in said and all(word in said for word in words), said
        assert len(said.splitlines()) == 1, said


WRONG = {
    # name: (flags, words)
    "no such file": (lambda house, own: ["--tls_ca=/nowhere/ca.pem"], ["/nowhere/ca.pem", "cannot be read"]),
    "a key alone": (lambda house, own: [f"--tls_key={own.key}"], ["certificate", "key", "together"]),
    "no PEM": (lambda house, own: ["--tls_ca=/proc/self/status"], ["/proc/self/status", "as PEM"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_folioctl_names_files_that_cannot_be_used(node, house, own, folioctl, name):
    given, words = WRONG[name]
    said = folioctl("model", "--address", node.worker_port(), *given(house, own), code=5)
    assert all(word in said for word in words), said
    folioctl("model", "--address", node.worker_address(), *given(house, own))  # a Unix socket needs none of it


def upstream(house, own):
    return [flag.replace("--tls_", "--upstream_tls_") for flag in flags(house, own)]


def gateway_of(node, *more, worker="worker", **options):
    """A gateway that asks the worker and the manager by TCP."""
    by_tcp = types.SimpleNamespace(path=node.path, worker_address=node.worker_port)
    return Gateway(by_tcp, worker, flags=[f"--manager={node.operators_port()}", *more], **options)


def test_the_gateway_asks_by_tls(node, house, own):
    with folio.Client(node.worker_address()) as client:
        expected = client.generate(chat=CHAT, max_tokens=8, ignore_eos=True).text()
    with gateway_of(node, *upstream(house, own)) as gateway:
        answer = gateway.chat(messages=CHAT, max_tokens=8, ignore_eos=True, temperature=0)
        assert answer.status == 200 and answer.json()["choices"][0]["message"]["content"] == expected
        (pool,) = gateway.get("/console/api/pools").json()["pools"]
        assert len(pool["workers"]) == 2
    with gateway_of(node, *upstream(house, own), "--upstream_tls_server_name=worker.folio", worker="named") as gateway:
        assert gateway.complete(prompt="Once", max_tokens=1).status == 200


def test_a_standby_is_asked_by_tls(node, house, own):
    with gateway_of(
        node, f"--standby={node.worker_port()}", *upstream(house, own), worker="named"  # whose name does not fit
    ) as gateway:
        assert gateway.complete(prompt="Once", max_tokens=1).status == 200


@pytest.mark.parametrize("name", REFUSED)
def test_a_gateway_that_is_refused_does_not_serve(node, house, own, tmp_path, name):
    other = Authority(tmp_path)
    given = [flag.replace("--tls", "--upstream_tls") for flag in REFUSED[name][0](house, other, own)]
    with gateway_of(node, *given, wait=False) as gateway:
        gateway.process.says("worker does not serve")
        assert gateway.get("/health").status == 503
        answer = gateway.get("/console/api/pools")
        assert answer.status == 503 and answer.error()["message"], answer.body
        assert gateway.complete(prompt="Once", max_tokens=1).status == 503


def test_a_gateway_reads_replaced_files(node, house, own, tmp_path):
    ca = tmp_path / "ca.pem"
    certificates.replace(ca, Authority(tmp_path, "other").ca)
    given = [f"--upstream_tls_ca={ca}", f"--upstream_tls_cert={own.cert}", f"--upstream_tls_key={own.key}"]
    with gateway_of(node, *given, wait=False) as gateway:
        gateway.process.says("worker does not serve")
        assert gateway.get("/health").status == 503
        certificates.replace(ca, house.ca)
        gateway.until_serving()
        assert wait_until(lambda: gateway.get("/console/api/pools").status == 200, PATIENCE, "the manager is asked by TLS too")


@pytest.mark.parametrize("flag, code, words", [
    ("--upstream_tls_ca=/nowhere/ca.pem", 1, ["/nowhere/ca.pem", "cannot be read"]),
    ("--upstream_tls_ca=/proc/self/status", 1, ["/proc/self/status", "as PEM"]),
    ("--upstream_tls_cert=/nowhere/a", 2, ["--upstream_tls_key=", "required"]),
    ("--upstream_tls_key=/nowhere/a", 2, ["--upstream_tls_cert=", "required"]),
])  # fmt: skip
def test_the_gateway_names_what_it_cannot_use(flag, code, words):
    command = [BIN / "folio-gateway", "--listen=127.0.0.1:0", "--worker=127.0.0.1:1", flag]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    said = done.stdout + done.stderr
    assert done.returncode == code and all(word in said for word in words), said


@pytest.mark.parametrize("address, warned", [("127.0.0.1:1", False), ("192.0.2.1:1", True)])
def test_the_gateway_warns_of_workers_that_it_asks_in_plain(node, own, address, warned):
    """The second address is for documentation, so nothing is there."""
    by_tcp = types.SimpleNamespace(path=node.path, worker_address=lambda _: address)
    for more in ([], ["--upstream_tls"]):
        with Gateway(by_tcp, "worker", flags=["--manager=", *more], wait=False) as gateway:
            gateway.process.says("listening address=")
            assert ("are not encrypted on their way" in gateway.process.words()) == (warned and not more)
