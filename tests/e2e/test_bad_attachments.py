"""Strangers at a manager: attachments and sessions that no worker of its own begins are refused, and nothing is lost."""

import pytest
from node import Node
from stubs import kv_manager_pb2, kv_manager_pb2_grpc, types_pb2
from test_bad_requests import outcome, score


def kv_manager(node):
    # The manager's channel is the first that a node opens.
    return kv_manager_pb2_grpc.KvManagerStub(node.channels[0])


def attach(node, version=3, newest=0, **changes):
    layout = types_pb2.ModelLayout()
    layout.CopyFrom(node.pool().layout)
    for field, value in changes.items():
        setattr(layout, field, value)
    return kv_manager_pb2.AttachRequest(
        protocol_version=version, newest_protocol_version=newest, worker_name="intruder", layout=layout
    )


ATTACH = {
    # name: (changes, code, words)
    "other protocol": ({"version": 99}, "FAILED_PRECONDITION", ["protocol_version", "the worker version 99"]),
    "newer protocols": ({"version": 90, "newest": 99}, "FAILED_PRECONDITION", ["protocol_version", "the worker versions 90 to 99"]),
    "older protocols": ({"version": 1, "newest": 2}, "FAILED_PRECONDITION", ["protocol_version", "the worker versions 1 to 2"]),
    "protocols backwards": ({"version": 3, "newest": 2}, "INVALID_ARGUMENT", ["newest_protocol_version"]),
    "other weights": ({"fingerprint": "00" * 16}, "FAILED_PRECONDITION", ["fingerprint"]),
    "other layers": ({"num_layers": 31}, "FAILED_PRECONDITION", ["num_layers", "31"]),
    "other heads": ({"num_kv_heads": 4}, "FAILED_PRECONDITION", ["num_kv_heads", "4"]),
    "other head size": ({"head_dim": 128}, "FAILED_PRECONDITION", ["head_dim", "128"]),
    "other page size": ({"page_tokens": 32}, "FAILED_PRECONDITION", ["page_tokens", "32"]),
    "no data type": ({"data_type": 0}, "FAILED_PRECONDITION", ["data_type"]),
    "no layers": ({"num_layers": 0}, "FAILED_PRECONDITION", ["num_layers"]),
    "no fingerprint": ({"fingerprint": ""}, "FAILED_PRECONDITION", ["fingerprint"]),
}


@pytest.mark.parametrize("name", ATTACH)
def test_strangers_cannot_attach(nothing_lost, name):
    changes, code, words = ATTACH[name]
    got, details = outcome(kv_manager(nothing_lost).Attach, attach(nothing_lost, **changes))
    assert got == code, f"{got}: {details}"
    for word in words:
        assert word in details, f'"{word}" is not in "{details}"'


def session(stub, **hello):
    """How a session that begins so is refused."""
    request = kv_manager_pb2.SessionRequest(step=1, hello=kv_manager_pb2.SessionHello(**hello))
    return outcome(stub.Session, iter([request]))


def test_sessions_need_a_hello_of_a_worker(nothing_lost):
    stub = kv_manager(nothing_lost)
    code, details = outcome(stub.Session, iter([kv_manager_pb2.SessionRequest(step=1)]))
    assert code == "INVALID_ARGUMENT" and "hello" in details
    for name in ("", "worker-1", "nobody"):
        code, details = session(stub, worker_id=name, session_token="guess")
        assert code == "NOT_FOUND" and "hello.worker_id" in details and f'"{name}"' in details


def test_nobody_takes_over_a_running_worker(nothing_lost):
    (worker,) = nothing_lost.pool().workers
    assert worker.pid == nothing_lost.workers["worker"].pid
    for token in ("", "guess"):
        code, details = session(kv_manager(nothing_lost), worker_id=worker.worker_id, session_token=token)
        assert code == "FAILED_PRECONDITION" and f"{worker.worker_id} has a session already" in details
    assert [one.worker_id for one in nothing_lost.pool().workers] == [worker.worker_id]
    assert nothing_lost.stub.Score(score()[1], timeout=60).tokens


def test_sessions_need_their_token_and_the_pool(bfloat16):
    request = attach(bfloat16)
    with Node(pool="64MiB") as node:
        stub = kv_manager(node)
        attached, other = stub.Attach(request, timeout=10), stub.Attach(request, timeout=10)
        assert attached.session_token and attached.session_token != other.session_token
        for token in ("", "guess", attached.session_token[:-1], attached.export_token, other.session_token):
            code, details = session(stub, worker_id=attached.worker_id, session_token=token)
            assert code == "PERMISSION_DENIED" and "hello.session_token" in details, f"{code}: {details}"
        # The right one is not enough before the descriptors of the pool were fetched.
        code, details = session(stub, worker_id=attached.worker_id, session_token=attached.session_token)
        assert code == "FAILED_PRECONDITION" and "has not fetched the pool's descriptors" in details
