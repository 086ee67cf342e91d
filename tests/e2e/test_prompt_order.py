"""Short prompts do not wait for long ones: seen in the order of what a worker does, not by a clock."""

import concurrent.futures
import itertools

import grpc
import pytest
from node import Node, tokens, wait_until
from stubs import inference_pb2

CHUNK = 128
CHUNKS = 200
VOCABULARY = range(3, 300)


def asking(prompt, length):
    ids = itertools.islice(itertools.cycle(VOCABULARY), prompt)
    return inference_pb2.GenerateRequest(input=tokens(ids), max_tokens=length, ignore_eos=True)


@pytest.fixture(scope="module")
def stub(long_model):
    """A worker with a tiny model of a long context."""
    with Node(pool="128MiB") as node:
        yield node.start_worker(model=long_model, flags=[f"--prefill_chunk={CHUNK}"])
        node.assert_alive()
        node.assert_all_free()


class Prefill:
    """How far the prompt of a running call is, as a thread reads it."""

    def __init__(self, call):
        self.call, self.done, self.tokens = call, 0, 0

    def read(self):
        try:
            for event in self.call:
                self.done = max(self.done, event.prefill.done_tokens)
                self.tokens += len(event.chunk.tokens)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.CANCELLED, error


def test_a_short_prompt_does_not_wait_for_a_long_one(stub):
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        decoding = Prefill(stub.Generate(asking(20, 45_000), timeout=240))
        long = Prefill(stub.Generate(asking(CHUNK * CHUNKS, 1), timeout=240))
        try:
            threads.submit(decoding.read)
            wait_until(lambda: decoding.tokens, 120, "a sequence decodes")
            reading = threads.submit(long.read)
            wait_until(lambda: long.done >= 5 * CHUNK, 120, "the long prompt has begun")
            for _ in range(3):
                before = decoding.tokens
                short = stub.Generate(asking(20, 4), timeout=120)
                assert next(event for event in short if event.chunk.tokens)
                assert long.done < CHUNK * CHUNKS / 2, "the short prompt waited for most of the long one"
                assert decoding.tokens > before, "the stream that decodes was not stopped either"
                short.cancel()
            reading.result(240)
            assert long.done == CHUNK * CHUNKS and long.tokens == 1
        finally:
            decoding.call.cancel()
            long.call.cancel()


def test_and_a_long_one_ends_beside_many_short_ones(stub):
    """Short prompts that never cease take half of each step at most."""
    with concurrent.futures.ThreadPoolExecutor(5) as threads:
        long = Prefill(stub.Generate(asking(CHUNK * CHUNKS, 1), timeout=240))
        reading = threads.submit(long.read)
        asked = itertools.count()

        def ask():
            while not reading.done():
                next(asked)
                list(stub.Generate(asking(CHUNK - 30, 1), timeout=120))

        others = [threads.submit(ask) for _ in range(4)]
        reading.result(240)
        for other in others:
            other.result()
    assert long.tokens == 1 and next(asked) > 4
