"""An operator lowers the budget of a running sequence: its policy evicts down to it while the answer continues."""

import concurrent.futures
import json
import math

import folio
import grpc
import numpy as np
import pytest
from node import MODEL, PATIENCE, Node, wait_until
from oracle_cases import EvictingTwin
from streams import LONG, PROSE, Stream, asking, go_on, kill
from stubs import admin_pb2, types_pb2
from test_admission import asking as asking_tokens
from watching import folioctl

LAYERS, PAGE = 30, 16
SLACK = 2 * PAGE  # a page that fills beside a plan, and the newest one


@pytest.fixture(scope="module")
def node():
    """Its pool holds some 1,090 tokens, and its swap memory as many."""
    with Node(pool="24MiB", manager_flags=["--orphan_ttl=1h", "--host_swap_bytes=24MiB"]) as node:
        node.stub = node.start_worker()
        yield node
        node.assert_alive()
        node.assert_all_free()


def evicting(policy="paged_eviction", budget=512, length=300, prompt=PROSE[:200], mode="pipelined"):
    request = asking(policy, budget, prompt=prompt, mode=mode)
    request.max_tokens = length
    return request


class Running:
    """A stream that a thread follows to its end."""

    def __init__(self, threads, stub, request, least=1, stream=None):
        self.request, self.stream = request, stream or Stream()
        self.future = threads.submit(self.stream.follow, stub.Generate(request, timeout=240))
        self.wait_for(least)

    @property
    def id(self):
        return self.stream.started.sequence_id

    def wait_for(self, tokens):
        wait_until(lambda: len(self.stream.tokens) >= tokens or self.future.done(), 120, f"{tokens} tokens")

    def end(self):
        """The whole stream, with every token that it was to have."""
        self.future.result(240)
        assert self.stream.finished is not None
        assert len(self.stream.tokens) == self.request.max_tokens
        return self.stream


@pytest.fixture
def threads():
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        yield threads


def evict(node, sequence, budget, *arguments, code=0):
    return folioctl(node, "evict", str(sequence), f"--budget={budget}", *arguments, code=code)


def comes_down(node, sequence, budget):
    """The sequence once each of its layers is within the budget."""

    def within():
        layers = node.sequence(sequence).layers
        return all(layer.resident_tokens < budget + PAGE for layer in layers)

    wait_until(within, PATIENCE, f"sequence {sequence} comes down to {budget} tokens")
    return node.sequence(sequence)


def test_others_get_the_pages_and_the_answer_continues(node, threads):
    large = Running(threads, node.stub, evicting(length=700), least=260)  # 460 tokens of 1,090
    assert node.sequence(large.id).sequence.resident_tokens > 400
    # It needs more than is left.
    waiting = threads.submit(lambda: list(node.stub.Generate(asking_tokens(prompt=720, length=8), timeout=240)))
    wait_until(lambda: node.events("sequence_waiting"), PATIENCE, "a sequence waits for pages")
    said = evict(node, large.id, 63, "--reason", "the day begins")
    assert said.startswith(f"Sequence {large.id} may keep 64 tokens in each layer. ")
    went = int(said.split("layer. ")[1].split(" ")[0].replace(",", ""))
    assert went >= LAYERS * (400 - 64) // PAGE
    shown = comes_down(node, large.id, 64)
    assert shown.sequence.cache.budget_tokens == 64
    assert shown.sequence.held_pages <= LAYERS * (64 + SLACK) // PAGE
    # Plan by plan, a page of each layer.
    drops = [plan for plan in shown.plans if not plan.compaction]
    assert len(drops) >= (400 - 64) // PAGE and all(plan.freed_pages == LAYERS for plan in drops)
    assert all(len(plan.losses) == LAYERS and plan.losses[0].tokens == PAGE for plan in drops)
    waiting.result(240)
    assert large.future.running(), "it made room while it ran"
    ended = large.end()
    assert ended.finished.cache.resident_tokens < 64 + SLACK
    assert ended.finished.cache.plans > len(drops)
    (event,) = node.events("budget_lowered")
    assert (event.sequence_id, event.tokens, event.pages, event.text) == (large.id, 64, went, "the day begins")
    assert event.worker_id == node.pool().workers[0].worker_id
    assert "budget_lowered" in folioctl(node, "events", "--kind", "budget_lowered")
    assert "an operator lowers the budget of a sequence" in node.manager.words()


# The window of snap_kv and the half of query_diff's budget that is its prompt's need more.
POLICIES = {
    "paged_eviction": 64, "streaming_llm": 64, "key_diff": 64, "snap_kv": 80, "query_diff": 96, "kv_crush": 64,
    "random": 64,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["pipelined", "synchronous"])
