"""TLS of the SDK: who is believed and who is refused, files that cannot be used, and files that are replaced."""

import asyncio
import contextlib
import subprocess

import certificates
import grpc
import pytest
from certificates import tls
from proxy import Proxy
from scripted import WHOLE, Refusal, Scripted, both, chunk, finished, run, started

import folio

NOWHERE = "127.0.0.1:1"
REFUSALS = (folio.Unavailable, folio.DeadlineExceeded)  # the latter while it tries again


def speaks(pair, client_ca=None):
    """Credentials of a server."""
    ca = client_ca and client_ca.read_bytes()
    return grpc.ssl_server_credentials([(pair.key.read_bytes(), pair.cert.read_bytes())], ca, client_ca is not None)


@pytest.fixture(scope="module")
def own(house):
    """A server's certificate."""
    return house.issue("server")


@pytest.fixture
def far(own):
    with Scripted("127.0.0.1:0", [WHOLE], speaks(own)) as server:
        yield server


@both
def test_workers_standbys_and_managers_are_asked_by_tls(far, house, own, kind):
    with Scripted("127.0.0.1:0", [[Refusal("UNAVAILABLE", "cut")]], speaks(own)) as first:
        with folio.Client(first.address, far.address, timeout=60, standby=[far.address], tls=tls(house)) as client:
            assert run(kind, client, "x").tokens == (1, 2, 3)
            far.script = []
            assert client.sequences() == ()
    assert (len(first.requests), len(far.requests)) == (1, 2)


REFUSED = {
    # name: (what the client has, words)
    "plain": (lambda house, other: None, "Socket closed"),
    "another authority": (lambda house, other: tls(other), "CERTIFICATE_VERIFY_FAILED"),
    "public authorities": (lambda house, other: folio.Tls(), "CERTIFICATE_VERIFY_FAILED"),
    "another name": (lambda house, other: tls(house, server_name="elsewhere"), "elsewhere is not in peer certificate"),
}


@both
@pytest.mark.parametrize("name", REFUSED)
def test_a_server_that_is_not_the_expected_one_gets_no_request(far, house, other, kind, name):
    asking, words = REFUSED[name]
    with folio.Client(far.address, retries=0, timeout=60, tls=asking(house, other)) as client:
        with pytest.raises(folio.Unavailable, match=words):
            run(kind, client, "x")
    assert not far.requests


@both
def test_the_name_in_the_certificate_may_be_told(house, kind):
    with Scripted("127.0.0.1:0", [WHOLE], speaks(house.issue("named", ["DNS:worker.folio"]))) as server:
        with folio.Client(server.address, retries=0, tls=tls(house)) as client, pytest.raises(folio.Unavailable):
            run(kind, client, "x")
        with folio.Client(server.address, tls=tls(house, server_name="worker.folio")) as client:
            assert run(kind, client, "x").tokens == (1, 2, 3)


@both
def test_a_bundle_of_authorities_may_have_comments(far, house, other, tmp_path, kind):
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("# Autorit\u00e9\n" + other.ca.read_text() + "# house\n" + house.ca.read_text())
    with folio.Client(far.address, timeout=60, tls=folio.Tls(ca=str(bundle))) as client:
        assert run(kind, client, "x").tokens == (1, 2, 3)


@both
def test_clients_show_their_certificate(house, other, own, kind):
    with Scripted("127.0.0.1:0", [WHOLE], speaks(own, client_ca=house.ca)) as server:
        for wrong in (tls(house), tls(house, other.issue("client"))):
            with folio.Client(server.address, retries=0, tls=wrong) as client, pytest.raises(folio.Unavailable):
                run(kind, client, "x")
        assert not server.requests
        with folio.Client(server.address, tls=tls(house, house.issue("client"))) as client:
            assert run(kind, client, "x").tokens == (1, 2, 3)


@both
def test_unix_sockets_stay_plain(server, kind):
    server.script = [WHOLE]
    with folio.Client(server.address, server.address, tls=folio.Tls(ca="/nowhere/ca.pem")) as client:
        assert run(kind, client, "x").tokens == (1, 2, 3)


def with_password(house, directory):
    pair = house.issue("locked")
    locked = directory / "locked.key"
    subprocess.run(["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", pair.key, "-out", locked], check=True, capture_output=True)
    return pair._replace(key=locked)


