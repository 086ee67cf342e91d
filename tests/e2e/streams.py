"""Generations that outlive their worker, and ways to kill it."""

import concurrent.futures
import os
import signal
import time

import grpc
import pytest
from metrics import Metrics
from node import PATIENCE, Node, cache, side_by_side, tokens, wait_until
from oracle_cases import CASES
from stubs import inference_pb2, types_pb2

PROSE = next(case.prompt for case in CASES if case.name == "prose")
LONG = next(case.prompt for case in CASES if case.name == "long_prose")
MOST = 160


def asking(policy="full", budget=0, prompt=PROSE[:200], mode="synchronous", **sampling):
    return inference_pb2.GenerateRequest(
        input=tokens(prompt),
        cache=cache(policy, budget, mode),
        sampling=types_pb2.SamplingParams(**sampling),
        max_tokens=MOST,
        ignore_eos=True,
        label=policy,
    )


REQUESTS = {
    "full": asking(),
    "paged_eviction": asking("paged_eviction", 64),
    "paged_eviction without compaction": asking("paged_eviction", 224),
    "query_diff": asking("query_diff", 96),
    "sampled": asking(temperature=0.8, top_p=0.9, seed=7),
    "sampled streaming_llm": asking("streaming_llm", 64, temperature=0.8, seed=8),
}


class Stream:
    """What came of one generation, by however many calls."""

    def __init__(self):
        self.tokens, self.text, self.started, self.finished, self.prefilled = [], "", None, None, 0

    def take(self, event):
        self.tokens += event.chunk.tokens
        self.text += event.chunk.text
        kind = event.WhichOneof("event")
        if kind == "started":
            self.started = event.started
        elif kind == "finished":
            self.finished = event.finished
        elif kind == "prefill":
            self.prefilled += 1

    def follow(self, call, stop=lambda stream: False):
        """Takes events until the end or until `stop` says so. What the worker had sent when it died counts too."""
        try:
            for event in call:
                self.take(event)
                if stop(self):
                    return
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error

    def resume(self, **changed):
        fields = {
            "sequence_id": self.started.sequence_id,
            "resume_token": self.started.resume_token,
            "received_tokens": self.tokens,
            **changed,
        }
        return inference_pb2.GenerateRequest(resume=inference_pb2.Resume(**fields))


def whole(stub, request):
    stream = Stream()
    stream.follow(stub.Generate(request, timeout=120))
    assert len(stream.tokens) == request.max_tokens and stream.finished is not None
    return stream


_ALONE = {}


def _key(request, ranks=1):
    return request.SerializeToString(deterministic=True), ranks


def alone(stub, request, ranks=1):
    """As `whole`, but computed once in a run of the tests: the answer depends neither on the worker nor on its company.
    For the reference model in bfloat16 alone."""
    key = _key(request, ranks)
    if key not in _ALONE:
        _ALONE[key] = whole(stub, request)
    return _ALONE[key]


def all_alone(requests):
    """As `alone` for each. Those that are not known yet are computed together, in a pool that has room for all of them."""
    missing = [request for request in requests if _key(request) not in _ALONE]
    if missing:
        with Node() as node:
            stub = node.start_worker()
            together = side_by_side(*[lambda request=request: whole(stub, request) for request in missing])
            assert not node.events("sequence_parked")
        _ALONE.update((_key(request), stream) for request, stream in zip(missing, together, strict=True))
    return [_ALONE[_key(request)] for request in requests]


def refused(stub, request):
    """The status and words of a request that is refused before anything comes of it."""
    with pytest.raises(grpc.RpcError) as failure:
        list(stub.Generate(request, timeout=PATIENCE))
    return failure.value.code(), failure.value.details()


def go_on(stub, stream, timeout=PATIENCE):
    """Resumes as soon as the manager lets."""
    deadline = time.monotonic() + timeout
    while True:
        call = stub.Generate(stream.resume(), timeout=120)
        try:
            stream.take(next(call))
            break
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE and time.monotonic() < deadline, error
            time.sleep(0.05)
    stream.follow(call)


def serves(stub):
    """Whether a worker answers. One that looks for a manager refuses."""
    stream = Stream()
    stream.follow(stub.Generate(inference_pb2.GenerateRequest(input=tokens([5]), max_tokens=1, ignore_eos=True), timeout=120))
    return stream.finished is not None


def kill(node, name):
    process = node.workers.pop(name)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def start_and_kill(node, stub, name, requests, least=25, kill=kill, when=None):
    """Streams of these requests, cut when the worker is killed: once each has some tokens, or when `when()` is true."""
    streams = [Stream() for _ in requests]
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as threads:
        calls = [stub.Generate(request, timeout=120) for request in requests]
        following = [threads.submit(stream.follow, call) for stream, call in zip(streams, calls, strict=True)]
        begun = when or (lambda: all(len(stream.tokens) >= least for stream in streams))
        wait_until(begun, 120, "the streams are where the worker is to be killed")
        kill(node, name)
        for one in following:
            one.result()
    assert all(stream.finished is None for stream in streams)
    return streams


def outlive(node, first, second, name, requests, when, kill=kill):
    """Kills worker `name` when `when()` is true. The requests go on at the second worker, token for token. Returns the
    tokens of prompts that it computed for that; it must serve metrics."""
    expected = [stream.tokens for stream in all_alone(requests)]
    streams = start_and_kill(node, first, name, requests, kill=kill, when=when)
    (worker,) = node.workers.values()
    before = Metrics(worker)("folio:prompt_tokens_total")
    side_by_side(*[lambda stream=stream: go_on(second, stream) for stream in streams])
    assert [stream.tokens for stream in streams] == expected
    return Metrics(worker)("folio:prompt_tokens_total") - before
