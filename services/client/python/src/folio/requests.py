"""Arguments of a call, checked, as the protocol's messages. Nothing here talks to a server.

The server checks everything that depends on it (page size, context length, vocabulary, capacity).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, cast

from folio import chats, checks
from folio.chats import ChatArguments, ChatTurn
from folio.policies import Full, Policy, policy as parse_policy, to_message
from folio.sampling import RuleArguments, apply_rules
from folio.v1 import admin_pb2, inference_pb2, types_pb2

SCHEDULES = {"uniform": types_pb2.BUDGET_SCHEDULE_UNIFORM, "pyramid": types_pb2.BUDGET_SCHEDULE_PYRAMID}
LAYERS = {"per_layer": types_pb2.LAYERS_PER_LAYER, "shared": types_pb2.LAYERS_SHARED}
COMPACTIONS = {"whole": types_pb2.COMPACTION_WHOLE, "streamed": types_pb2.COMPACTION_STREAMED}
MODES = {"pipelined": types_pb2.EVICTION_MODE_PIPELINED, "synchronous": types_pb2.EVICTION_MODE_SYNCHRONOUS}


def input_message(
    given: Mapping[str, object],
    more: ChatArguments | None = None,
    *,
    text: str = "prompt",
    tokens: str = "tokens",
) -> inference_pb2.Input:
    """The message of the one argument that is not None. The keys are the names of the arguments, and `more` goes with a
    chat only."""
    present = [name for name, value in given.items() if value is not None]
    if len(present) != 1:
        names = " or ".join(given)
        raise TypeError(f"{' and '.join(present)} are given, only one may be" if present else f"give {names}")
    (name,) = present
    value = given[name]
    more = more or {}
    for other, wanted in more.items():
        if wanted is not None and name != "chat":
            raise TypeError(f"{other} goes with chat only")
    if name == text:
        if not checks.text(name, value):
            raise ValueError(f"{name} is empty")
        return inference_pb2.Input(text=str(value))
    if name == tokens:
        return inference_pb2.Input(tokens=inference_pb2.TokenIds(ids=checks.integers(name, value)))
    return inference_pb2.Input(chat=chats.chat_message(value, more))


def prompt_message(
    prompt: str | None,
    tokens: Iterable[int] | None,
    chat: Iterable[ChatTurn] | None,
    tools: Iterable[Mapping[str, Any]] | None,
    template_arguments: Mapping[str, Any] | None,
) -> inference_pb2.Input:
    """The message of a generation's input."""
    more = chats.chat_arguments(tools, template_arguments)
    return input_message({"prompt": prompt, "tokens": tokens, "chat": chat}, more)


def _fill_budget(cache: types_pb2.CacheOptions, budget: object) -> None:
    if hasattr(budget, "__index__"):
        cache.budget_tokens = checks.integer("budget", budget, least=1)
    else:
        cache.budget_share = checks.real("budget", budget, 0.0, 1.0, above=True)


class DecisionArguments(TypedDict, total=False):
    """Those of CacheArguments that a single decision depends on, without its policy and budget."""

    sink_tokens: int | None
    recent_tokens: int | None
    schedule: str | None
    layer_budgets: Sequence[int] | None
    layers: str | None
    prompt_share: float | None
    protect_ends: float | None
    segments: int | None


class CacheArguments(DecisionArguments, total=False):
    """How much of a sequence stays in the cache, as `Client.generate` describes it."""

    policy: Policy | str | None
    budget: int | float | None
    eviction_mode: str | None
    compaction: str | None
    compaction_stride: int | None


def cache_message(
    policy: Policy | str | None = None,
    budget: int | float | None = None,
    sink_tokens: int | None = None,
    recent_tokens: int | None = None,
    eviction_mode: str | None = None,
    schedule: str | None = None,
    layer_budgets: Sequence[int] | None = None,
    compaction: str | None = None,
    compaction_stride: int | None = None,
    layers: str | None = None,
    prompt_share: float | None = None,
    protect_ends: float | None = None,
    segments: int | None = None,
) -> types_pb2.CacheOptions:
    """The message of the cache arguments."""
    cache = types_pb2.CacheOptions()
    chosen = parse_policy(policy) if isinstance(policy, str) else policy
    if chosen is not None:
        if not isinstance(chosen, Policy):
            hint = "; write an instance, with ()" if isinstance(chosen, type) else ""
            raise TypeError(f"policy must be a folio.Policy or its text form, not {checks.kind_of(chosen)}{hint}")
        cache.policy.CopyFrom(to_message(chosen))
    if budget is not None:
        _fill_budget(cache, budget)
    if layer_budgets is not None:
        for name, other in (("budget", budget), ("schedule", schedule)):
            if other is not None:
                raise ValueError(f"layer_budgets and {name} are given, only one may be")
        cache.layer_budget_tokens.extend(checks.integers("layer_budgets", layer_budgets, least=1))
    if schedule is not None:
        cache.budget_schedule = checks.choice("schedule", schedule, SCHEDULES)  # type: ignore[assignment]
    if sink_tokens is not None:
        cache.sink_tokens = checks.integer("sink_tokens", sink_tokens)
    if recent_tokens is not None:
        cache.recent_tokens = checks.integer("recent_tokens", recent_tokens)
    if eviction_mode is not None:
        cache.eviction_mode = checks.choice("eviction_mode", eviction_mode, MODES)  # type: ignore[assignment]
    if compaction is not None:
        cache.compaction = checks.choice("compaction", compaction, COMPACTIONS)  # type: ignore[assignment]
    if layers is not None:
        cache.layers = checks.choice("layers", layers, LAYERS)  # type: ignore[assignment]
        if layers == "shared" and (layer_budgets is not None or schedule not in (None, "uniform")):
            raise ValueError('layers="shared" needs one budget for all layers, without layer_budgets or schedule')
    if prompt_share is not None:
        cache.prompt_share = checks.real("prompt_share", prompt_share, 0.0, 0.9)
    if protect_ends is not None:
        cache.protect_ends = checks.real("protect_ends", protect_ends, 0.0, 0.4)
    if segments is not None:
        cache.segments = checks.integer("segments", segments, least=1, most=64)
    if compaction_stride is not None:
        if compaction != "streamed":
            raise ValueError('compaction_stride is for compaction="streamed"')
        cache.compaction_stride_tokens = checks.integer("compaction_stride", compaction_stride, least=1)
    if isinstance(chosen, Full):
        _refuse_with_full(budget=budget, layer_budgets=layer_budgets, schedule=schedule)
        _refuse_with_full(sink_tokens=sink_tokens or None, recent_tokens=recent_tokens or None)
        _refuse_with_full(layers=None if layers == "per_layer" else layers)
        _refuse_with_full(prompt_share=prompt_share or None, protect_ends=protect_ends or None)
        _refuse_with_full(segments=None if segments == 1 else segments)
    return cache


