"""Workers on GPUs, all of the real processes but the GPU: `emulated_gpu_worker` is folio-worker as it is built with
CUDA, its kernels on the emulation of tests/gpu, and the driver is the stand-in of tests/manager/fake_gpu. The model is
a tiny one of random weights."""

import random
import signal
import subprocess

import pytest
from node import BIN, Node, cache, tokens, wait_until
from streams import Stream, go_on, start_and_kill, whole
from stubs import inference_pb2, types_pb2

FAKES = BIN.parent / "tests/manager/fake_gpu"
DRIVER = {"LD_LIBRARY_PATH": f"{FAKES}/cuda:{FAKES}/nvml"}
UUID = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
VOCABULARY = 300
PROMPT = random.Random(5).choices(range(3, VOCABULARY), k=150)
MOST = 48


class GpuNode(Node):
    worker_binary = "emulated_gpu_worker"

    def __init__(self, gpu=0, **options):
        super().__init__(pool="8MiB", manager_flags=[f"--device=cuda:{gpu}"], environment=DRIVER, **options)

    def launch_worker(self, name, compute="bfloat16", flags=(), model=None, environment=None):
        # Small steps: every kernel's thread takes its turn on the host.
        flags = ["--device=cuda", "--prefill_chunk=64", "--prefill_chunk_beside_decodes=32", "--max_batch=8", *flags]
        return super().launch_worker(name, compute, flags, model, environment)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model") / "tiny"
    subprocess.run([BIN / "write_tiny_model", directory], check=True)
    return directory


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


@pytest.fixture(scope="module")
def gpu(model):
    with GpuNode() as node:
        node.stub = node.start_worker(model=model)
        yield node
        node.assert_alive()
        node.assert_all_free()


@pytest.fixture(scope="module")
def cpu(model):
    with Node(pool="8MiB") as node:
        node.stub = node.start_worker(model=model)
        yield node


def scored(stub, policy, continuation):
    request = inference_pb2.ScoreRequest(
        input=tokens(PROMPT),
        continuation=tokens(continuation),
        cache=POLICIES[policy],
        top_logprobs=2,
        report_evictions=True,
    )
    return stub.Score(request, timeout=60)


def mean_distance(one, other):
    pairs = zip(one.tokens, other.tokens, strict=True)
    return sum(abs(a.logprob - b.logprob) for a, b in pairs) / len(one.tokens)


def test_it_says_what_it_is(gpu):
    said = gpu.stub.GetModel(inference_pb2.GetModelRequest(), timeout=10)
    assert (said.device, said.compute, said.kernels) == ("cuda:0 emulated", "bfloat16", "cuda")
    assert said.weight_bytes > 2 * said.parameters
    words = gpu.workers["worker"].words()
    assert UUID in words and 'device="cuda:0 emulated"' in words
    shown = subprocess.run(
        [BIN / "folioctl", "model", f"--address={gpu.worker_address()}"], capture_output=True, text=True, check=True
    )
    assert "cuda:0 emulated" in shown.stdout


@pytest.mark.parametrize("policy", POLICIES)
def test_it_says_what_the_cpu_says(gpu, cpu, policy):
    """Both compute in bfloat16 and round elsewhere. Beside each other they are 0.004 to 0.01 nats a token apart, as far
    as the CPU's own bfloat16 is from float32."""
    expected = whole(cpu.stub, asking(policy))
    got = whole(gpu.stub, asking(policy))
    assert got.finished.reason == expected.finished.reason
    by_cpu, by_gpu = scored(cpu.stub, policy, expected.tokens), scored(gpu.stub, policy, expected.tokens)
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
    if policy == "full":
        assert not by_gpu.evictions
        return
    # Without the eviction it would show.
    assert mean_distance(by_gpu, scored(cpu.stub, "full", expected.tokens)) > 0.06
    assert [event.step for event in by_gpu.evictions] == [event.step for event in by_cpu.evictions]
    dropped = same = 0
    for one, other in zip(by_gpu.evictions, by_cpu.evictions, strict=True):
        for mine, its in zip(one.layers, other.layers, strict=True):
            if one.step == -1:
                assert len(mine.kept) == len(its.kept) == 96
                assert len(set(mine.kept) & set(its.kept)) >= 0.9 * 96
            else:
                dropped += 1
                same += mine.dropped_block == its.dropped_block
    assert dropped >= 6 and same >= 0.8 * dropped
    gpu.assert_all_free()


def test_in_company_and_sampled_as_alone(gpu):
    requests = [
        asking(policy, PROMPT[: 40 + 30 * i], sampling=types_pb2.SamplingParams(temperature=0.9, seed=i))
        for i, policy in enumerate(POLICIES)
    ]
    for request in requests:
        request.max_tokens = 24
    alone = [whole(gpu.stub, request).tokens for request in requests]
    calls = [gpu.stub.Generate(request, timeout=60) for request in requests]
    together = [[token for event in call for token in event.chunk.tokens] for call in calls]
    assert together == alone and len({tuple(one) for one in alone}) == len(alone)


