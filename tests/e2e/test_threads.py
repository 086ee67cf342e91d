"""A seed repeats a run exactly, on any number of threads and with any chunk, in synchronous mode."""

import pytest
from node import Node, cache, tokens
from oracle_cases import CASES
from stubs import inference_pb2, types_pb2

PROSE = next(case.prompt for case in CASES if case.name == "long_prose")[:700]
POLICIES = {
    "full": ("full", {}),
    "paged_eviction": ("paged_eviction", {}),
    "key_diff": ("key_diff", {}),
    "snap_kv": ("snap_kv", {"window": 48}),
    "query_diff": ("query_diff", {"window": 24, "share": 0.4}),
    "random": ("random", {"seed": 11}),
    "kv_crush": ("kv_crush", {"share": 0.25, "anchor": "CRUSH_ANCHOR_RANDOM", "seed": 3}),
}


def request(policy):
    name, parameters = POLICIES[policy]
    options = cache(name, 0 if name == "full" else 256)
    for field, value in parameters.items():
        message = getattr(options.policy, name)
        if isinstance(value, str):
            value = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_name[value].number
        setattr(message, field, value)
    return inference_pb2.GenerateRequest(
        input=tokens(PROSE),
        cache=options,
        sampling=types_pb2.SamplingParams(temperature=0.9, top_p=0.95, seed=5),
        max_tokens=48,
        ignore_eos=True,
        logprobs=1,
        report_evictions=True,
    )


def answers(stub):
    """Policy -> all that is not a time or an id."""
    result = {}
    for policy in POLICIES:
        events = list(stub.Generate(request(policy), timeout=300))
        result[policy] = [
            event.chunk.SerializeToString() or event.eviction.SerializeToString()
            for event in events
            if event.WhichOneof("event") in ("chunk", "eviction")
        ]
        result[policy].append(events[-1].finished.cache.SerializeToString())
    return result


@pytest.fixture(scope="module")
def alone():
    with Node() as node:
        yield answers(node.start_worker(flags=["--threads=1"]))


@pytest.mark.parametrize("flags", [["--threads=3", "--prefill_chunk=100"], pytest.param(["--threads=2"], marks=pytest.mark.long)], ids=" ".join)
def test_a_seed_repeats_on_any_number_of_threads(alone, flags):
    with Node() as node:
        assert answers(node.start_worker(flags=flags)) == alone
        node.assert_all_free()


def test_evictions_are_among_what_repeats(alone):
    assert all(len(alone[policy]) > 48 + 1 for policy in POLICIES if policy != "full")
