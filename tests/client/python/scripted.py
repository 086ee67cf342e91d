"""A worker and manager that answer as a script says, in this process, and ways to ask them."""

import asyncio
import concurrent.futures
import time

import grpc
import pytest

from folio.v1 import admin_pb2, admin_pb2_grpc, inference_pb2, inference_pb2_grpc, types_pb2

RESPONSES = {
    "Score": inference_pb2.ScoreResponse,
    "Tokenize": inference_pb2.TokenizeResponse,
    "Detokenize": inference_pb2.DetokenizeResponse,
    "GetModel": inference_pb2.GetModelResponse,
    "ListPools": admin_pb2.ListPoolsResponse,
    "ListSequences": admin_pb2.ListSequencesResponse,
    "GetSequence": admin_pb2.GetSequenceResponse,
    "ExplainEviction": admin_pb2.ExplainEvictionResponse,
    "ListWorkers": admin_pb2.ListWorkersResponse,
}


def started():
    cache = types_pb2.CacheOptions(budget_tokens=64, sink_tokens=16)
    cache.policy.paged_eviction.SetInParent()
    return inference_pb2.GenerateResponse(
        started=inference_pb2.Started(sequence_id=7, prompt_tokens=3, cache=cache, seed=99)
    )


def chunk(text, *ids):
    return inference_pb2.GenerateResponse(chunk=inference_pb2.TokenChunk(text=text, tokens=ids))


def finished():
    return inference_pb2.GenerateResponse(
        finished=inference_pb2.Finished(
            reason=inference_pb2.FINISH_REASON_LENGTH, usage=inference_pb2.Usage(generated_tokens=2)
        )
    )


WHOLE = [started(), chunk("Hello", 1), chunk(" world", 2, 3), finished()]


class Refusal(Exception):
    """In a script: how a call ends."""

    def __init__(self, code, details="as scripted"):
        super().__init__(code, details)
        self.code, self.details = getattr(grpc.StatusCode, code), details


class Scripted(inference_pb2_grpc.InferenceServicer, admin_pb2_grpc.AdminServicer):
    """`script`: what each call in turn gets, and the last one all others too: a list of events or a response, with
    Refusals raised and numbers waited for, in seconds. `requests`: what came; `ended`: streams that are over. An address
    with port 0 gets a port when it starts first. With `credentials` of a gRPC server it speaks TLS there."""

    def __init__(self, address, script=(), credentials=None):
        self.address, self.script, self.credentials = address, list(script), credentials
        self.requests, self.ended = [], 0
        self.server = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        inference_pb2_grpc.add_InferenceServicer_to_server(self, self.server)
        admin_pb2_grpc.add_AdminServicer_to_server(self, self.server)
        if self.credentials is None:
            port = self.server.add_insecure_port(self.address)
        else:
            port = self.server.add_secure_port(self.address, self.credentials)
        if self.address.endswith(":0"):
            self.address = f"{self.address[:-1]}{port}"
        self.server.start()

    def stop(self):
        if self.server is not None:
            self.server.stop(None).wait()
            self.server = None

    def act(self, request, context):
        """Goes through this call's part of the script."""
        self.requests.append(request)
        part = self.script.pop(0) if len(self.script) > 1 else self.script[0] if self.script else []
        for step in part if isinstance(part, list) else [part]:
            if isinstance(step, Refusal):
                context.abort(step.code, step.details)
            elif isinstance(step, (int, float)):
                end = time.monotonic() + step
                while context.is_active() and time.monotonic() < end:
                    time.sleep(0.005)
            else:
                yield step

    def Generate(self, request, context):
        try:
            yield from self.act(request, context)
        finally:
            self.ended += 1

    WatchEvents = Generate


def _unary(method):
    def answer(self, request, context):
        return next(self.act(request, context), RESPONSES[method]())

    return answer


for _method in RESPONSES:
    setattr(Scripted, _method, _unary(_method))


both = pytest.mark.parametrize("kind", ["sync", "async"])


def wait_until(condition, timeout=60):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def run(kind, client, *arguments, **options):
    """The whole of a generation by either interface."""
    if kind == "sync":
        return client.generate(*arguments, **options).result()

    async def gather():
        return await client.agenerate(*arguments, **options).result()

    return asyncio.run(gather())