def test_a_killed_worker_s_sequences_go_on_at_another_gpu_worker(model):
    with GpuNode() as node:
        first = node.start_worker("first", model=model)
        second = node.start_worker("second", model=model)
        requests = [asking(policy) for policy in ("full", "paged_eviction", "kv_crush")]
        for request in requests:
            request.max_tokens = 120
        expected = [whole(second, request).tokens for request in requests]
        streams = start_and_kill(node, first, "first", requests)
        for stream, tokens_of_it in zip(streams, expected, strict=True):
            stream.prefilled = 0
            go_on(second, stream)
            assert stream.tokens == tokens_of_it and not stream.prefilled
        node.assert_all_free()
        node.assert_alive()


def test_pipelined_and_cancelled(gpu):
    """As clients ask by default: no step waits for the manager. Some lose interest on the way."""
    requests = [asking(policy, PROMPT[: 60 + 20 * i]) for i, policy in enumerate(POLICIES)]
    for request in requests:
        request.cache.eviction_mode = types_pb2.EVICTION_MODE_PIPELINED
    calls = [gpu.stub.Generate(request, timeout=60) for request in [*requests, *requests]]
    for call in calls[4:]:
        next(event for event in call if event.WhichOneof("event") == "chunk")
        call.cancel()
    for request, call in zip(requests, calls, strict=False):
        stream = Stream()
        stream.follow(call)
        assert len(stream.tokens) == MOST and stream.finished.usage.generated_tokens == MOST
        evicts = request.cache.policy.WhichOneof("kind") != "full"
        assert (stream.finished.cache.evicted_pages > 0) == evicts
    gpu.assert_all_free()


def test_it_goes_on_with_the_next_manager_and_loads_nothing_anew(model, tmp_path):
    with GpuNode() as node:
        stub = node.start_worker(model=model, environment={"FAKE_GPU_LOG": str(tmp_path / "driver.log")})
        before = whole(stub, asking("paged_eviction")).tokens
        node.manager.signal(signal.SIGKILL)
        node.manager.wait()
        node.start_manager()
        worker = node.workers["worker"]
        wait_until(lambda: worker.words().count("attached to the manager") == 2, 20, "it attaches anew")
        wait_until(lambda: worker.words().rstrip().endswith("INFO serving"), 20, "it serves anew")
        assert whole(stub, asking("paged_eviction")).tokens == before
        assert worker.words().count("model loaded") == 1
        # The lost pool is let go of before the next one is carved: there is one GPU's memory for both.
        calls = (tmp_path / "driver.log").read_text().split()
        assert [call for call in calls if call in ("cuMemImportFromShareableHandle", "cuMemUnmap")] == [
            "cuMemImportFromShareableHandle", "cuMemUnmap", "cuMemImportFromShareableHandle",
        ]  # fmt: skip
        node.assert_all_free()
        # One on another GPU is none for it: weights do not move.
        node.manager.signal(signal.SIGKILL)
        node.manager.wait()
        node.manager_arguments = [word.replace("cuda:0", "cuda:1") for word in node.manager_arguments]
        node.start_manager()
        assert node.workers.pop("worker").wait(20) == 1
        assert "start it anew with --device=cuda" in worker.words()


def test_the_gpu_is_the_one_that_the_pages_are_on(model):
    """Two GPUs, of which the manager has the second; CUDA_VISIBLE_DEVICES numbers them for the worker."""
    with GpuNode(gpu=1) as node:
        # (CUDA_VISIBLE_DEVICES, --device, words)
        refused = [
            ("0", "cuda", ["does not see", "CUDA_VISIBLE_DEVICES"]),
            ("", "cuda", ["--device=cuda: the CUDA driver sees no GPU here", "use --device=cpu"]),
            ("1,0", "cuda:1", ["--device=cuda:1: that is " + UUID, "Fake H200", "which is cuda:0 here"]),
            ("1", "cuda:1", ["--device=cuda:1: there is no such GPU"]),
        ]
        for visible, device, words in refused:
            worker = node.launch_worker(
                "refused", flags=[f"--device={device}"], model=model, environment={"CUDA_VISIBLE_DEVICES": visible}
            )
            assert worker.wait(20) == 1
            assert all(word in worker.words() for word in words), worker.words()
            assert "loading the model" not in worker.words()
            node.workers.pop("refused")
        for i, (visible, device) in enumerate([("1,0", "cuda"), ("0,1", "cuda"), ("1,0", "cuda:0")]):
            stub = node.start_worker(
                f"w{i}", flags=[f"--device={device}"], model=model, environment={"CUDA_VISIBLE_DEVICES": visible}
            )
            said = stub.GetModel(inference_pb2.GetModelRequest(), timeout=10)
            assert said.device == f"cuda:{visible.split(',').index('1')} emulated"
            node.workers.pop(f"w{i}").stop()


def test_pages_in_host_memory_and_gpu_memory_that_is_too_small(model, gpu, cpu):
    for node, flags, words in [
        (cpu, [], ["--device=cuda: the manager's pages are in host memory", "this worker with --device=cpu"]),
        (gpu, ["--gpu_memory=100KiB"], ["GPU memory: the weights", "did not fit", "allowed"]),
        (gpu, ["--gpu_memory=10MiB"], ["GPU memory: parts of attention", "did not fit"]),
    ]:
        worker = subprocess.run(
            [
                BIN / GpuNode.worker_binary, "--device=cuda", f"--manager={node.manager_address}", f"--model={model}",
                f"--listen=unix:{node.path}/refused.sock", *flags,
            ],
            env={**DRIVER}, capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        said = worker.stdout + worker.stderr
        assert worker.returncode == 1 and all(word in said for word in words), said
    gpu.assert_all_free()
