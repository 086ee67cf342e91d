"""300 calls at once, several times as many as run at a time: each gets what it would get alone, and every page comes back."""

import concurrent.futures
import os
import random
import threading

import grpc
import pytest
from metrics import ENDPOINT, Metrics
from node import PATIENCE, Node, cache, tokens
from stubs import inference_pb2, inference_pb2_grpc, types_pb2
from test_batch_invariance import gather

CALLS, CHANNELS, MOST = 300, 6, 64
POLICIES = ["full", "paged_eviction", "streaming_llm", "inverse_key_norm", "key_diff", "snap_kv", "random", "kv_crush",
            "query_diff"]  # fmt: skip
BUDGETS = [48, 64, 96]


def make_request(rng, number):
    policy = POLICIES[number % len(POLICIES)]
    long_answer = rng.random() < 0.3
    most = rng.randrange(100, 160) if long_answer else rng.randrange(1, 40)
    prompt = [rng.randrange(3, 250) for _ in range(rng.randrange(1, 16 if long_answer else 160))]
    budget = 0 if policy == "full" else rng.choice(BUDGETS)
    options = cache(policy, budget, stride=rng.choice([None, 32]) if policy == "streaming_llm" else None)
    if policy == "random":
        options.policy.random.seed = rng.randrange(2**63)
    if policy == "snap_kv":
        options.policy.snap_kv.window = rng.choice([1, 16, 32])
    if policy == "kv_crush":
        options.policy.kv_crush.key_diff.SetInParent()
    sampling = types_pb2.SamplingParams()
    if rng.random() < 0.5:
        temperature, top_k = rng.choice([0.5, 1.2]), rng.choice([0, 40])
        sampling = types_pb2.SamplingParams(temperature=temperature, top_k=top_k, seed=rng.randrange(2**63))
    return inference_pb2.GenerateRequest(
        input=tokens(prompt), cache=options, sampling=sampling, max_tokens=most, ignore_eos=rng.random() < 0.8,
        logprobs=rng.choice([0, 2]), report_evictions=True, priority=rng.choice([-1, 0, 0, 1]), tenant=f"tenant {number % 3}",
        label=f"{policy} {number}",
    )  # fmt: skip


class Watch:
    """The most requests that ran and that waited at one moment, as the worker's metrics tell, while the block runs."""

    def __init__(self, worker):
        self.worker, self.running, self.waiting, self.over = worker, 0, 0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(0.01):
            metrics = Metrics(self.worker)
            self.running = max(self.running, metrics("folio:num_requests_running"))
            self.waiting = max(self.waiting, metrics("folio:num_requests_waiting"))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@pytest.mark.parametrize("pool", ["64MiB", "1MiB"], ids=["room for all", "room for few"])
def test_each_of_many_calls_gets_what_it_gets_alone(tiny_model, pool):
    seed = int(os.environ.get("FOLIO_FUZZ_SEED") or random.randrange(2**32))
    print(f"repeat with FOLIO_FUZZ_SEED={seed}")
    rng = random.Random(seed)
    requests = [make_request(rng, number) for number in range(CALLS)]
    start = threading.Barrier(CALLS)
    with Node(pool=pool) as node:
        node.start_worker(model=tiny_model, flags=[f"--max_batch={MOST}", *ENDPOINT])
        # Without the option they would share one connection.
        apart = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.insecure_channel(node.worker_address(), apart) for _ in range(CHANNELS)]
        stubs = [inference_pb2_grpc.InferenceStub(channel) for channel in channels]

        def ask(number):
            start.wait(PATIENCE)
            return gather(stubs[number % CHANNELS].Generate(requests[number], timeout=4 * PATIENCE))

        with Watch(node.workers["worker"]) as watch, concurrent.futures.ThreadPoolExecutor(CALLS) as threads:
            together = list(threads.map(ask, range(CALLS)))
        node.assert_all_free()
        print(f"most running {watch.running}, most waiting {watch.waiting}, parked {len(node.events('sequence_parked'))}")
        assert 0 < watch.running <= MOST and watch.waiting > 0
        assert sum(bool(answer["evictions"]) for answer in together) > CALLS // 4
        assert len({tuple(answer["tokens"]) for answer in together}) > CALLS // 2
        for number, (request, answer) in enumerate(zip(requests, together, strict=True)):
            alone = gather(stubs[number % CHANNELS].Generate(request, timeout=PATIENCE))
            assert alone == answer, request
        node.assert_all_free()
        node.assert_alive()
        for channel in channels:
            channel.close()
