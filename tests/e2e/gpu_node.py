"""Nodes on GPUs that are emulated: folio-worker as it is built with CUDA, its kernels on the emulation of tests/gpu, and
a driver that is the stand-in of tests/manager/fake_gpu. The model is a tiny one of random weights."""

import random
import subprocess

from node import BIN, Node, cache, tokens
from streams import go_on, kill, start_and_kill, whole
from stubs import inference_pb2, types_pb2

FAKES = BIN.parent / "tests/manager/fake_gpu"
DRIVER = {"LD_LIBRARY_PATH": f"{FAKES}/cuda:{FAKES}/nvml"}
UUID = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
VOCABULARY = 300
PROMPT = random.Random(5).choices(range(3, VOCABULARY), k=150)
MOST = 48


class GpuNode(Node):
    worker_binary = "emulated_gpu_worker"

    def __init__(self, devices="cuda:0", environment=None, pool="8MiB", manager_flags=()):
        environment = {**DRIVER, **(environment or {})}
        super().__init__(pool=pool, manager_flags=[f"--device={devices}", *manager_flags], environment=environment)

    def launch_worker(self, name, compute="bfloat16", flags=(), model=None, environment=None):
        # Small steps: every kernel's thread takes its turn on the host.
        # The library's stand-ins compute each row by itself, so that tokens do not depend on what else is in a step.
        flags = ["--device=cuda", "--kernels=libraries", "--prefill_chunk=64", "--prefill_chunk_beside_decodes=32",
                 "--max_batch=8", *flags]  # fmt: skip
        return super().launch_worker(name, compute, flags, model, environment)


def kv_crush(budget):
    options = cache("full", budget)
    options.policy.CopyFrom(types_pb2.Policy(kv_crush=types_pb2.KvCrushPolicy(share=0.25)))
    options.policy.kv_crush.paged_eviction.SetInParent()
    return options


POLICIES = {
    "full": cache("full"),
    "paged_eviction": cache("paged_eviction", 96),
    "query_diff": cache("query_diff", 96),
    "kv_crush": kv_crush(96),
}


def asking(policy, prompt=PROMPT, **fields):
    return inference_pb2.GenerateRequest(
        input=tokens(prompt), cache=POLICIES[policy], max_tokens=MOST, ignore_eos=True, **fields
    )


def scored(stub, policy, continuation):
    request = inference_pb2.ScoreRequest(
        input=tokens(PROMPT),
        continuation=tokens(continuation),
        cache=POLICIES[policy],
        top_logprobs=2,
        report_evictions=True,
    )
    return stub.Score(request, timeout=240)


def mean_distance(one, other):
    pairs = zip(one.tokens, other.tokens, strict=True)
    return sum(abs(a.logprob - b.logprob) for a, b in pairs) / len(one.tokens)


def assert_same_tokens(gpu, cpu, policy):
    """Both compute in bfloat16 and round elsewhere. Beside each other they are 0.004 to 0.01 nats a token apart, as far
    as the CPU's own bfloat16 is from float32."""
    expected = whole(cpu, asking(policy))
    got = whole(gpu, asking(policy))
    assert got.finished.reason == expected.finished.reason
    by_cpu, by_gpu = scored(cpu, policy, expected.tokens), scored(gpu, policy, expected.tokens)
    # Given the same tokens they choose the same next one, but where the two best are a rounding apart; left to
    # themselves, until the first such step.
    gaps = [token.top[0].logprob - token.top[1].logprob for token in by_cpu.tokens]
    certain = [step for step, gap in enumerate(gaps) if gap > 0.05]
    assert len(certain) > MOST / 2
    for step in certain:
        assert by_gpu.tokens[step].top[0].token == by_cpu.tokens[step].top[0].token
    begin = next((step for step in range(MOST) if step not in certain), MOST)
    assert got.tokens[:begin] == expected.tokens[:begin]
    assert mean_distance(by_gpu, by_cpu) < 0.03
    if policy != "full":
        # Without the eviction it would show.
        assert mean_distance(by_gpu, scored(cpu, "full", expected.tokens)) > 0.06


def assert_same_decisions(gpu, cpu, policy, share):
    """At least `share` of them: tokens whose scores are a rounding apart change places."""
    given = whole(cpu, asking(policy)).tokens
    by_cpu, by_gpu = scored(cpu, policy, given), scored(gpu, policy, given)
    assert [event.step for event in by_gpu.evictions] == [event.step for event in by_cpu.evictions]
    assert bool(by_gpu.evictions) == (policy != "full")
    dropped = same = 0
    for one, other in zip(by_gpu.evictions, by_cpu.evictions, strict=True):
        for mine, its in zip(one.layers, other.layers, strict=True):
            if one.step == -1:
                assert len(mine.kept) == len(its.kept) == 96
                assert len(set(mine.kept) & set(its.kept)) >= share * 96
            else:
                dropped += 1
                same += mine.dropped_block == its.dropped_block
    assert same >= share * dropped and (dropped >= 6 or policy == "full")


def assert_goes_on(node, first, second, kill=kill):
    """What the worker "first" was decoding when it was killed the second one goes on with, token for token."""
    requests = [asking(policy) for policy in ("full", "paged_eviction", "kv_crush")]
    for request in requests:
        request.max_tokens = 120
    expected = [whole(second, request).tokens for request in requests]
    streams = start_and_kill(node, first, "first", requests, kill=kill)
    for stream, tokens_of_it in zip(streams, expected, strict=True):
        stream.prefilled = 0
        go_on(second, stream)
        assert stream.tokens == tokens_of_it and not stream.prefilled
    node.assert_all_free()
    node.assert_alive()
