"""Workers that hang: somebody notices, and their clients continue elsewhere, token for token."""

import concurrent.futures
import os
import signal
import subprocess

import folio
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from gpu_node import PROMPT, GpuNode
from metrics import ENDPOINT, Metrics
from node import BIN, PATIENCE, Node, wait_until
from processes import Frozen, alive, children
from proxy import Proxy
from streams import MOST, PROSE, REQUESTS, alone, asking, kill
from stubs import inference_pb2

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
STEP_LOOP = "step-loop"
# As REQUESTS["sampled"], by the SDK.
ASKING = {"tokens": PROSE[:200], "max_tokens": MOST, "ignore_eos": True, "temperature": 0.8, "top_p": 0.9, "seed": 7}


def begin(client, **changed):
    """A generation that has given some tokens."""
    generation = client.generate(**{**ASKING, **changed}, timeout=120)
    for _, _ in zip(range(20), generation, strict=False):
        pass
    return generation


def health_of(node, name):
    """A way to ask that worker."""
    stub = health_pb2_grpc.HealthStub(node.connect(node.worker_address(name), node.workers[name]))
    return lambda: stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE).status


def health_until_the_end(node, name):
    """Starts to watch that worker, and gives a way to wait for all that it says of its health until its connection ends."""
    stub = health_pb2_grpc.HealthStub(node.connect(node.worker_address(name), node.workers[name]))
    watching = stub.Watch(health_pb2.HealthCheckRequest(), timeout=240)
    said = [next(watching).status]
    assert said == [SERVING]

    def rest():
        try:
            said.extend(answer.status for answer in watching)
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
        return said

    return rest


@pytest.mark.parametrize("flags", [pytest.param([], id="one rank"), pytest.param(["--tp=2"], id="two ranks", marks=pytest.mark.long)])
def test_a_worker_whose_step_loop_hangs_ends_itself(flags):
    with Node(pool="512MiB") as node:
        node.start_worker("first", flags=[*flags, "--step_timeout=3s"])
        second = node.start_worker("second", flags=flags)
        expected = alone(second, REQUESTS["sampled"], ranks=len(flags) + 1)
        worker, health = node.workers["first"], health_until_the_end(node, "first")
        ranks = children(worker.pid)
        assert len(ranks) == len(flags)
        addresses = [node.worker_address(name) for name in ("first", "second")]
        with folio.Client(addresses[0], standby=addresses[1:], resume=60) as client:
            generation = begin(client)
            with Frozen(worker.pid, STEP_LOOP):
                assert health()[-1] == NOT_SERVING
                assert worker.wait() == 3
            node.workers.pop("first")
            result = generation.result()
        assert list(result.tokens) == expected.tokens and result.text == expected.text
        assert "hangs" in worker.words() and "step_timeout=3s" in worker.words()
        (fenced,) = node.events("worker_fenced")
        assert fenced.text in {"process ended", "session ended"}, "its lease does not tell that it hangs"
        wait_until(lambda: not any(alive(rank) for rank in ranks), PATIENCE, "its ranks have ended too")
        node.assert_all_free()
        node.assert_alive()


def test_a_rank_that_hangs_ends_its_worker():
    """The leader's loop waits for it in a collective operation, and its other threads live."""
    with Node(pool="512MiB") as node:
        node.start_worker("first", flags=["--tp=2", "--step_timeout=4s"])
        second = node.start_worker("second", flags=["--tp=2"])
        expected = alone(second, REQUESTS["sampled"], ranks=2)
        worker, health = node.workers["first"], health_until_the_end(node, "first")
        (rank,) = children(worker.pid)
        addresses = [node.worker_address(name) for name in ("first", "second")]
        with folio.Client(addresses[0], standby=addresses[1:], resume=60) as client:
            generation = begin(client)
            os.kill(rank, signal.SIGSTOP)
            assert health()[-1] == NOT_SERVING
            assert worker.wait() == 3
            node.workers.pop("first")
            result = generation.result()
        assert list(result.tokens) == expected.tokens and result.text == expected.text
        assert "a step hangs, the process ends" in worker.words()
        wait_until(lambda: not alive(rank), PATIENCE, "the rank has ended too")
        node.assert_all_free()
        node.assert_alive()


def test_a_worker_whose_gpu_hangs_ends_itself(tiny_model):
    with GpuNode() as node:
        hangs = node.path / "hangs"
        node.start_worker("first", model=tiny_model, flags=["--step_timeout=4s"], environment={"FAKE_GPU_HANG": str(hangs)})
        node.start_worker("second", model=tiny_model)
        worker, health = node.workers["first"], health_until_the_end(node, "first")
        asking_gpu = {"tokens": PROMPT, "max_tokens": 100, "ignore_eos": True, "temperature": 0.8, "seed": 7}
        addresses = [node.worker_address(name) for name in ("first", "second")]
        with folio.Client(addresses[1]) as client:
            expected = client.generate(**asking_gpu).result()
        with folio.Client(addresses[0], standby=addresses[1:], resume=60) as client:
            generation = client.generate(**asking_gpu, timeout=120)
            for _, _ in zip(range(10), generation, strict=False):
                pass
            hangs.touch()
            assert health()[-1] == NOT_SERVING
            assert worker.wait() == 3
            node.workers.pop("first")
            result = generation.result()
        assert result.tokens == expected.tokens and result.text == expected.text
        assert "a step hangs, the process ends" in worker.words()
        node.assert_all_free()
        node.assert_alive()


