"""TLS of the daemons at their TCP addresses: who is served and who is refused, and certificates that are replaced."""

import asyncio
import concurrent.futures

import certificates
import folio
import grpc
import pytest
from certificates import Authority, Pair, tls
from node import PATIENCE, wait_until
from stubs import kv_manager_pb2, kv_manager_pb2_grpc
from tls_node import PROMPT, TlsNode


@pytest.fixture(scope="module")
def clients(tmp_path_factory):
    """Signs the certificates of clients."""
    return Authority(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def node(house, tiny_model):
    """Clients need no certificate. The worker "named" is not called as its address."""
    with TlsNode(house.issue("server").server_flags()) as node:
        node.start_worker(model=tiny_model)
        node.start_worker("named", model=tiny_model, flags=house.issue("named", ["DNS:worker.folio"]).server_flags())
        yield node
        node.assert_alive()
        node.assert_all_free()


@pytest.fixture(scope="module")
def mutual(house, clients, tiny_model):
    """Clients need a certificate."""
    with TlsNode(house.issue("server").server_flags(clients.ca)) as node:
        node.start_worker(model=tiny_model)
        yield node
        node.assert_alive()
        node.assert_all_free()


def connecting(node, encryption, name="worker"):
    """A client by TCP that tries nothing again. Without `encryption` it is plain."""
    return folio.Client(
        node.worker_port(name), node.operators_port(), timeout=PATIENCE, retries=0, resume=0, tls=encryption
    )  # fmt: skip


def assert_refused(node, encryption):
    """By the worker for threads and event loops, and by the manager."""

    async def ask(client):
        await client.agenerate(**PROMPT).text()

    with connecting(node, encryption) as client:
        for call in (lambda: client.generate(**PROMPT).text(), client.model, client.pools, lambda: asyncio.run(ask(client))):
            with pytest.raises(folio.Unavailable):
                call()


def test_answers_by_tls_are_those_of_the_unix_socket(node, house):
    async def ask(client):
        async with client:
            return await client.agenerate(**PROMPT).result()

    with folio.Client(node.worker_address(), node.admin_address) as plain, connecting(node, tls(house)) as client:
        expected = plain.generate(**PROMPT).result()
        assert len(expected.tokens) == 48
        assert client.generate(**PROMPT).result().tokens == expected.tokens
        assert asyncio.run(ask(connecting(node, tls(house)))).tokens == expected.tokens
        asked = {"tokens": PROMPT["tokens"], "continuation_tokens": expected.tokens}
        assert client.score(**asked).logprobs == plain.score(**asked).logprobs
        assert client.model() == plain.model()
        assert [pool.pool_id for pool in client.pools()] == [pool.pool_id for pool in plain.pools()]


def test_the_managers_port_for_workers_has_the_certificate_too(node, house, other):
    def attach(authority):
        secret = grpc.ssl_channel_credentials(authority.ca.read_bytes())
        with grpc.secure_channel(node.manager_port(), secret) as channel, pytest.raises(grpc.RpcError) as refused:
            kv_manager_pb2_grpc.KvManagerStub(channel).Attach(kv_manager_pb2.AttachRequest(), timeout=PATIENCE)
        return refused.value.code()

    assert attach(other) == grpc.StatusCode.UNAVAILABLE
    assert attach(house) not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED), "the manager has read the request"


def test_plain_clients_and_those_of_another_authority_are_refused(node, other):
    assert_refused(node, None)
    assert_refused(node, tls(other))
    assert_refused(node, folio.Tls())


def test_a_server_of_another_name_is_refused(node, house):
    assert_refused(node, tls(house, server_name="elsewhere"))
    for encryption in (tls(house), tls(house, server_name="elsewhere")):
        with connecting(node, encryption, "named") as client, pytest.raises(folio.Unavailable):
            client.model()
    with connecting(node, tls(house, server_name="worker.folio"), "named") as client:
        assert client.generate(**PROMPT).text()


def test_clients_without_the_right_certificate_are_refused(mutual, house, clients):
    assert_refused(mutual, None)
    assert_refused(mutual, tls(house))
    assert_refused(mutual, tls(house, house.issue("stranger")))
    assert_refused(mutual, tls(house, clients.issue("late", days=-1)))