def test_every_policy_comes_down(node, threads, mode):
    runs = []
    for policy, budget in POLICIES.items():
        request = evicting(policy, 128, length=160, prompt=PROSE[:100], mode=mode)
        if policy == "kv_crush":
            request.cache.policy.kv_crush.key_diff.SetInParent()
        runs.append(Running(threads, node.stub, request, least=20))
        evict(node, runs[-1].id, budget)
    for (policy, budget), run in zip(POLICIES.items(), runs, strict=True):
        ended = run.end()
        assert ended.finished.cache.resident_tokens < budget + SLACK, policy
        assert ended.finished.cache.peak_resident_tokens < 128 + SLACK, policy


def test_layers_that_decide_together_and_budgets_by_layer(node, threads):
    shared = evicting(budget=160, length=400, prompt=PROSE[:120])
    shared.cache.layers = types_pb2.LAYERS_SHARED
    by_layer = evicting(budget=0, length=400, prompt=PROSE[:120])
    by_layer.cache.layer_budget_tokens.extend([160] * 10 + [48] * 10 + [96] * 10)
    runs = [Running(threads, node.stub, request, least=10) for request in (shared, by_layer)]
    for run in runs:
        evict(node, run.id, 80)
    assert list(node.sequence(runs[1].id).sequence.cache.layer_budget_tokens) == [80] * 10 + [48] * 10 + [80] * 10
    for run in runs:
        comes_down(node, run.id, 80)
    tables = node.sequence(runs[0].id).layers
    assert all(table.kept == tables[0].kept for table in tables), "layers that decide together hold the same tokens"
    for run in runs:
        assert run.end().finished.cache.resident_tokens < 80 + SLACK


def test_a_prompt_that_was_compacted_comes_down_further(node, threads):
    whole = evicting(budget=256, length=400, prompt=LONG[:500])
    streamed = evicting(budget=256, length=400, prompt=LONG[:500])
    streamed.cache.compaction = types_pb2.COMPACTION_STREAMED
    streamed.cache.compaction_stride_tokens = 128
    for request in (whole, streamed):
        run = Running(threads, node.stub, request)
        evict(node, run.id, 96)
        assert comes_down(node, run.id, 96).plans[0].compaction
        run.end()


class Watched(Stream):
    """A stream that keeps the evictions which its client is told of."""

    def __init__(self):
        super().__init__()
        self.evictions = []

    def take(self, event):
        super().take(event)
        if event.HasField("eviction"):
            self.evictions.append(event.eviction)


