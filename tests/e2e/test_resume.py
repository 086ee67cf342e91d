"""The SDK and folioctl go on by themselves when a worker is lost."""

import signal
import subprocess

import folio
import pytest
from node import BIN, Node
from streams import MOST, PROSE, REQUESTS, Stream, alone, asking, go_on, kill
from stubs import inference_pb2


@pytest.fixture
def node():
    with Node(pool="512MiB") as node:
        yield node
        node.assert_all_free()
        node.assert_alive()


ASKING = {"tokens": PROSE[:200], "max_tokens": MOST, "ignore_eos": True, "temperature": 0.8, "top_p": 0.9, "seed": 7}


def begun(client):
    """A generation that has some tokens already."""
    generation = client.generate(**ASKING, timeout=120)
    for _, _ in zip(range(20), generation, strict=False):
        pass
    return generation


def test_the_sdk_goes_on_at_a_standby(node):
    first = node.start_worker("first")
    node.start_worker("second")
    expected = alone(first, REQUESTS["sampled"])
    with folio.Client(node.worker_address("first"), standby=[node.worker_address("second")]) as client:
        generation = begun(client)
        kill(node, "first")
        result = generation.result()
    assert list(result.tokens) == expected.tokens and result.text == expected.text
    assert result.finished.reason == "length"


def test_the_sdk_goes_on_when_the_worker_is_started_anew(node):
    expected = alone(node.start_worker("worker"), REQUESTS["sampled"])
    with folio.Client(node.worker_address(), resume=60) as client:
        generation = begun(client)
        kill(node, "worker")
        node.launch_worker("worker")
        assert list(generation.result().tokens) == expected.tokens


def test_the_sdk_goes_on_when_a_hung_worker_is_killed():
    # The client waits for a worker that keeps the connection open, and the manager ends it.
    with Node(pool="512MiB", lease="2s", manager_flags=["--kill_fenced_after=1s"]) as node:
        first = node.start_worker("first")
        node.start_worker("second")
        expected = alone(first, REQUESTS["sampled"])
        with folio.Client(node.worker_address("first"), standby=[node.worker_address("second")]) as client:
            generation = begun(client)
            hung = node.workers.pop("first")
            hung.signal(signal.SIGSTOP)
            try:
                result = generation.result()
                assert hung.wait() == -signal.SIGKILL
            finally:
                hung.popen.kill()
                hung.wait()
        assert list(result.tokens) == expected.tokens and result.text == expected.text
        assert "killed a process of a fenced worker" in node.manager.words()
        node.assert_all_free()
        node.assert_alive()


def test_the_sdk_gives_up(node):
    node.start_worker("first")
    with folio.Client(node.worker_address("first"), resume=0.5) as client:
        generation = client.generate(**ASKING, timeout=120)
        next(generation)
        kill(node, "first")
        with pytest.raises(folio.Unavailable):
            generation.result()
    second = node.start_worker("second")
    rest = Stream()
    rest.started, rest.tokens = generation.started, []
    go_on(second, rest)
    assert len(rest.tokens) == MOST


def test_folioctl_goes_on_when_the_worker_is_started_anew(node):
    expected = alone(node.start_worker("worker"), asking(prompt=PROSE[:60]))
    ids = inference_pb2.DetokenizeRequest(ids=PROSE[:60])
    stub = node.start_worker("spare")
    prompt = stub.Detokenize(ids, timeout=60).text
    process = subprocess.Popen(
        [BIN / "folioctl", "generate", prompt, "--max_tokens", str(MOST), "--ignore_eos",
         "--mode", "synchronous", "--address", node.worker_address()],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    first = process.stdout.read1(20)
    kill(node, "worker")
    node.launch_worker("worker")
    rest, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert (first + rest).decode().rstrip("\n") == expected.text.rstrip("\n")