def test_clients_with_the_right_certificate_are_served(mutual, house, clients):
    with connecting(mutual, tls(house, clients.issue("client"))) as client:
        with folio.Client(mutual.worker_address(), mutual.admin_address) as plain:
            assert client.generate(**PROMPT).result().tokens == plain.generate(**PROMPT).result().tokens
        assert len(client.pools()) == 1


class Renewed:
    """A node whose certificate is replaced. At first it is one of `house`."""

    def __init__(self, house, directory):
        first = house.issue("server")
        self.files = Pair(directory / "served.pem", directory / "served.key")
        certificates.replace(self.files.cert, first.cert)
        certificates.replace(self.files.key, first.key)
        self.node = TlsNode(self.files.server_flags(), pool="64MiB")

    def serves(self, authority, ask=folio.Client.model):
        """Whether a new connection to the worker, or with `folio.Client.pools` to the manager, gets its certificate."""
        with connecting(self.node, tls(authority)) as client:
            try:
                ask(client)
                return True
            except folio.Unavailable:
                return False

    def until_serves(self, authority):
        for ask in (folio.Client.model, folio.Client.pools):
            wait_until(lambda ask=ask: self.serves(authority, ask), PATIENCE, "new connections get the new certificate")


@pytest.fixture
def renewed(house, long_model, tmp_path):
    renewed = Renewed(house, tmp_path)
    with renewed.node as node:
        node.start_worker(model=long_model)
        yield renewed
        node.assert_alive()


def test_a_certificate_is_replaced_while_a_stream_runs(renewed, house, other):
    fresh = other.issue("server")
    endless = {**PROMPT, "max_tokens": 30_000, "policy": "streaming_llm", "budget": 64, "timeout": 10 * PATIENCE}
    with connecting(renewed.node, tls(house)) as client, concurrent.futures.ThreadPoolExecutor(1) as thread:
        with client.generate(**endless) as stream:
            next(stream)
            whole = thread.submit(stream.result)
            certificates.replace(renewed.files.cert, fresh.cert)
            certificates.replace(renewed.files.key, fresh.key)
            renewed.until_serves(other)
            assert not renewed.serves(house)
            assert not whole.done(), "it ended before another connection could show the new certificate"
            assert len(whole.result().tokens) == 30_000 and whole.result().finished.reason == "length"
        assert client.model(), "the connection of before stays"
    assert "certificate that is in the files now" in renewed.node.workers["worker"].words()


def test_half_a_replacement_leaves_the_last_certificate(renewed, house, other):
    fresh, worker = other.issue("server"), renewed.node.workers["worker"]
    certificates.replace(renewed.files.cert, fresh.cert)
    # It looks at the files when a connection begins.
    wait_until(lambda: renewed.serves(house) and "the last certificate stays in use" in worker.words(), PATIENCE, "it has looked")
    assert f"{renewed.files.key}" in worker.words() and "is not the key of the certificate" in worker.words()
    assert renewed.serves(house) and renewed.serves(house, folio.Client.pools) and not renewed.serves(other)
    certificates.replace(renewed.files.key, fresh.key)
    renewed.until_serves(other)
    assert not renewed.serves(house)
    renewed.files.key.unlink()
    wait_until(lambda: renewed.serves(other) and worker.words().count("stays in use") >= 2, PATIENCE, "it has looked again")


def test_authorities_of_clients_are_replaced(house, clients, other, tiny_model, tmp_path):
    known = tmp_path / "clients.pem"
    certificates.replace(known, clients.ca)
    before, after = tls(house, clients.issue("before")), tls(house, other.issue("after"))

    def served(encryption):
        with connecting(node, encryption) as client:
            try:
                return bool(client.pools())
            except folio.Unavailable:
                return False

    with TlsNode(house.issue("server").server_flags(known)) as node:
        node.start_worker(model=tiny_model)
        assert served(before) and not served(after)
        certificates.replace(known, other.ca)
        wait_until(lambda: served(after), PATIENCE, "clients of the new authority are served")
        assert not served(before)
