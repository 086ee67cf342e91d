"""What operators are told of a manager that was started again, and what of theirs it keeps."""

import contextlib
import re
import resource
import subprocess

import folio
import grpc
from access import TOKENS, AccessNode, lines
from metrics import ENDPOINT, Metrics
from node import BIN, PATIENCE, wait_until
from streams import REQUESTS, asking, go_on, serves, start_and_kill, whole
from stubs import admin_pb2
from test_restart import Kept, kill_both, kill_the_manager

OUTCOMES = ("continued", "computed_again", "lost")


def boot_of(node):
    return node.admin.GetManager(admin_pb2.GetManagerRequest(), timeout=PATIENCE).boot_id


def boots_of_events(node):
    return {one.boot_id for one in node.admin.WatchEvents(admin_pb2.WatchEventsRequest(), timeout=PATIENCE)}


def folioctl(node, *arguments):
    command = [BIN / "folioctl", "--address", node.manager_address, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


def kill_and_forget(node):
    """As an operator does who wants to begin without the sequences."""
    node.kill_the_manager()
    for file in node.state.iterdir():
        file.unlink()


def outcomes(metrics):
    return [metrics("folio:restart_sequences_total", outcome=one) for one in OUTCOMES]


def test_a_restart_is_told_in_events_metrics_and_ids():
    with Kept(pool="256MiB", manager_flags=ENDPOINT) as node:
        stub = node.start_worker()
        boot = boot_of(node)
        assert re.fullmatch("[0-9a-f]{32}", boot) and boots_of_events(node) == {boot}
        assert f"boot {boot}" in folioctl(node, "pools") and f"boot_id={boot}" in node.manager.words()
        assert not node.events("manager_restarted")
        metrics = Metrics(node.manager)
        assert metrics("folio:restart_seconds", until="serving") > 0
        assert metrics("folio:restart_workers_total") == metrics("folio:journal_failed") == 0
        assert metrics("folio:journal_files_total") == 1 and metrics("folio:journal_failures_total") == 0

        (stream,) = start_and_kill(node, stub, "worker", [REQUESTS["full"]], kill=kill_the_manager)
        node.start_manager()
        go_on(stub, stream)
        assert boot_of(node) != boot and boots_of_events(node) == {boot_of(node)}
        (event,) = node.events("manager_restarted")
        assert (event.sequences, event.workers) == (1, 1)
        words = "0 of them are to be computed again, and 0 others ended"
        assert event.text == words and f"1 sequences, 1 workers, {words}" in folioctl(node, "events")
        metrics = Metrics(node.manager)
        assert outcomes(metrics) == [1, 0, 0] and metrics("folio:restart_workers_total") == 1
        assert 0 < metrics("folio:restart_seconds", until="serving") < metrics("folio:restart_seconds", until="memory")
        assert metrics("folio:journal_entries_total") > 10
        assert metrics("folio:journal_written_bytes_total") >= metrics("folio:journal_bytes") > 1000
        node.assert_all_free()


def test_sequences_without_their_memory_are_told():
    with Kept(pool="64MiB", manager_flags=ENDPOINT) as node:
        start_and_kill(node, node.start_worker("first"), "first", [REQUESTS["full"]], kill=kill_both)
        node.start_manager()
        node.manager.says("the pool has new memory")
        metrics = Metrics(node.manager)
        assert outcomes(metrics) == [0, 1, 0] and metrics("folio:restart_workers_total") == 0
        assert metrics("folio:restart_seconds", until="memory") > 0


def test_an_id_of_before_names_nothing_after_all_was_forgotten(tiny_model):
    with Kept(pool="64MiB") as node:
        stub = node.start_worker(model=tiny_model)
        first = whole(stub, asking(prompt=[1, 2, 3])).started.sequence_id
        assert 0 < first < 2**53 and first % 1_000_000 == 1
        kill_and_forget(node)
        node.start_manager()
        wait_until(lambda: serves(stub), PATIENCE, "the worker serves again")
        second = whole(stub, asking(prompt=[1, 2, 3])).started.sequence_id
        assert first // 1_000_000 != second // 1_000_000


def test_quotas_of_operators_stay_also_after_a_failure_of_the_journal():
    with Kept(pool="64MiB", manager_flags=ENDPOINT) as node, folio.Client(manager=node.manager_address) as client:

        def quotas():
            return {tenant.tenant: tenant.quota for tenant in client.tenants()}

        def killed_and_started():
            node.kill_the_manager()
            node.start_manager()
            node.manager.says("folio-manager started")

        batch, late = folio.Quota(sequences=3, pages=None, requests_per_minute=60), folio.Quota(sequences=None, pages=5)
        node.manager.says("folio-manager started")
        client.set_quota("batch", sequences=3, requests_per_minute=60)
        client.set_quota("other", pages=9)
        client.set_quota("other")
        killed_and_started()
        assert quotas() == {"batch": batch}

        node.manager.says("listening for metrics")  # before its log can be written no more
        pid = node.manager.pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, before[1]))
        client.set_quota("late", pages=5)
        (event,) = wait_until(lambda: node.events("journal_failed"), PATIENCE, "the failure is an event")
        assert event.code == "OUT_OF_RANGE" and event.text.startswith("cannot write ") and "File too large" in event.text, event
        metrics = Metrics(node.manager)
        assert metrics("folio:journal_failed") == 1 and metrics("folio:journal_failures_total") >= 1
        assert not list(node.state.glob("journal-*"))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        wait_until(lambda: node.events("journal_resumed"), PATIENCE, "it works again")
        assert Metrics(node.manager)("folio:journal_failed") == 0
        killed_and_started()
        assert quotas() == {"batch": batch, "late": late}


