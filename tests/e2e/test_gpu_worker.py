"""Workers on GPUs, all of the real processes but the GPU: `emulated_gpu_worker` is folio-worker as it is built with
CUDA, its kernels on the emulation of tests/gpu, and the driver is the stand-in of tests/manager/fake_gpu. The model is
a tiny one of random weights."""

import signal
import subprocess

import pytest
from gpu_node import (
    DRIVER, MOST, POLICIES, PROMPT, UUID, GpuNode, asking, assert_goes_on, assert_same_decisions,
    assert_same_tokens, mean_distance, scored,
)  # fmt: skip
from metrics import ENDPOINT, Metrics
from node import BIN, Node, wait_until, write_model
from streams import Stream, serves, whole
from stubs import inference_pb2, types_pb2


@pytest.fixture(scope="module")
def gpu(tiny_model):
    with GpuNode() as node:
        node.stub = node.start_worker(model=tiny_model)
        yield node
        node.assert_alive()
        node.assert_all_free()


def test_it_says_what_it_is(gpu):
    said = gpu.stub.GetModel(inference_pb2.GetModelRequest(), timeout=60)
    assert (said.device, said.compute, said.kernels) == ("cuda:0 emulated", "bfloat16", "libraries")
    assert said.weight_bytes > 2 * said.parameters
    words = gpu.workers["worker"].words()
    assert UUID in words and 'device="cuda:0 emulated"' in words
    shown = subprocess.run(
        [BIN / "folioctl", "model", f"--address={gpu.worker_address()}"], capture_output=True, text=True, check=True
    )
    assert "cuda:0 emulated" in shown.stdout


def test_weights_in_fp8(gpu, tiny_cpu, tiny_model):
    with GpuNode() as node:
        stub = node.start_worker(model=tiny_model, compute="fp8")
        said = stub.GetModel(inference_pb2.GetModelRequest(), timeout=60)
        assert said.compute == "fp8"
        plain = gpu.stub.GetModel(inference_pb2.GetModelRequest(), timeout=60)
        assert said.weight_bytes < 0.9 * plain.weight_bytes and said.layout.fingerprint == plain.layout.fingerprint
        expected = whole(tiny_cpu.stub, asking("full"))
        distance = mean_distance(scored(stub, "full", expected.tokens), scored(tiny_cpu.stub, "full", expected.tokens))
        assert 0.01 < distance < 0.4, "codes have four significant bits"
        node.assert_all_free()


@pytest.mark.parametrize("policy", POLICIES)
def test_it_says_what_the_cpu_says(gpu, tiny_cpu, policy):
    assert_same_tokens(gpu.stub, tiny_cpu.stub, policy)
    assert_same_decisions(gpu.stub, tiny_cpu.stub, policy, share=0.8)
    gpu.assert_all_free()


def test_kernels_of_its_own_say_what_the_cpu_says(tiny_model, tiny_cpu):
    with GpuNode() as node:
        stub = node.start_worker(model=tiny_model, flags=["--kernels=auto"])
        assert "kernels=cuda " in node.workers["worker"].words()
        for policy in ("full", "paged_eviction"):
            assert_same_tokens(stub, tiny_cpu.stub, policy)


@pytest.mark.parametrize("kernels", ["auto", "libraries"])
def test_heads_of_other_sizes_are_padded(kernels, tmp_path):
    model = write_model(tmp_path / "heads", "llama", 2048, 96)
    with Node(pool="8MiB") as other, GpuNode() as node:
        cpu, stub = other.start_worker(model=model), node.start_worker(model=model, flags=[f"--kernels={kernels}"])
        node.workers["worker"].says("heads are padded with zeros")
        assert stub.GetModel(inference_pb2.GetModelRequest(), timeout=60).layout.head_dim == 128
        assert_same_tokens(stub, cpu, "paged_eviction")
        # Keys are rounded after another factor, so that more of those that are nearly alike change places.
        policy, share = ("paged_eviction", 0.8) if kernels == "auto" else ("query_diff", 0.6)
        assert_same_decisions(stub, cpu, policy, share)
        node.assert_all_free()


def test_layers_with_windows(tmp_path):
    model = write_model(tmp_path / "gemma3", "gemma3", 512)
