"""Tenants take turns where requests wait, at a worker and between the workers of a manager."""

import concurrent.futures
import itertools
import subprocess
import threading

import folio
import grpc
import pytest
from metrics import ENDPOINT, asked
from node import BIN, PATIENCE, Node, tokens, wait_until
from stubs import admin_pb2, inference_pb2

FLOOD = 40


def request(tenant, prompt=600, most=360, **settings):
    ids = [(7 * at) % 250 + 3 for at in range(prompt)]
    return inference_pb2.GenerateRequest(
        input=tokens(ids), max_tokens=most, ignore_eos=True, tenant=tenant, label=tenant, **settings
    )


def closed(node):
    """The labels of the sequences that have ended, in the manager's order."""
    ends = node.events("sequence_closed")
    names = {event.sequence_id: event.label for event in node.events("sequence_opened")}
    return [names[event.sequence_id] for event in ends]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_flood_holds_no_other_tenant_back(tiny_model, workers):
    # Each request needs 960 tokens, and the pool has room for some 2,050. None is parked, because that has another order.
    with Node(pool="3MiB", manager_flags=["--admission=reserve"]) as node:
        flags = ["--max_batch=2", *ENDPOINT]
        stubs = [node.start_worker(f"worker{at}", model=tiny_model, flags=flags) for at in range(workers)]
        flood = [stubs[0].Generate(request("many"), timeout=240) for _ in range(FLOOD)]

        def arrived():
            return sum(asked(worker) for worker in node.workers.values()) + len(closed(node))

        wait_until(lambda: arrived() >= FLOOD, PATIENCE, "all of them have come")
        call = stubs[-1].Generate(request("one"), timeout=240)
        wait_until(lambda: arrived() > FLOOD, PATIENCE, "another one has come")
        before = len(closed(node))
        assert before < FLOOD / 2
        *_, last = call
        assert last.HasField("finished")
        wait_until(lambda: "one" in closed(node), PATIENCE, "the manager knows of its end")
        for call in flood:
            call.cancel()
        # Those that ran when it came, and those whose turn it was while it ran.
        passed = closed(node).index("one") - before
        assert passed <= 8, f"{passed} of {FLOOD} came before it"
        wait_until(lambda: not node.sequences(), PATIENCE, "all have ended")


@pytest.mark.parametrize("workers", [1, 2])
def test_newcomers_do_not_keep_a_tenant_waiting(tiny_model, workers):
    """Clients that name a new tenant each time come one after another, always more than run."""
    with Node(pool="8MiB") as node:
        flags = ["--max_batch=2", *ENDPOINT]
        stubs = [node.start_worker(f"worker{at}", model=tiny_model, flags=flags) for at in range(workers)]
        ended, numbers = threading.Event(), itertools.count()

        def come(stub):
            while not ended.is_set():
                list(stub.Generate(request(f"new-{next(numbers)}", most=40), timeout=240))

        with concurrent.futures.ThreadPoolExecutor(24) as clients:
            floods = [clients.submit(come, stubs[at % workers]) for at in range(24)]
            try:
                wait_until(lambda: len(closed(node)) > 24, PATIENCE, "a flood")
                before = len(closed(node))
                for _ in range(4):
                    *_, last = stubs[-1].Generate(request("old", most=40), timeout=240)
                    assert last.HasField("finished")
                passed = len(closed(node)) - before
            finally:
                ended.set()
            for flood in floods:
                flood.result()
        # Each answer puts it ahead of the others by as much as each of them gets, so all that wait come before the next one.
        assert passed <= 4 * 3 * 24, f"{passed} came before four answers"


def test_a_quota_refuses_new_requests_of_its_tenant(long_model):
    with Node(pool="128MiB") as node:
        stub = node.start_worker(model=long_model)

        def folioctl(*arguments):
            command = [BIN / "folioctl", "--address", node.manager_address, *arguments]
            return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

        first = stub.Generate(request("batch", most=60_000))
        next(event for event in first if event.HasField("chunk"))
        said = folioctl("quota", "batch", "--sequences", "1", "--reason", "nights only")
        assert said == 'Tenant "batch" may have at most 1 sequence open.\n'
        with pytest.raises(grpc.RpcError) as failure:
            list(stub.Generate(request("batch", most=4), timeout=60))
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert 'quota of tenant "batch" (at most 1 sequence): 1 are open' in failure.value.details()
        *_, last = stub.Generate(request("chat", most=4), timeout=60)
        assert last.HasField("finished")
        # The manager may carry out the end of the other after its client has the answer.
        wait_until(lambda: [line.tenant for line in node.sequences()] == ["batch"], PATIENCE, "what was open stays")
        with folio.Client(manager=node.manager_address) as client:
            (shown,) = client.tenants()
        assert (shown.tenant, shown.quota) == ("batch", folio.Quota(sequences=1, pages=None)) and shown.needed_pages > shown.held_pages
        (event,) = node.events("quota_set")
        assert (event.label, event.text) == ("batch", "at most 1 sequence: nights only")
        first.cancel()
        wait_until(lambda: not node.sequences(), PATIENCE, "it has ended")
        *_, last = stub.Generate(request("batch", most=4), timeout=60)
        assert last.HasField("finished")
        # A quota of pages, for which a sequence counts as what it may come to need.
        folioctl("quota", "batch", "--pages", "200")
        with pytest.raises(grpc.RpcError, match="never fits, because the sequence may come to need"):
            list(stub.Generate(request("batch", most=60_000), timeout=60))
        folioctl("quota", "batch", "--none")
        assert not node.admin.ListTenants(admin_pb2.ListTenantsRequest()).tenants
        node.assert_all_free()


def test_a_tenants_name_is_shown_and_bounded(long_model):
    with Node(pool="128MiB") as node:
        stub = node.start_worker(model=long_model)
        call = stub.Generate(request("team-7", most=60_000))
        next(event for event in call if event.HasField("chunk"))
        assert [line.tenant for line in node.sequences()] == ["team-7"]
        call.cancel()
        with pytest.raises(grpc.RpcError) as failure:
            list(stub.Generate(request("x" * 65)))
        assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "tenant is 65 bytes long, the most is 64" in failure.value.details()
