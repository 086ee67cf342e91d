"""The requests that clients send again and again, and the answers that a calm node gives to them."""

import random
import time
from dataclasses import dataclass
from typing import Any

import grpc
from folio import requests
from node import tokens
from stubs import inference_pb2, types_pb2

# Ids of the tiny vocabulary that are not control tokens.
WORDS = range(3, 300)

TENANTS = ("", "north", "south")
# As many as have no divisor in common with the tenants, so that each tenant has requests of both priorities.
PRIORITIES = (0, 0, 0, 1)

# Policy, budget (0: none), prompt and answer in tokens at least and at most, and other arguments of the SDK's `generate`.
_EVICTING = dict(prompt=(120, 420), answer=(60, 240))
SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("full", dict(prompt=(20, 200), answer=(40, 160), temperature=0)),
    ("full", dict(prompt=(300, 600), answer=(20, 60))),
    ("full", dict(prompt=(20, 60), answer=(300, 400), top_p=0.9)),
    ("paged_eviction", dict(budget=96, **_EVICTING)),
    ("paged_eviction", dict(budget=224, prompt=(180, 200), answer=(60, 90))),  # decode evicts, prefill does not
    ("paged_eviction", dict(budget=96, schedule="pyramid", **_EVICTING)),
    ("paged_eviction", dict(budget=64, report_evictions=True, **_EVICTING)),
    ("paged_eviction", dict(budget=64, prompt=(40, 60), answer=(400, 600))),
    ("kv_crush", dict(budget=96, **_EVICTING)),
    ("kv_crush:key_diff,share=0.5,anchor=alternating", dict(budget=128, **_EVICTING)),
    ("query_diff", dict(budget=96, **_EVICTING)),
    ("query_diff:share=0.25,window=8,pool=7", dict(budget=160, **_EVICTING)),
    ("snap_kv", dict(budget=112, **_EVICTING)),
    ("snap_kv:window=16,pool=3", dict(budget=80, temperature=0, **_EVICTING)),
    ("key_diff", dict(budget=80, **_EVICTING)),
    ("key_diff", dict(budget=160, prompt=(800, 1000), answer=(300, 400))),
    ("streaming_llm", dict(budget=64, **_EVICTING)),
    ("streaming_llm", dict(budget=64, report_evictions=True, prompt=(60, 90), answer=(400, 600))),
    ("inverse_key_norm", dict(budget=96, **_EVICTING)),
    ("value_norm", dict(budget=96, **_EVICTING)),
    ("random", dict(budget=64, **_EVICTING)),
    ("paged_eviction", dict(budget=96, compaction="streamed", prompt=(800, 1000), answer=(60, 120))),
    ("key_diff", dict(budget=128, compaction="streamed", compaction_stride=64, prompt=(500, 700), answer=(100, 200))),
    ("paged_eviction", dict(budget=96, layers="shared", **_EVICTING)),
    ("kv_crush", dict(budget=128, layers="shared", prompt_share=0.25, **_EVICTING)),
    ("query_diff", dict(budget=160, layers="shared", segments=4, prompt_share=0.5, **_EVICTING)),
    ("key_diff", dict(budget=128, segments=3, protect_ends=0.2, **_EVICTING)),
    ("random", dict(budget=96, layers="shared", compaction="streamed", prompt=(500, 700), answer=(60, 120))),
]


@dataclass(frozen=True)
class Case:
    """One request. `arguments` are those of the SDK, and `request` is the same as a message."""

    name: str
    arguments: dict[str, Any]
    request: inference_pb2.GenerateRequest

    @property
    def most(self):
        return self.request.max_tokens

    def with_priority(self, priority):
        request = inference_pb2.GenerateRequest()
        request.CopyFrom(self.request)
        request.priority = priority
        return Case(self.name, {**self.arguments, "priority": priority}, request)

    @property
    def reports_evictions(self):
        return self.request.report_evictions


_CACHE = ("schedule", "compaction", "compaction_stride", "layers", "prompt_share", "protect_ends", "segments")


def make_case(name, policy, prompt, most, budget=0, report_evictions=False, tenant="", priority=0, **rest):
    """`rest` is of the cache and of the sampling. Eviction is synchronous, so that an answer repeats to the token."""
    cache = dict(policy=policy, eviction_mode="synchronous", budget=budget or None)
    cache |= {key: rest.pop(key) for key in _CACHE if key in rest}
    asking = dict(max_tokens=most, ignore_eos=True, report_evictions=report_evictions)
    asking |= dict(label=name, tenant=tenant, priority=priority)
    sampling = {"temperature": 1.0, **rest}
    request = inference_pb2.GenerateRequest(
        input=tokens(prompt),
        cache=requests.cache_message(**cache),
        sampling=types_pb2.SamplingParams(**sampling),
        **asking,
    )
    return Case(name, {"tokens": prompt, **cache, **asking, **sampling}, request)


def make_cases(seed):
    """A case for each shape. Most answers are sampled, because a tiny model's likeliest tokens repeat themselves and would
    hide an error."""
    chance = random.Random(f"cases {seed}")
    cases = []
    for number, (policy, shape) in enumerate(SHAPES):
        rest = {key: value for key, value in shape.items() if key not in ("prompt", "answer")}
        prompt = [chance.choice(WORDS) for _ in range(chance.randint(*shape["prompt"]))]
        most = chance.randint(*shape["answer"])
        asker = {"tenant": TENANTS[number % len(TENANTS)], "priority": PRIORITIES[number % len(PRIORITIES)]}
        given = {"seed": chance.randrange(1 << 32), **asker, **rest}
        cases.append(make_case(f"{number}:{policy}", policy, prompt, most, **given))
    return cases


def slow_request():
    """A request with long messages, more than the window of flow control and the worker's buffer hold."""
    return inference_pb2.GenerateRequest(
        input=tokens(WORDS[:20]), max_tokens=1500, ignore_eos=True, logprobs=20, label="slow reader"
    )


def ask(stub, request, attempts):
    """All events of an answer. If the machine stands still, a worker may lose its session, and is asked again."""
    while True:
        try:
            return list(stub.Generate(request, timeout=120))
        except grpc.RpcError as error:
            attempts -= 1
            if error.code() is not grpc.StatusCode.UNAVAILABLE or not attempts:
                raise
        time.sleep(1)


def answers(stub, cases, attempts=3):
    """The tokens of each case by its name, each asked for alone."""
    found = {}
    for case in cases:
        events = ask(stub, case.request, attempts)
        found[case.name] = [token for event in events for token in event.chunk.tokens]
        assert len(found[case.name]) == case.most and events[-1].HasField("finished")
    return found