#The likeliest token of this model is always the same.
    sampling = types_pb2.SamplingParams(temperature=1, seed=7)
    with Node(pool="8MiB") as other, GpuNode(manager_flags=ENDPOINT) as node:
        cpu = other.start_worker(model=model)
        for kernels in ("libraries", "auto"):
            stub = node.start_worker(kernels, model=model, flags=[f"--kernels={kernels}"])
            for policy in ("full", "paged_eviction"):
                given = whole(cpu, asking(policy, sampling=sampling)).tokens
                assert mean_distance(scored(stub, policy, given), scored(cpu, policy, given)) < 0.03
        node.assert_all_free()
        assert Metrics(node.manager)("folio:window_pages_freed_total") > 0


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


def test_a_killed_worker_s_sequences_go_on_at_another_gpu_worker(tiny_model):
    with GpuNode() as node:
        first = node.start_worker("first", model=tiny_model)
        assert_goes_on(node, first, node.start_worker("second", model=tiny_model))


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


def test_it_goes_on_with_the_next_manager_and_loads_nothing_anew(tiny_model, tmp_path):
    with GpuNode() as node:
        stub = node.start_worker(model=tiny_model, environment={"FAKE_GPU_LOG": str(tmp_path / "driver.log")})
        before = whole(stub, asking("paged_eviction")).tokens
        node.manager.signal(signal.SIGKILL)
        node.manager.wait()
        node.start_manager()
        worker = node.workers["worker"]
        wait_until(lambda: worker.words().count("attached to the manager") == 2, 60, "it attaches anew")
        wait_until(lambda: serves(stub), 60, "it serves anew")
        assert whole(stub, asking("paged_eviction")).tokens == before
        assert worker.words().count("model loaded") == 1
        # The lost pool is let go of before the next one is created: there is one GPU's memory for both.
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
        assert node.workers.pop("worker").wait() == 1
        assert "restart it with --device=cuda" in worker.words()


def test_the_gpu_is_the_one_that_the_pages_are_on(tiny_model):
    """Two GPUs, of which the manager has the second; CUDA_VISIBLE_DEVICES numbers them for the worker."""
    with GpuNode("cuda:1") as node:
        # (CUDA_VISIBLE_DEVICES, --device, words)
        refused = [
            ("0", "cuda", ["does not see", "CUDA_VISIBLE_DEVICES"]),
            ("", "cuda", ["--device=cuda: the CUDA driver sees no GPU here", "use --device=cpu"]),
            ("1,0", "cuda:1", ["--device=cuda:1: that is " + UUID, "Fake H200", "which is cuda:0 here"]),
            ("1", "cuda:1", ["--device=cuda:1: there is no such GPU"]),
        ]
        for visible, device, words in refused:
            worker = node.launch_worker(
                "refused", flags=[f"--device={device}"], model=tiny_model, environment={"CUDA_VISIBLE_DEVICES": visible}
            )
            assert worker.wait() == 1
            assert all(word in worker.words() for word in words), worker.words()
            assert "loading the model" not in worker.words()
            node.workers.pop("refused")
        for i, (visible, device) in enumerate([("1,0", "cuda"), ("0,1", "cuda"), ("1,0", "cuda:0")]):
            stub = node.start_worker(
                f"w{i}", flags=[f"--device={device}"], model=tiny_model, environment={"CUDA_VISIBLE_DEVICES": visible}
            )
            said = stub.GetModel(inference_pb2.GetModelRequest(), timeout=60)
            assert said.device == f"cuda:{visible.split(',').index('1')} emulated"
            node.workers.pop(f"w{i}").stop()


def test_pages_in_host_memory_and_gpu_memory_that_is_too_small(tiny_model, gpu, tiny_cpu):
    for node, flags, words in [
        (tiny_cpu, [], ["--device=cuda: the manager's pages are in host memory", "this worker with --device=cpu"]),
        (gpu, ["--gpu_memory=100KiB"], ["GPU memory: the weights", "did not fit", "allowed"]),
        (gpu, ["--gpu_memory=10MiB"], ["GPU memory: the workspace of products", "did not fit"]),
    ]:
        worker = subprocess.run(
            [
                BIN / GpuNode.worker_binary, "--device=cuda", f"--manager={node.manager_address}", f"--model={tiny_model}",
                f"--listen=unix:{node.path}/refused.sock", "--prefill_chunk=512", *flags,
            ],
            env={**DRIVER}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        said = worker.stdout + worker.stderr
        assert worker.returncode == 1 and all(word in said for word in words), said
    gpu.assert_all_free()