def junk(directory, text="nothing of use"):
    (directory / "junk").write_text(text)
    return directory / "junk"


def cut_off(pair, directory):
    return junk(directory, pair.cert.read_text()[:200])


UNUSABLE = {
    # name: (files of an authority, a certificate and a directory; argument; words)
    "no authorities": (lambda ca, own, at: {"ca": at / "none"}, "ca", "none", "cannot be read: No such file or directory"),
    "a directory": (lambda ca, own, at: {"ca": at}, "ca", "", "cannot be read: Is a directory"),
    "authorities no PEM": (lambda ca, own, at: {"ca": junk(at)}, "ca", "junk", "no certificate as PEM"),
    "authorities no text": (lambda ca, own, at: {"ca": junk(at, "\xff\xff")}, "ca", "junk", "no certificate as PEM"),
    "no file for the key": (lambda ca, own, at: {"cert": own.cert, "key": at / "none"}, "key", "none", "No such file"),
    "certificate no PEM": (lambda ca, own, at: {"cert": junk(at), "key": own.key}, "cert", "junk", "no certificate as PEM"),
    "certificate cut off": (lambda ca, own, at: {"cert": cut_off(own, at), "key": own.key}, "key", ".key", "/junk\" cannot be read"),
    "key no PEM": (lambda ca, own, at: {"cert": own.cert, "key": own.cert}, "key", ".pem", "no private key as PEM"),
    "key of another": (
        lambda ca, own, at: {"cert": own.cert, "key": ca.issue("else").key}, "key", "else.key", "is not the key of the certificate in"),
    "key with a password": (lambda ca, own, at: with_password(ca, at)._asdict(), "key", "locked.key", "needs a password"),
}  # fmt: skip


@both
@pytest.mark.parametrize("name", UNUSABLE)
def test_files_that_cannot_be_used_are_named(far, house, own, tmp_path, kind, name):
    files, argument, path, words = UNUSABLE[name]
    given = folio.Tls(**{key: str(file) for key, file in files(house, own, tmp_path).items()})
    with folio.Client(far.address, far.address, tls=given) as client:
        for call in (lambda: run(kind, client, "x"), client.pools):
            with pytest.raises(ValueError) as refused:
                call()
            assert f'{path}" of tls.{argument} ' in str(refused.value) and words in str(refused.value)
    assert not far.requests


@contextlib.contextmanager
def one_loop(kind, client):
    """A function that asks the client, by either interface, and has one event loop for all its calls."""
    if kind == "sync":
        yield lambda timeout=None: client.generate("x", timeout=timeout).text()
        return
    loop = asyncio.new_event_loop()

    async def ask(timeout):
        return await client.agenerate("x", timeout=timeout).text()

    yield lambda timeout=None: loop.run_until_complete(ask(timeout))
    loop.run_until_complete(client.aclose())
    loop.close()


@pytest.fixture
def wire():
    """A proxy, because a server that ends in the process of its client may leave the client waiting."""
    proxy = Proxy(None, NOWHERE)
    yield proxy
    proxy.cut()
    proxy.close()


@both
def test_files_that_were_replaced_count_when_a_connection_is_made(far, wire, house, other, tmp_path, kind):
    ca = tmp_path / "ca.pem"
    certificates.replace(ca, house.ca)
    with Scripted("127.0.0.1:0", [WHOLE], speaks(other.issue("server"))) as renewed:
        wire.target = far.address
        with folio.Client(wire.address, timeout=60, tls=folio.Tls(ca=str(ca))) as client, one_loop(kind, client) as ask:
            assert ask() == "Hello world"
            certificates.replace(ca, other.ca)
            wire.target = renewed.address
            assert wire.cut() == 1
            assert ask() == "Hello world"
        assert (len(far.requests), len(renewed.requests)) == (1, 1)


@both
def test_half_replaced_files_leave_the_last_ones_in_use(wire, house, other, own, kind):
    mine, fresh = house.issue("mine"), other.issue("fresh")

    def meet_nobody():
        """Afterwards a new connection is made."""
        wire.target = NOWHERE
        wire.cut()
        for _ in range(2):  # one may meet the end of the connection that there was
            with pytest.raises(REFUSALS):
                ask(timeout=1)
        wire.target = server.address

    with Scripted("127.0.0.1:0", [WHOLE], speaks(own, client_ca=house.ca)) as server:
        wire.target = server.address
        with folio.Client(wire.address, timeout=60, retries=50, resume=0, tls=tls(house, mine)) as client, one_loop(kind, client) as ask:
            assert ask() == "Hello world"
            certificates.replace(mine.cert, fresh.cert)
            meet_nobody()
            assert ask() == "Hello world"
            certificates.replace(mine.key, fresh.key)
            meet_nobody()
            # Now they fit, so that they are used, and the server refuses them.
            with pytest.raises(REFUSALS):
                ask(timeout=1)
        assert len(server.requests) == 2