def check_names(call: str, arguments: Mapping[str, object], known: type) -> None:
    """The arguments of `call` that have no names of their own are those of `known`, a TypedDict."""
    for name in arguments:
        if name not in known.__annotations__:
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}")


class GenerateArguments(CacheArguments, RuleArguments, total=False):
    """The arguments of a generation that have no names of their own in its call."""


def split(call: str, arguments: GenerateArguments) -> tuple[types_pb2.CacheOptions, RuleArguments]:
    """The message of the cache arguments of `call`, and its other arguments."""
    check_names(call, arguments, GenerateArguments)
    rules = {name: value for name, value in arguments.items() if name in RuleArguments.__annotations__}
    cache = {name: value for name, value in arguments.items() if name not in rules}
    return cache_message(**cast(CacheArguments, cache)), cast(RuleArguments, rules)


def cache_of(call: str, arguments: CacheArguments) -> types_pb2.CacheOptions:
    """The message of the cache arguments of `call`."""
    check_names(call, arguments, CacheArguments)
    return cache_message(**arguments)


def _refuse_with_full(**arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name} does not go with policy full, which keeps every token")


def _stops(stop: object) -> list[str]:
    if isinstance(stop, str):
        stop = (stop,)
    if isinstance(stop, (bytes, Mapping)) or not isinstance(stop, Iterable):
        raise TypeError(f"stop must be a str or a sequence of str, not {checks.kind_of(stop)}")
    stops = [checks.text(f"stop[{at}]", one) for at, one in enumerate(stop)]
    if "" in stops:
        raise ValueError(f"stop[{stops.index('')}] is empty")
    return stops


def generate_message(
    source: inference_pb2.Input,
    cache: types_pb2.CacheOptions,
    sampling: types_pb2.SamplingParams,
    rules: RuleArguments,
    *,
    max_tokens: int | None,
    stop: str | Iterable[str],
    ignore_eos: bool,
    logprobs: int | None,
    report_evictions: bool,
    label: str,
    priority: int,
    tenant: str,
) -> inference_pb2.GenerateRequest:
    """A whole request to generate."""
    request = inference_pb2.GenerateRequest(
        input=source,
        cache=cache,
        sampling=sampling,
        max_tokens=0 if max_tokens is None else checks.integer("max_tokens", max_tokens, least=1),
        stop=_stops(stop),
        ignore_eos=checks.flag("ignore_eos", ignore_eos),
        logprobs=None if logprobs is None else checks.integer("logprobs", logprobs),
        report_evictions=checks.flag("report_evictions", report_evictions),
        label=checks.text("label", label),
        priority=checks.integer("priority", priority, least=-100, most=100),
        tenant=checks.text("tenant", tenant),
    )
    apply_rules(request, **rules)
    return request


def score_message(
    source: inference_pb2.Input,
    continuation: inference_pb2.Input,
    cache: types_pb2.CacheOptions,
    *,
    top_logprobs: int,
    report_evictions: bool,
    label: str,
    priority: int,
    tenant: str,
) -> inference_pb2.ScoreRequest:
    """A whole request to score."""
    return inference_pb2.ScoreRequest(
        input=source,
        continuation=continuation,
        cache=cache,
        top_logprobs=checks.integer("top_logprobs", top_logprobs),
        report_evictions=checks.flag("report_evictions", report_evictions),
        label=checks.text("label", label),
        priority=checks.integer("priority", priority, least=-100, most=100),
        tenant=checks.text("tenant", tenant),
    )


def sequence_message(sequence_id: int) -> admin_pb2.GetSequenceRequest:
    """The message that names a sequence."""
    return admin_pb2.GetSequenceRequest(sequence_id=_sequence_id(sequence_id))


def explain_message(sequence_id: int, cache: types_pb2.CacheOptions) -> admin_pb2.ExplainEvictionRequest:
    """The message of a dry run, with the sequence's own options if no others are set."""
    request = admin_pb2.ExplainEvictionRequest(sequence_id=_sequence_id(sequence_id))
    if cache != types_pb2.CacheOptions():
        request.cache.CopyFrom(cache)
    return request


def _sequence_id(value: int) -> int:
    return checks.integer("sequence_id", value, most=checks.UINT64)