def test_a_step_that_ends_after_all_ends_nothing():
    with Node(pool="512MiB", lease="2s") as node:
        stub = node.start_worker(flags=["--step_timeout=6s"])
        expected = alone(stub, REQUESTS["sampled"])
        health = health_of(node, "worker")
        with folio.Client(node.worker_address(), manager=node.manager_address) as client:
            generation = begin(client)
            with Frozen(node.workers["worker"].pid, STEP_LOOP):
                wait_until(lambda: health() == NOT_SERVING, PATIENCE, "health says NOT_SERVING")
            wait_until(lambda: health() == SERVING, PATIENCE, "health says SERVING again")
            assert list(generation.result().tokens) == expected.tokens
            # A step for each token, and the prompt's.
            wait_until(lambda: client.pools()[0].workers[0].steps_done >= MOST, PATIENCE, "the manager knows of its steps")
        assert "step_timeout=6s" in node.workers["worker"].words()
        table = subprocess.run(
            [BIN / "folioctl", "pools", "--address", node.manager_address], check=True, capture_output=True, text=True
        )
        assert "in step for" in table.stdout
        node.assert_all_free()
        node.assert_alive()


def test_an_idle_step_loop_is_watched_too():
    with Node(pool="512MiB") as node:
        node.start_worker(flags=["--step_timeout=2s"])
        worker = node.workers["worker"]
        with Frozen(worker.pid, STEP_LOOP):
            assert worker.wait() == 3
        assert "hangs between two steps" in worker.words()
        node.workers.pop("worker")


def test_clients_leave_a_worker_that_is_stopped():
    with Node(pool="512MiB", lease="2s") as node, concurrent.futures.ThreadPoolExecutor(1) as threads:
        first = node.start_worker("first")
        second = node.start_worker("second", flags=ENDPOINT)
        addresses = [node.worker_address(name) for name in ("first", "second")]
        expected = [alone(second, REQUESTS["sampled"]), alone(second, asking(prompt=PROSE[:60]))]
        prompt = first.Detokenize(inference_pb2.DetokenizeRequest(ids=PROSE[:60]), timeout=PATIENCE).text
        proxy = Proxy(node.path / "proxy.sock", addresses[0])
        with folio.Client(addresses[0], standby=addresses[1:], resume=60, keepalive=5) as client:
            folioctl = subprocess.Popen(
                [BIN / "folioctl", "generate", prompt, "--max_tokens", str(MOST), "--ignore_eos",
                 "--mode", "synchronous", "--address", proxy.address],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            text = folioctl.stdout.read1(20)
            generation = begin(client)
            os.kill(node.workers["first"].pid, signal.SIGSTOP)
            try:
                result = threads.submit(generation.result)
                asked = lambda: Metrics(node.workers["second"])("folio:resumed_requests_total")  # noqa: E731
                wait_until(asked, PATIENCE, "the SDK has left the worker and asks the standby")
                wait_until(lambda: proxy.left, PATIENCE, "folioctl has left the worker")
                proxy.target = addresses[1]
            finally:
                kill(node, "first")
            result = result.result()
        rest, errors = folioctl.communicate(timeout=120)
        proxy.close()
        assert list(result.tokens) == expected[0].tokens and result.text == expected[0].text
        assert folioctl.returncode == 0, errors
        assert (text + rest).decode().rstrip("\n") == expected[1].text.rstrip("\n")
        node.assert_all_free()


def test_with_all_defaults_a_stopped_worker_costs_no_token():
    """Nothing ends the stopped worker but the manager, in time for the client that looks for another one."""
    with Node(pool="512MiB", lease=None) as node:
        for name in ("first", "second"):
            node.start_worker(name)
        addresses = [node.worker_address(name) for name in ("first", "second")]
        with folio.Client(addresses[1]) as client:
            expected = client.generate(**ASKING).result()
        stopped = node.workers["first"]
        with folio.Client(addresses[0], standby=addresses[1:]) as client:
            generation = client.generate(**ASKING)
            for _, _ in zip(range(20), generation, strict=False):
                pass
            stopped.signal(signal.SIGSTOP)
            result = generation.result()
        assert result.tokens == expected.tokens and result.text == expected.text
        assert stopped.wait() == -signal.SIGKILL
        node.workers.pop("first")
        assert "killed a process of a fenced worker" in node.manager.words()
        node.assert_all_free()
        node.assert_alive()


def test_a_request_that_waits_is_begun_elsewhere_when_its_worker_dies():
    with Node(pool="512MiB", manager_flags=["--orphan_ttl=0s"]) as node:
        first = node.start_worker("first", flags=[*ENDPOINT, "--max_batch=1"])
        second = node.start_worker("second")
        expected = alone(second, REQUESTS["sampled"])
        addresses = [node.worker_address(name) for name in ("first", "second")]
        endless = asking("streaming_llm", 128)
        endless.max_tokens = 7000
        running = first.Generate(endless)
        next(event for event in running if event.HasField("chunk"))
        with folio.Client(addresses[0], standby=addresses[1:]) as client:
            waiting = client.generate(**ASKING, timeout=120)
            worker = node.workers["first"]
            wait_until(lambda: Metrics(worker)("folio:num_requests_waiting") == 1, PATIENCE, "the request waits")
            kill(node, "first")
            assert list(waiting.result().tokens) == expected.tokens
        node.assert_all_free()
