"""The console's page and the state of the cache behind it, as the gateway serves them."""

import hashlib
import json

import pytest
from gateway import Gateway, events
from node import PATIENCE, Node, tokens, wait_until
from stubs import inference_pb2

KEYS = {"sk-red": "red", "sk-ops": "ops operator"}


@pytest.fixture
def node(tiny_model):
    with Node(pool="16MiB") as node:
        node.stub = node.start_worker(model=tiny_model)
        yield node


def serve(node, *flags):
    return Gateway(node, flags=[f"--manager={node.manager_address}", *flags])


def running(node, **fields):
    call = node.stub.Generate(inference_pb2.GenerateRequest(input=tokens(range(40)), max_tokens=60_000, ignore_eos=True, **fields))
    started = next(call)
    assert started.HasField("started")
    return call, started.started.sequence_id


@pytest.fixture
def long_running(long_model):
    with Node(pool="256MiB") as node:
        node.stub = node.start_worker(model=long_model)
        node.call, node.sequence = running(node, label="mine", tenant="red")
        yield node
        node.call.cancel()


def test_the_state_is_that_of_the_manager(long_running):
    node = long_running
    node.decoding()
    with serve(node) as gateway:
        state = lambda path: gateway.get(f"/console/api/{path}").json()  # noqa: E731
        assert state("manager")["steering"] is True and int(state("manager")["pid"]) == node.manager.pid
        [pool] = state("pools")["pools"]
        assert pool["free_pages"] + pool["held_pages"] == pool["total_pages"] and pool["quarantined_pages"] == 0
        [sequence] = state("sequences")["sequences"]
        assert sequence["sequence_id"] == str(node.sequence) and sequence["label"] == "mine"
        assert sequence["state"] == "SEQUENCE_STATE_DECODE"
        one = state(f"sequences/{node.sequence}")
        assert one["layers"][0]["kept"][0]["begin"] == 0 and one["plans"] == []
        [worker] = state("workers")["workers"]
        assert worker["processes"][0]["pid"] == node.workers["worker"].pid
        assert state("tenants")["tenants"][0]["tenant"] == "red"
        runs = state("pages?layers=1&scores=1")["runs"]
        assert sum(run["pages"] for run in runs) == pool["total_pages"]
        held = [run for run in runs if run["state"] == "PAGE_STATE_HELD"]
        assert {run["sequence_id"] for run in held} <= {str(node.sequence), "0"} and "layer" in held[0]
        assert "layer" not in [run for run in state("pages")["runs"] if run["state"] == "PAGE_STATE_HELD"][0]
        kinds = [event["kind"] for event in state("events")["events"]]
        assert kinds[0] == "EVENT_KIND_POOL_CREATED" and "EVENT_KIND_SEQUENCE_OPENED" in kinds
        last = state("events")["events"][-1]["number"]
        assert state(f"events?after={last}") == {"events": [], "lost_events": "0"}


def test_errors_say_what_is_wrong(node):
    with serve(node) as gateway:
        assert gateway.get("/console/api/sequences/77").status == 404
        for wrong in ("sequences/x", "nothing", "", "pools/", "%2e%2e"):
            answer = gateway.get(f"/console/api/{wrong}")
            assert answer.status == 404 and "ask for manager, pools" in answer.error()["message"], wrong
        for wrong in ("after=x", "after=-1", "after=99999"):
            assert gateway.get(f"/console/api/events?{wrong}").status == 400, wrong
        assert gateway.post("/console/api/pools", {}).status == 405
        assert gateway.ask("HEAD", "/console/api/pools").status == 200
        node.manager.stop()
        answer = gateway.get("/console/api/pools")
        assert answer.status == 503 and answer.error()["message"], answer.body
        # The manager of before does not come back, another one does.
        node.start_manager()
        wait_until(lambda: gateway.get("/console/api/manager").status == 200, PATIENCE, "the manager is back")


def test_without_a_manager_there_is_no_console(node):
    with Gateway(node, flags=["--manager="]) as gateway:
        for path in ("/console/", "/console/api/pools"):
            answer = gateway.get(path)
            assert answer.status == 404 and "--manager" in answer.error()["message"]


def test_only_operators_see_the_state(node, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("".join(f"{hashlib.sha256(key.encode()).hexdigest()} {holder}\n" for key, holder in KEYS.items()))
    with serve(node, f"--api_keys={keys}") as gateway:
        ask = lambda key: gateway.get("/console/api/sequences", {"Authorization": f"Bearer {key}"} if key else {})  # noqa: E731
        assert [ask(key).status for key in (None, "sk-no", "sk-red", "sk-ops")] == [401, 401, 403, 200]
        assert "operator" in ask("sk-red").error()["message"]
        assert gateway.get("/console/").status == 200  # the page holds no secret, and asks for the key
        assert gateway.get("/v1/models", {"Authorization": "Bearer sk-ops"}).status == 200


def test_the_page_is_served_with_a_strict_policy(node):
    with serve(node) as gateway:
        moved = gateway.get("/console")
        assert moved.status == 308 and moved.headers["Location"] == "/console/"
        page = gateway.get("/console/")
        assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert page.headers["Cache-Control"] == "no-cache" and page.headers["X-Content-Type-Options"] == "nosniff"
        text = page.body.decode()
        assert "<style" not in text and " style=" not in text and "<script>" not in text
        assets = [part.split('"')[0] for part in text.split("/console/")[1:] if part.startswith("assets/")]
        assert any(name.endswith(".js") for name in assets) and any(name.endswith(".css") for name in assets)
        for name in assets:
            asset = gateway.get(f"/console/{name}")
            assert asset.status == 200 and "immutable" in asset.headers["Cache-Control"], name
        for wrong in ("assets/none.js", "assets/../index.html", "../health", "assets"):
            assert gateway.get(f"/console/{wrong}").status == 404, wrong


def test_kept_positions_are_those_of_the_sdk(node):
    prompt = list(range(200))
    # Other steps carry the plans out at a time that depends on the manager.
    budget = {"policy": "paged_eviction", "budget": 64, "mode": "synchronous", "report_kept": True}
    with serve(node) as gateway:
        fields = {"prompt": prompt, "max_tokens": 40, "ignore_eos": True, "temperature": 0, "cache": budget}
        whole = gateway.complete(**fields).json()["choices"][0]["cache"]
        chunks = events(gateway.complete(**fields, stream=True).body)
        assert chunks[-1]["choices"][0]["cache"]["kept"] == whole["kept"]
        for layer in whole["kept"]:
            held = sum(end - begin for begin, end in layer)
            assert held <= whole["resident_tokens"] and layer[0][0] == 0 and layer[-1][1] == 200 + 40 - 1
            assert all(before[1] < after[0] for before, after in zip(layer, layer[1:], strict=False))
        assert max(sum(end - begin for begin, end in layer) for layer in whole["kept"]) == whole["resident_tokens"]
        everything = gateway.complete(**{**fields, "cache": {"policy": "full", "report_kept": True}}).json()["choices"][0]["cache"]
        assert everything["kept"] == [[[0, 239]]] * len(whole["kept"])
        for many in ({"n": 2}, {"prompt": [prompt, prompt]}):
            refused = gateway.complete(**{**fields, **many})
            assert refused.status == 400 and refused.error()["param"] == "cache.report_kept"
        assert "kept" not in gateway.complete(**{**fields, "cache": {"policy": "full"}}).json()["choices"][0]["cache"]
        assert json.dumps(whole["kept"])