def test_the_twin_would_drop_the_same_pages(threads):
    """Each page that goes is the one that is worth least, in a cache that lost the pages before it."""
    request = evicting(length=100, prompt=PROSE[:160])
    request.report_evictions = True
    with Node(pool="96MiB") as node:
        run = Running(threads, node.start_worker(compute="float32"), request, least=20, stream=Watched())
        evict(node, run.id, 96)
        played = run.end()
    twin, fed = EvictingTwin(MODEL), 0
    kept = twin.prefilled(tuple(PROSE[:160]))
    drops = []
    for one in played.evictions:
        drops += [(one.step, layer, table.dropped_block) for layer, table in enumerate(one.layers)]
    assert len(drops) >= LAYERS * (180 - 96) // PAGE
    for step, layer, block in drops:
        if step >= fed:
            twin.twin.hidden(np.array(played.tokens[fed : step + 1]), first=160 + fed, attention=kept.attend)
            fed = step + 1
        tokens = kept.token_scores("paged_eviction", layer)
        pages = tokens[: len(tokens) // PAGE * PAGE].reshape(-1, PAGE).mean(1)
        # The last of them may have filled after the decision.
        candidates = pages[1:-2]
        assert 0 < block < len(pages) - 1
        assert pages[block] <= candidates.min() + 0.01 * candidates.std(), f"step {step}, layer {layer}"
        kept.drop(layer, block)
    assert len(kept.keys[0]) <= 96 + PAGE


@pytest.mark.parametrize("swap", [True, False])
def test_a_parked_sequence_comes_down_again(threads, swap):
    flags = ["--host_swap_bytes=24MiB"] if swap else []
    with Node(pool="48MiB", manager_flags=flags) as node:
        stub = node.start_worker()
        run = Running(threads, stub, evicting(length=200), least=20)
        evict(node, run.id, 64)
        run.wait_for(60)
        before = list(run.stream.tokens)
        folioctl(node, "park", str(run.id))
        wait_until(lambda: node.events("sequence_parked"), PATIENCE, "it is parked")
        run.wait_for(len(before) + 20)
        comes_down(node, run.id, 64)
        ended = run.end()
        assert ended.tokens[: len(before)] == before, "no token is sent again or changed"
        assert ended.finished.cache.resident_tokens < 64 + SLACK
        (event,) = node.events("sequence_parked")
        assert ("swapped" in event.text) == swap
        node.assert_all_free()


def test_another_worker_continues_to_evict(threads):
    with Node(pool="48MiB", manager_flags=["--orphan_ttl=1h"]) as node:
        first, second = node.start_worker("first"), node.start_worker("second")
        run = Running(threads, first, evicting(length=400), least=250)
        before = node.sequence(run.id).sequence.resident_tokens
        evict(node, run.id, 64)
        wait_until(lambda: node.sequence(run.id).sequence.resident_tokens < before, PATIENCE, "it shrinks")
        kill(node, "first")
        run.future.result(PATIENCE)
        stream = run.stream
        assert stream.finished is None
        # An order for a sequence without a worker counts as well.
        evict(node, run.id, 48)
        go_on(second, stream)
        assert len(stream.tokens) == 400 and stream.finished is not None
        assert stream.finished.cache.resident_tokens < 48 + SLACK
        node.assert_all_free()
        node.assert_alive()


def test_what_is_refused(node, threads):
    full = Running(threads, node.stub, asking_tokens(length=600), least=1)
    assert "policy full evicts nothing" in evict(node, full.id, 64, code=8)
    run = Running(threads, node.stub, evicting(budget=128, length=600, prompt=PROSE[:100]), least=1)
    assert "lowers nothing" in evict(node, run.id, 128, code=5)
    assert "need at least 32" in evict(node, run.id, 16, code=5)
    assert "need at least 32" in evict(node, run.id, 0, code=5)
    assert "reason" in evict(node, run.id, 64, "--reason", "x" * 257, code=5)
    evict(node, 999999, 64, code=4)
    both = json.loads(folioctl(node, "evict", str(run.id), "--budget=64", "--output=json"))
    assert both[0] | {"pages_over_budget": 0} == {
        "sequence_id": str(run.id), "order": "evict", "budget_tokens": 64, "pages_over_budget": 0,
    }  # fmt: skip
    folioctl(node, "close", str(full.id), str(run.id))
    for one in (full, run):
        with pytest.raises(AssertionError, match="ABORTED"):
            one.future.result(PATIENCE)
    node.assert_all_free()


def test_a_prompt_in_prefill_keeps_its_budget():
    with Node(pool="96MiB") as node, concurrent.futures.ThreadPoolExecutor(1) as threads:
        stub = node.start_worker(flags=["--prefill_chunk=16"])
        request = evicting(budget=256, length=8, prompt=(LONG * math.ceil(3000 / len(LONG)))[:3000])
        call = stub.Generate(request, timeout=240)
        started = next(event for event in call if event.HasField("started")).started
        assert "its prompt is in prefill" in evict(node, started.sequence_id, 64, code=8)
        assert not node.events("budget_lowered")
        call.cancel()
        node.assert_all_free()


def test_the_sdk_lowers_budgets(node):
    with folio.Client(node.worker_address(), manager=node.manager_address) as client:
        settings = {"policy": "streaming_llm", "budget": 256, "max_tokens": 200, "ignore_eos": True}
        with client.generate(tokens=list(PROSE[:200]), **settings) as stream:
            next(stream)
            sequence = stream.started.sequence_id
            wait_until(lambda: node.sequence(sequence).sequence.logical_length > 200, PATIENCE, "it decodes")
            assert client.lower_budget(sequence, 64, "a test") >= LAYERS * (192 - 64) // PAGE
            assert client.sequence(sequence).sequence.cache.budget_tokens == 64
            with pytest.raises(folio.InvalidArgument, match="lowers nothing"):
                client.lower_budget(sequence, 64)
            with pytest.raises(ValueError, match="budget_tokens must be at least 0"):
                client.lower_budget(sequence, -1)
            stream.text()
        wait_until(lambda: not client.sequences(), PATIENCE, "the sequence is closed")
        with pytest.raises(folio.NotFound):
            client.lower_budget(sequence, 32)


def test_a_manager_without_steering_lowers_nothing():
    with Node(pool="64MiB", manager_flags=["--steering=false"]) as node:
        node.start_worker()
        with pytest.raises(grpc.RpcError) as refused:
            node.admin.LowerBudget(admin_pb2.LowerBudgetRequest(sequence_id=1, budget_tokens=64))
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
