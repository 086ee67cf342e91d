"""Operators act: sequences are ended, parked and pinned, workers drained, quarantined pages given back."""

import contextlib
import json
import subprocess

import folio
import grpc
import pytest
from node import BIN, PATIENCE, Node, wait_until
from stubs import admin_pb2, inference_pb2
from test_admission import asking, generated


@pytest.fixture(scope="module")
def node():
    with Node(pool="256MiB") as node:
        node.stub = node.start_worker()
        yield node
        node.assert_alive()
        node.assert_all_free()


@pytest.fixture
def folioctl(node):
    def run(*arguments, code=0):
        done = subprocess.run(
            [BIN / "folioctl", "--address", node.manager_address, *map(str, arguments)],
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def long_request(label):
    request = inference_pb2.GenerateRequest(label=label, max_tokens=4000, ignore_eos=True)
    request.input.text = "Count: 1, 2, 3,"
    return request


@contextlib.contextmanager
def running(stub, label):
    """The stream of a long answer, and its id."""
    call = stub.Generate(long_request(label))
    started = next(event for event in call if event.HasField("started")).started
    next(event for event in call if event.HasField("chunk"))
    try:
        yield call, started.sequence_id
    finally:
        call.cancel()


def kinds(folioctl):
    lines = folioctl("events", "--output", "json").splitlines()
    return {json.loads(line)["event"]["kind"] for line in lines}


def test_a_closed_sequence_tells_its_client_why(node, folioctl):
    with running(node.stub, "close") as (call, sequence):
        assert "is to end" in folioctl("close", sequence, "--reason", "the pool is needed")
        with pytest.raises(grpc.RpcError) as ended:
            for _ in call:
                pass
        assert ended.value.code() == grpc.StatusCode.ABORTED
        assert "an operator has ended the sequence: the pool is needed" in ended.value.details()
    wait_until(lambda: not node.sequences(), PATIENCE, "the sequence is gone")
    assert "EVENT_KIND_CLOSE_ORDERED" in kinds(folioctl)
    folioctl("close", sequence, code=4)


def test_a_parked_sequence_continues_with_the_same_tokens(node, folioctl):
    request = asking(prompt=64, length=300)
    expected = generated(node.stub, request)
    call = node.stub.Generate(request)
    events = [next(call)]
    while not events[-1].HasField("chunk"):
        events.append(next(call))
    (sequence,) = node.sequences()
    folioctl("park", sequence.sequence_id)
    events += call
    tokens = [token for event in events for token in event.chunk.tokens]
    assert tokens == expected
    text = folioctl("events", "--kind", "sequence_parked")
    assert f"sequence {sequence.sequence_id}" in text


def test_a_pinned_sequence_is_not_parked(node, folioctl):
    with running(node.stub, "pin") as (_, sequence):
        folioctl("pin", sequence)
        assert "pinned" in folioctl("sequences")
        assert "it is pinned" in folioctl("park", sequence, code=8)
        folioctl("unpin", sequence)
        folioctl("park", sequence)


def test_a_drained_worker_gets_no_new_sequences(node, folioctl):
    worker = node.pool().workers[0].worker_id
    with running(node.stub, "stays"):
        assert "1 sequence runs there" in folioctl("drain", "--worker", worker)
        assert "draining" in folioctl("workers")
        with pytest.raises(grpc.RpcError) as refused:
            list(node.stub.Generate(long_request("refused")))
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert f"worker {worker} take no new sequences" in refused.value.details()
        folioctl("drain", "--worker", worker, "--undo")
        folioctl("drain")
        assert "takes no new sequences" in folioctl("pools")
        with pytest.raises(grpc.RpcError):
            list(node.stub.Generate(long_request("refused")))
        folioctl("drain", "--undo")
    assert generated(node.stub, asking(length=4))
    folioctl("drain", "--worker", "w99", code=4)


def test_the_quarantine_of_a_live_worker_is_not_released(node, folioctl):
    worker = node.pool().workers[0].worker_id
    assert "i_know_the_process_ended" in folioctl("quarantine", "release", worker, code=2)
    assert "is not fenced" in folioctl("quarantine", "release", worker, "--i_know_the_process_ended", code=8)
    with pytest.raises(grpc.RpcError) as unsure:
        node.admin.ReleaseQuarantine(admin_pb2.ReleaseQuarantineRequest(worker_id=worker))
    assert unsure.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert unsure.value.details().startswith("process_has_ended: ")


def test_tenants_pages_and_the_history(node, folioctl):
    request = long_request("history")
    request.tenant = "team-7"
    request.cache.policy.paged_eviction.SetInParent()
    request.cache.budget_tokens = 64
    call = node.stub.Generate(request)
    received = 0
    for event in call:
        received += len(event.chunk.tokens)
        if received > 120:
            break
    (sequence,) = node.sequences()
    assert '"team-7"' in folioctl("tenants")
    assert f"A sequence {sequence.sequence_id}," in folioctl("pages", "--by", "owner")
    runs = json.loads(folioctl("pages", "--by", "score", "--output", "json"))["runs"]
    assert sum(run["pages"] for run in runs) == node.pool().total_pages
    assert any("score" in run for run in runs)
    text = folioctl("sequence", sequence.sequence_id)
    assert "scores in the order of the text" in text and "pages freed" in text
    plans = node.sequence(sequence.sequence_id).plans
    assert plans and all(plan.freed_pages > 0 and len(plan.losses) == 30 for plan in plans)
    assert [plan.plan_epoch for plan in plans] == sorted(plan.plan_epoch for plan in plans)
    call.cancel()


def test_the_sdk_steers_too(node):
    with folio.Client(node.worker_address(), manager=node.manager_address) as client:
        with client.generate("Once", max_tokens=4000, ignore_eos=True, tenant="sdk") as stream:
            next(stream)
            (sequence,) = client.sequences()
            client.pin_sequence(sequence.sequence_id)
            assert client.sequences()[0].pinned
            client.unpin_sequence(sequence.sequence_id)
            assert client.tenants()[0].tenant == "sdk"
            assert {run.state for run in client.pages()} == {"free", "held"}
            assert client.drain() == 1 and client.manager().draining
            assert client.drain(undo=True) == 1
            client.close_sequence(sequence.sequence_id, "enough")
            with pytest.raises(folio.Aborted, match="enough"):
                stream.text()
        wait_until(lambda: not client.sequences(), PATIENCE, "the sequence is gone")
        with pytest.raises(folio.NotFound):
            client.park_sequence(sequence.sequence_id)
        with pytest.raises(folio.InvalidArgument, match="reason"):
            client.close_sequence(sequence.sequence_id, "x" * 257)


def test_a_manager_without_steering_changes_nothing():
    with Node(pool="64MiB", manager_flags=["--steering=false"]) as node:
        node.start_worker()
        methods = admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods
        acting = [method for method in methods if not method.name.startswith(("List", "Get", "Explain", "Watch"))]
        assert len(acting) == 7
        for method in acting:
            with pytest.raises(grpc.RpcError) as refused:
                getattr(node.admin, method.name)(getattr(admin_pb2, method.input_type.name)())
            assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED, method.name
