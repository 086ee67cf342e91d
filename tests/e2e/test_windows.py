"""Layers that attend to a window: pages behind it are free at once, counted and shown, and no failure changes an answer."""

import subprocess

import pytest
from metrics import ENDPOINT, Metrics
from node import BIN, Node, cache, side_by_side, tokens, write_model
from streams import Stream, go_on, kill, start_and_kill, whole
from stubs import inference_pb2, types_pb2
from test_restart import Kept, kill_both, kill_the_manager

# The tiny model's: layers 0 and 1 of 3 attend to 40 tokens.
WINDOW, STRIDE, PAGE, LOCAL = 40, 64, 16, 2
PROMPT = [(11 * i) % 250 + 3 for i in range(200)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("windows") / "gemma3", "gemma3", 4096)


def asking(policy="full", budget=0, most=400, prompt=PROMPT):
    # The likeliest token of a model of random weights is always the same.
    sampling = types_pb2.SamplingParams(temperature=1, seed=7)
    return inference_pb2.GenerateRequest(
        input=tokens(prompt), cache=cache(policy, budget), sampling=sampling, max_tokens=most, ignore_eos=True, label=policy
    )


# So long that no stream ends before its worker is killed.
REQUESTS = [asking(most=2500), asking("paged_eviction", 64, 2500), asking("streaming_llm", 96, 2500, PROMPT[:50])]


def behind(length):
    full = length // PAGE * PAGE
    return LOCAL * max(0, (full - WINDOW) // STRIDE * (STRIDE // PAGE))


def test_pages_behind_are_counted_and_shown(model):
    with Node(pool="8MiB", manager_flags=ENDPOINT) as node:
        stub = node.start_worker(model=model, flags=["--prefill_chunk=64"])
        call = stub.Generate(asking(most=3500), timeout=120)
        next(event for event in call if event.HasField("chunk"))
        # What a report says of one length fits together, however far the sequence is meanwhile.
        (sequence,) = node.decoding()
        assert sequence.pages_behind_windows == behind(sequence.logical_length) > 0
        assert sequence.evicted_tokens == 0 and sequence.evicted_pages == 0
        everything = 3 * -(-sequence.logical_length // PAGE)
        assert sequence.held_pages <= everything - sequence.pages_behind_windows + 3 * 2
        command = [BIN / "folioctl", f"--address={node.manager_address}", "sequence", str(sequence.sequence_id)]
        assert "behind windows" in subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        call.cancel()
        node.assert_all_free()
        freed = Metrics(node.manager)("folio:window_pages_freed_total")
        finished = whole(stub, asking()).finished
        # The token that was sampled last is not in the cache.
        assert Metrics(node.manager)("folio:window_pages_freed_total") - freed == behind(len(PROMPT) + 400 - 1)
        assert finished.cache.evicted_tokens == 0
        node.assert_alive()


def test_budgets_are_for_the_other_layers(model):
    with Node(pool="8MiB") as node:
        stub = node.start_worker(model=model)
        finished = whole(stub, asking("paged_eviction", 32)).finished
        # The budget and two pages of one layer, and the window and two pages of the others.
        assert finished.cache.evicted_tokens >= len(PROMPT) + 400 - 1 - 32 - 2 * PAGE
        assert finished.cache.resident_tokens <= WINDOW + STRIDE + 2 * PAGE
        node.assert_all_free()


@pytest.mark.parametrize("flags", [(), ("--tp=2",)], ids=["one rank", "two ranks"])
@pytest.mark.parametrize("killed", [kill, kill_the_manager, kill_both])
def test_streams_go_on_token_for_token(model, flags, killed):
    with Kept(pool="8MiB") as node:
        start = lambda name="worker": node.start_worker(name, model=model, flags=[*flags, "--prefill_chunk=64"])  # noqa: E731
        stub = start()
        expected = [whole(stub, request) for request in REQUESTS]
        assert len({tuple(stream.tokens) for stream in expected}) == len(REQUESTS)
        streams = start_and_kill(node, stub, "worker", REQUESTS, kill=killed)
        if killed is not kill:
            node.start_manager()
        if killed is not kill_the_manager:
            stub = start("next")
        for stream, unbroken in zip(streams, expected, strict=True):
            go_on(stub, stream)
            assert stream.tokens == unbroken.tokens and stream.text == unbroken.text
        node.assert_all_free()


@pytest.mark.parametrize("swap", [(), ("--host_swap_bytes=4MiB",)], ids=["computed again", "swapped"])
def test_parked_sequences_come_back(model, swap):
    requests = [asking(most=500, prompt=PROMPT[i:] + PROMPT[:i]) for i in range(8)]
    with Node(pool="8MiB") as node:
        stub = node.start_worker(model=model)
        expected = [whole(stub, request) for request in requests]
        page = node.pool().page_bytes
    # Room for three of them: each comes to 44 pages in its layer without a window, and some in the others.
    with Node(pool=str(3 * 60 * page), manager_flags=[*swap, *ENDPOINT]) as node:
        stub = node.start_worker(model=model)
        together = side_by_side(*[lambda request=request: whole(stub, request) for request in requests])
        assert [stream.tokens for stream in together] == [stream.tokens for stream in expected]
        metrics = Metrics(node.manager)
        assert metrics("folio:sequences_parked_total") > 0
        assert bool(swap) == (metrics("folio:sequences_swapped_in_total") > 0)
        node.assert_all_free()
        node.assert_alive()


def test_a_worker_with_longer_chunks_goes_on_with_a_prompt(model):
    with Node(pool="8MiB", manager_flags=["--orphan_ttl=1h"]) as node:
        stub = node.start_worker(model=model, flags=["--prefill_chunk=16"])
        # So long that it has not ended when its worker is killed, however late that is.
        request = asking(most=1500, prompt=PROMPT * 10)
        expected = whole(stub, request)
        stream = Stream()
        stream.follow(stub.Generate(request, timeout=120), stop=lambda stream: stream.prefilled == 9)
        kill(node, "worker")
        go_on(node.start_worker("next", model=model, flags=["--prefill_chunk=512"]), stream)
        assert stream.tokens == expected.tokens
        node.assert_all_free()
