"""Operators of a manager with --access: what each right allows, and what log and metrics tell of refusals."""

import os
import re
import subprocess
import sys
import time

import pytest
from access import DENIED, TOKENS, UNAUTHENTICATED, AccessNode, asking, bearer, lines, refusal
from access import node  # noqa: F401 - the fixture
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from metrics import ENDPOINT, Metrics
from node import BIN, PATIENCE, Node
from stubs import ROOT, admin_pb2


# What each method of Admin needs. A new method belongs here.
ROLES = {
    **dict.fromkeys(
        ["ListPools", "ListSequences", "GetSequence", "ExplainEviction", "GetManager", "ListWorkers", "WatchEvents", "ListTenants",
         "ListPages"], "view"),
    **dict.fromkeys(["CloseSequence", "ParkSequence", "PinSequence", "LowerBudget", "SetQuota", "Drain", "ReleaseQuarantine"], "steer"),
}  # fmt: skip


def test_each_call_of_admin_needs_its_right(node):
    methods = admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods
    assert {method.name for method in methods} == ROLES.keys(), "say in ROLES what the new method needs"
    for method in methods:
        request = getattr(admin_pb2, method.input_type.name)()
        for caller in ("alice", "viewer", "gateway", "steerer", "unknown", None):
            metadata = bearer(caller) if caller else ()
            code, words = refusal(lambda: getattr(node.admin, method.name)(request, metadata=metadata, timeout=PATIENCE))
            what = (method.name, caller, code, words)
            if caller == "unknown":
                assert code == UNAUTHENTICATED, what
            elif caller == "alice" or (ROLES[method.name] == "steer" and caller != "steerer"):
                assert code == DENIED and f"needs the right {ROLES[method.name]}" in words, what
            else:
                assert code not in (DENIED, UNAUTHENTICATED), what
    node.admin.Drain(admin_pb2.DrainRequest(undo=True), metadata=bearer("steerer"))


def test_health_and_reflection_stay_open(node):
    for address, process in ((node.manager_address, node.manager), (node.worker_address(), node.workers["worker"])):
        channel = node.connect(address, process)
        assert health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()).status == 1
        assert "grpc.health.v1.Health" in ProtoReflectionDescriptorDatabase(channel).get_services()


def test_refusals_are_counted_and_logged_without_the_token(long_model):
    with AccessNode(lines(), manager_flags=ENDPOINT, worker_flags=ENDPOINT) as node:
        stub = node.start_worker(model=long_model)
        for process, call in ((node.manager, lambda secret: node.admin.Drain(admin_pb2.DrainRequest(), metadata=bearer(secret))),
                              (node.workers["worker"], lambda secret: stub.Generate(asking(), metadata=bearer(secret)))):  # fmt: skip
            refusal(lambda: call("a-token-of-nobody"))
            refusal(lambda: call("viewer"))
            process.says("a call was refused", times=2)
            told = [line for line in process.words().splitlines() if "a call was refused" in line]
            assert all("WARN" in line and "peer=unix:" in line for line in told)
            assert all(re.search(r"call=(Drain|Generate) ", line) for line in told)
            assert "caller=unknown" in told[0] and "UNAUTHENTICATED" in told[0]
            assert "no tenant, token of line" in told[1] and "PERMISSION_DENIED" in told[1]
            metrics = Metrics(process)
            assert metrics("folio:calls_refused_total", reason="unauthenticated") == 1
            assert metrics("folio:calls_refused_total", reason="permission_denied") == 1
            for _ in range(100):
                refusal(lambda: call("a-token-of-nobody"))
            assert Metrics(process)("folio:calls_refused_total", reason="unauthenticated") == 101
            time.sleep(1.1)
            refusal(lambda: call("a-token-of-nobody"))
            process.says("not_logged=")
            assert 20 <= process.words().count("a call was refused") < 60, "a flood does not fill the log"
            assert not any(secret in process.words() for secret in (*TOKENS.values(), "a-token-of-nobody"))
        node.admin.Drain(admin_pb2.DrainRequest(undo=True, reason="audit"), metadata=bearer("steerer"))
        node.manager.says("reason=audit")
        (line,) = (line for line in node.manager.words().splitlines() if "reason=audit" in line)
        assert 'caller="no tenant, token of line 6"' in line, line


def test_without_steering_nobody_acts(long_model):
    with AccessNode(lines(), manager_flags=["--steering=false"]) as node:
        code, words = refusal(lambda: node.admin.Drain(admin_pb2.DrainRequest(), metadata=bearer("steerer")))
        assert (code, "--steering=false" in words) == (DENIED, True)


def test_users_of_the_machine_without_the_right_reach_no_socket(node):
    """The modes of the sockets come before all identities."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    program = (
        "import os, socket, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        socket.socket(socket.AF_UNIX).connect(path)\n"
        "        print('open')\n"
        "    except PermissionError:\n"
        "        print('denied')\n"
    )
    node.path.chmod(0o711)  # so that the sockets themselves decide
    sockets = [str(path) for path in sorted(node.path.glob("*.sock"))]
    assert [os.path.basename(path) for path in sockets] == ["export.sock", "manager.sock", "worker.sock"]
    done = subprocess.run([sys.executable, "-c", program, *sockets], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.split() == ["denied"] * 3, done.stderr


@pytest.mark.parametrize("daemon", ["folio-manager", "folio-worker"])
def test_a_wrong_file_is_refused_at_the_start(daemon, tmp_path, long_model):
    path = tmp_path / "access"
    path.write_text("tenant a\n\ntoken sha256:12 a\n")
    flags = [f"--access={path}", f"--listen=unix:{tmp_path}/x.sock"]
    flags += [f"--model={long_model}"] if daemon == "folio-worker" else [f"--export_socket={tmp_path}/e.sock", "--pool_bytes=8MiB"]
    for change, words in ((lambda: None, "line 3: token needs sha256:"), (path.unlink, "there is no such file")):
        change()
        done = subprocess.run([BIN / daemon, *flags], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and words in done.stderr and str(path) in done.stderr, done.stderr


def test_the_example_of_the_documents_is_right(tmp_path):
    text = (ROOT / "docs/operating.md").read_text()
    (example,) = (block for block in text.split("```")[1::2] if "\ntoken sha256:" in block)
    path = tmp_path / "access"
    path.write_text(example)
    with Node(pool="8MiB", manager_flags=[f"--access={path}"]) as node:
        tenants = {tenant.tenant: tenant.quota for tenant in node.admin.ListTenants(admin_pb2.ListTenantsRequest()).tenants}
        assert (tenants["alice"].sequences, tenants["alice"].pages, tenants["alice"].requests_per_minute) == (8, 20000, 600)
        node.admin.Drain(admin_pb2.DrainRequest(undo=True))  # by the line unix
