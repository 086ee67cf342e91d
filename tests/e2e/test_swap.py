"""Swap memory: sequences that give their pages back go on where they were, and nothing is computed again."""

import subprocess

import gpu_node
import pytest
from gpu_node import GpuNode
from metrics import ENDPOINT, Metrics
from node import BIN, Node, side_by_side, wait_until
from streams import kill, outlive
from stubs import admin_pb2
from test_admission import REQUESTS, answers, asking, generated, parked

PROMPTS = sum(len(request.input.tokens.ids) for request in REQUESTS)


@pytest.fixture
def node(request):
    """Its pool holds some 1,090 tokens, and its swap memory what the parameter says, or three times as much."""
    swap = getattr(request, "param", "72MiB")
    with Node(pool="24MiB", manager_flags=[f"--host_swap_bytes={swap}", *ENDPOINT]) as node:
        yield node
        node.assert_alive()
        node.assert_all_free()
        (pool,) = node.admin.ListPools(admin_pb2.ListPoolsRequest()).pools
        assert pool.total_swap_slots > 0 and pool.used_swap_slots == 0


def run_together(node, stub, ranks=1):
    """Answers that do not depend on the company. Returns the tokens of prompts that were computed for them."""
    expected = answers(stub, ranks)
    before = Metrics(node.workers["worker"])("folio:prompt_tokens_total")
    assert side_by_side(*[lambda request=request: generated(stub, request) for request in REQUESTS]) == expected
    worker = Metrics(node.workers["worker"])
    assert worker("folio:num_preemptions_total") > 0
    return worker("folio:prompt_tokens_total") - before


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.long)])
def test_answers_are_the_same_and_no_token_is_computed_again(node, ranks):
    stub = node.start_worker(flags=[f"--tp={ranks}", *ENDPOINT])
    assert run_together(node, stub, ranks) == PROMPTS
    manager = Metrics(node.manager)
    out, back = manager("folio:sequences_swapped_out_total"), manager("folio:sequences_swapped_in_total")
    assert out == back == manager("folio:sequences_parked_total") > 0
    assert manager("folio:swapped_pages_total", direction="out") > 0
    assert manager("folio:swap_slots", state="held") == 0
    # The events and the log tell what became of a sequence.
    text = subprocess.run(
        [BIN / "folioctl", "events", "--kind", "sequence_parked", "--address", node.manager_address],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    assert "swapped" in text and "computed again" not in text
    node.manager.says("swap_slots=")


@pytest.mark.parametrize("ranks", [1, 2])
def test_pages_of_gpus_are_swapped_to_the_host_and_back(tiny_model, ranks):
    # The pool holds some 340 tokens.
    gpus = [str(gpu) for gpu in range(ranks)]
    devices = ",".join(f"cuda:{gpu}" for gpu in gpus)
    requests = [gpu_node.asking("full", gpu_node.PROMPT[:40]) for _ in range(3)]
    for i, request in enumerate(requests):
        request.max_tokens = 120
        request.sampling.temperature, request.sampling.seed = 0.8, i
    with GpuNode(devices, pool="512KiB", manager_flags=["--host_swap_bytes=2MiB", *ENDPOINT]) as node:
        stub = node.start_worker(
            model=tiny_model,
            flags=[f"--tp={ranks}", *ENDPOINT],
            environment={"CUDA_VISIBLE_DEVICES": ",".join(gpus)},
        )
        expected = [generated(stub, request) for request in requests]
        before = Metrics(node.workers["worker"])("folio:prompt_tokens_total")
        assert side_by_side(*[lambda request=request: generated(stub, request) for request in requests]) == expected
        assert Metrics(node.workers["worker"])("folio:prompt_tokens_total") - before == 3 * 40
        manager = Metrics(node.manager)
        swapped = manager("folio:sequences_swapped_out_total")
        assert swapped == manager("folio:sequences_parked_total") > 0
        node.assert_alive()
        node.assert_all_free()


@pytest.mark.parametrize("node", ["3MiB"], indirect=True)
def test_what_finds_no_room_is_computed_again(node):
    stub = node.start_worker(flags=ENDPOINT)
    assert run_together(node, stub) > PROMPTS
    manager = Metrics(node.manager)
    assert manager("folio:sequences_swapped_out_total") < manager("folio:sequences_parked_total")


def test_a_swapped_sequence_outlives_its_worker(node):
    first, second = node.start_worker("first"), node.start_worker("second", flags=ENDPOINT)
    requests = [asking(1000 + 100 * i, prompt=40, length=500) for i in range(3)]
    shown = []

    def swapped():
        shown[:] = [one for one in parked(node) if one.swap_slots]
        return shown

    def kill_and_look(node, name):
        kill(node, name)
        table = subprocess.run(
            [BIN / "folioctl", "pools", "--address", node.manager_address],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        assert "Swap memory of pool 1: " in table.stdout

    assert outlive(node, first, second, "first", requests, when=swapped, kill=kill_and_look) == 0
    assert shown[0].logical_length > 40


def test_swap_memory_that_is_of_no_use_is_refused():
    refused = subprocess.run(
        [BIN / "folio-manager", "--listen=unix:/tmp/unused.sock", "--admission=reserve", "--host_swap_bytes=1GiB"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert refused.returncode != 0 and "--admission=optimistic" in refused.stderr
    with Node(pool="24MiB", manager_flags=["--host_swap_bytes=1KiB"]) as node:
        worker = node.launch_worker("worker")
        wait_until(lambda: not worker.running(), 60, "the worker is refused")
        assert "--host_swap_bytes=1KiB holds 0 pages" in worker.words()
