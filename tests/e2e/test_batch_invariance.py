"""Eight clients at once: what each gets is what it would get alone, and every page comes back."""

import random
import re
import threading
import time

import grpc
import pytest
from node import PATIENCE, cache, tokens, wait_until
from oracle_cases import CASES
from stubs import inference_pb2, types_pb2

SEED = 20260817
PROSE = next(case.prompt for case in CASES if case.name == "long_prose")
CANCELLED, EXPIRED = grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED


def make_request(rng):
    begin = rng.randrange(0, 600)
    kinds = ["full", "paged_eviction", "streaming_llm", "inverse_key_norm", "key_diff", "snap_kv", "random", "kv_crush",
             "query_diff"]
    policy = rng.choice(kinds)
    budget = 0 if policy == "full" else rng.choice([64, 128, 256])
    options = cache(policy, budget, "synchronous")
    if policy == "snap_kv":
        options.policy.snap_kv.window = rng.choice([1, 16, 32])
    if policy == "random":
        options.policy.random.seed = rng.randrange(2**63)  # unset, it is the sampling seed, which may be drawn
    if policy == "kv_crush":
        options.policy.kv_crush.share = rng.choice([0.125, 0.25, 0.5])
        options.policy.kv_crush.key_diff.SetInParent()
    if policy != "full" and rng.random() < 0.3:
        options.budget_schedule = types_pb2.BUDGET_SCHEDULE_PYRAMID
    sampling = types_pb2.SamplingParams()
    if rng.random() < 0.7:
        sampling = types_pb2.SamplingParams(
            temperature=rng.choice([0.5, 0.8, 1.2]), top_k=rng.choice([0, 5, 40]), top_p=0.95, seed=rng.randrange(2**63)
        )
    return inference_pb2.GenerateRequest(
        input=tokens(PROSE[begin : begin + rng.randrange(1, 400)]),
        # When a pipelined plan takes effect depends on timing, and so may what it leads to.
        cache=options,
        sampling=sampling,
        max_tokens=rng.randrange(20, 90),
        ignore_eos=rng.random() < 0.5,
        logprobs=2,
        report_evictions=True,
        label=f"others {begin}",
    )


def gather(call):
    """What must not depend on others: everything but times and the sequence's id."""
    events = list(call)
    assert [event.WhichOneof("event") for event in events].count("finished") == 1
    assert events[-1].HasField("finished")
    chunks = [event.chunk for event in events if event.HasField("chunk")]
    return {
        "text": "".join(chunk.text for chunk in chunks),
        "tokens": [token for chunk in chunks for token in chunk.tokens],
        "logprobs": [logprob.SerializeToString() for chunk in chunks for logprob in chunk.logprobs],
        "evictions": [event.eviction.SerializeToString() for event in events if event.HasField("eviction")],
        "reason": events[-1].finished.reason,
        "resident": events[-1].finished.cache.resident_tokens,
    }


def end_early(stub, request, rng):
    """Starts a request and ends it: by deadline, or by cancelling after some events."""
    if rng.random() < 0.5:
        call = stub.Generate(request, timeout=rng.uniform(0.005, 0.4))
        expected = EXPIRED
    else:
        call = stub.Generate(request, timeout=120)
        events = rng.randrange(0, 12)
        for _ in range(events):
            if next(call, None) is None:
                break
        call.cancel()
        expected = CANCELLED
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        assert error.code() == expected, error
        return error.code()
    return grpc.StatusCode.OK  # it was faster


def test_eight_clients_get_what_each_gets_alone(nothing_lost):
    stub = nothing_lost.stub
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    requests = [[make_request(rng) for _ in range(3)] for _ in range(8)]
    together, ends, failures = {}, [], []
    start = threading.Barrier(8)

    def client(index):
        mine = random.Random(SEED + 1 + index)
        try:
            start.wait()
            for number, request in enumerate(requests[index]):
                ends.append(end_early(stub, make_request(mine), mine))
                together[index, number] = gather(stub.Generate(request, timeout=120))
                time.sleep(mine.uniform(0, 0.05))
        except BaseException as failure:  # a thread's failure is the test's
            failures.append(failure)

    threads = [threading.Thread(target=client, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert len(together) == 24
    assert CANCELLED in ends and EXPIRED in ends, ends
    nothing_lost.assert_all_free()

    assert sum(bool(result["evictions"]) for result in together.values()) >= 5
    for (index, number), result in together.items():
        alone = gather(stub.Generate(requests[index][number], timeout=120))
        assert result == alone, f"client {index}, request {number}:\n{requests[index][number]}"


@pytest.mark.parametrize("policy", ["paged_eviction", "streaming_llm"])
def test_pipelined_streams_side_by_side(nothing_lost, policy):
    """Whatever the timing: complete, within two pages of the budget, and counted right."""
    stub, results, failures = nothing_lost.stub, [], []

    def client(index):
        request = inference_pb2.GenerateRequest(
            input=tokens(PROSE[: 50 * (index + 1)]),
            cache=cache(policy, 64, "pipelined"),
            max_tokens=100,
            ignore_eos=True,
        )
        try:
            events = list(stub.Generate(request, timeout=120))
            results.append((events[-1].finished, sum(len(event.chunk.tokens) for event in events)))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=client, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    for finished, count in results:
        assert count == finished.usage.generated_tokens == 100
        assert finished.cache.resident_tokens <= 64 + 2 * 16
        assert finished.cache.evicted_tokens >= finished.usage.prompt_tokens + 99 - 64 - 2 * 16
        fed = finished.usage.prompt_tokens + finished.usage.generated_tokens - 1
        assert finished.cache.resident_tokens + finished.cache.evicted_tokens == fed


def test_a_cancelled_call_gives_its_pages_back_within_a_step(nothing_lost):
    request = inference_pb2.GenerateRequest(input=tokens(PROSE), max_tokens=2000, ignore_eos=True, label="to be cancelled")
    worker = nothing_lost.workers["worker"]
    ended = re.compile(r'request ended .*label="to be cancelled" .*generated_tokens=(\d+) .*end=CANCELLED')
    with nothing_lost.closing("cancelled"):
        call = nothing_lost.stub.Generate(request)
        next(event for event in call if event.HasField("chunk"))
        (running,) = nothing_lost.sequences()
        assert running.held_pages > 0
        call.cancel()
    (generated,) = wait_until(lambda: ended.findall(worker.words()), PATIENCE, "the worker's line about the request")
    # A few steps pass until the worker hears of it, and a busy machine slows them too. The manager may hear of a step after the client.
    assert int(generated) - max(running.logical_length - running.prompt_tokens, 0) < 100