def test_a_stream_survives_a_new_connection_in_its_loop(house, other, own, tmp_path):
    ca = tmp_path / "ca.pem"
    certificates.replace(ca, house.ca)
    slow = [started(), chunk("Hello", 1), 0.5, chunk(" world", 2, 3), finished()]

    async def ask(server):
        async with folio.Client(server.address, timeout=60, tls=folio.Tls(ca=str(ca))) as client:
            stream = client.agenerate("x")
            texts = [(await anext(stream)).text]
            certificates.replace(ca, other.ca)
            worker = client._worker
            before = id(worker._loops[asyncio.get_running_loop()].channel)
            worker.met_nobody_in_loop()
            assert id(worker._loops[asyncio.get_running_loop()].channel) != before, "nothing but the call holds it"
            texts += [one.text async for one in stream]
            return texts

    with Scripted("127.0.0.1:0", [slow], speaks(own)) as server:
        assert "".join(asyncio.run(ask(server))) == "Hello world"


ENVIRONMENT = {
    # name: (variables without FOLIO_TLS in front, what they give, or words of the error)
    "nothing": ({}, None),
    "empty": ({"": "", "_CA": ""}, None),
    "on": ({"": "1"}, folio.Tls()),
    "on in words": ({"": "true"}, folio.Tls()),
    "authorities alone": ({"_CA": "a"}, folio.Tls(ca="a")),
    "a name alone": ({"_SERVER_NAME": "n"}, folio.Tls(server_name="n")),
    "all": ({"": "1", "_CA": "a", "_CERT": "c", "_KEY": "k", "_SERVER_NAME": "n"}, folio.Tls("a", "c", "k", "n")),
    "off": ({"": "0", "_CA": "a", "_CERT": "c"}, None),
    "off in words": ({"": "false", "_CA": "a"}, None),
    "neither": ({"": "yes"}, 'FOLIO_TLS must be 1, true, 0 or false, or empty, is "yes"'),
    "certificate alone": ({"_CERT": "c"}, "FOLIO_TLS_CERT needs FOLIO_TLS_KEY"),
    "key alone": ({"": "1", "_KEY": "k"}, "FOLIO_TLS_KEY needs FOLIO_TLS_CERT"),
}


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_the_environment(monkeypatch, name):
    variables, given = ENVIRONMENT[name]
    for end in ("", "_CA", "_CERT", "_KEY", "_SERVER_NAME"):
        monkeypatch.delenv(f"FOLIO_TLS{end}", raising=False)
    for end, value in variables.items():
        monkeypatch.setenv(f"FOLIO_TLS{end}", value)
    if isinstance(given, str):
        for call in (folio.Tls.from_environment, folio.Client):
            with pytest.raises(ValueError, match=given):
                call()
        return
    assert folio.Tls.from_environment() == folio.Client().tls == given
    assert folio.Client(tls=folio.Tls(ca="mine")).tls == folio.Tls(ca="mine"), "what is given counts first"


WRONG = {
    "certificate alone": (lambda: folio.Tls(cert="c"), ValueError, "cert needs key: give both files, or neither"),
    "key alone": (lambda: folio.Tls(key="k"), ValueError, "key needs cert: give both files, or neither"),
    "a number": (lambda: folio.Tls(ca=7), TypeError, "ca must be a str, not int"),
    "a file's bytes": (lambda: folio.Tls(server_name=b"x"), TypeError, "server_name must be a str, not bytes"),
    "a path for all": (lambda: folio.Client(tls="ca.pem"), TypeError, "tls must be a folio.Tls, not str"),
    "a flag": (lambda: folio.Client(tls=True), TypeError, "tls must be a folio.Tls, not bool"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    call, error, words = WRONG[name]
    with pytest.raises(error) as refused:
        call()
    assert words in str(refused.value)