def test_the_access_file_counts_before_the_quotas_of_operators(tmp_path):
    text = lines(alice="sequences=1", unix="unix - view")
    with (
        AccessNode(text, manager_flags=[f"--state_dir={tmp_path}/state"]) as node,
        folio.Client(manager=node.manager_address, token=TOKENS["steerer"]) as client,
    ):
        node.manager.says("folio-manager started")
        client.set_quota("alice", sequences=7)
        client.set_quota("bob", sequences=8)
        for left in ({"alice": 1, "bob": 8}, {"bob": 8}):
            node.manager.popen.kill()
            node.manager.wait()
            node.start_manager()
            node.manager.says("folio-manager started")
            assert {one.tenant: one.quota.sequences for one in client.tenants()} == left
            node.text = lines()  # for the next one


def test_new_sizes_are_not_ignored_in_silence(tiny_model):
    with Kept(pool="64MiB") as node:
        node.start_worker(model=tiny_model)
        node.kill_the_manager()
        node.start_manager()
        node.manager.says("the pool's memory is back")
        assert "the pool keeps the size that it had" not in node.manager.words()
        node.kill_the_manager()
        node.manager_arguments = [one.replace("=64MiB", "=96MiB") for one in node.manager_arguments] + ["--host_swap_bytes=8MiB"]
        node.start_manager()
        node.manager.says("the pool's memory is back")
        (line,) = [line for line in node.manager.words().splitlines() if "the pool keeps the size that it had" in line]
        assert "kept_pool_bytes=64MiB pool_bytes=96MiB kept_host_swap_bytes=0B host_swap_bytes=8MiB" in line
        assert "remove the files in its --state_dir" in line and node.pool().pool_bytes <= 64 << 20
        # What the line says to do gives it the new size. The worker lives on.
        kill_and_forget(node)
        node.start_manager()
        node.manager.says("folio-manager started")

        def resized():
            with contextlib.suppress(grpc.RpcError):  # the connection may still be that to the manager before
                return node.pools() and node.pool().pool_bytes > 64 << 20

        wait_until(resized, PATIENCE, "the pool has the new size")
        assert node.pool().total_swap_slots > 0
