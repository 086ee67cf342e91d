"""Arguments that say how the tokens of an answer are chosen, checked, as the protocol's messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypedDict

from folio import checks
from folio.v1 import inference_pb2, types_pb2


class RuleArguments(TypedDict, total=False):
    """How logits are changed before a token is chosen, when the answer may end, and its form."""

    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float | None
    logit_bias: Mapping[int, float] | None
    min_tokens: int
    stop_token_ids: Iterable[int]
    json_schema: str | Mapping[str, object] | None
    regex: str | None
    grammar: str | None


def sampling_message(
    temperature: float, top_k: int, top_p: float | None, min_p: float, seed: int | None
) -> types_pb2.SamplingParams:
    """The message of the sampling arguments. Temperature 0 is greedy."""
    message = types_pb2.SamplingParams(
        temperature=checks.real("temperature", temperature),
        top_k=checks.integer("top_k", top_k),
        min_p=checks.real("min_p", min_p, 0.0, 1.0),
    )
    if top_p is not None:
        message.top_p = checks.real("top_p", top_p, 0.0, 1.0, above=True)
    if seed is not None:
        message.seed = checks.integer("seed", seed, most=checks.UINT64)
    return message


def apply_rules(
    request: inference_pb2.GenerateRequest,
    presence_penalty: float = 0.0,
    frequency_penalty: float = 0.0,
    repetition_penalty: float | None = None,
    logit_bias: Mapping[int, float] | None = None,
    min_tokens: int = 0,
    stop_token_ids: Iterable[int] = (),
    json_schema: str | Mapping[str, object] | None = None,
    regex: str | None = None,
    grammar: str | None = None,
) -> None:
    """Fills the arguments of RuleArguments in."""
    sampling = request.sampling
    sampling.presence_penalty = checks.real("presence_penalty", presence_penalty, -2.0, 2.0)
    sampling.frequency_penalty = checks.real("frequency_penalty", frequency_penalty, -2.0, 2.0)
    if repetition_penalty is not None:
        sampling.repetition_penalty = checks.real("repetition_penalty", repetition_penalty, 0.01, 100.0)
    sampling.logit_bias.extend(_biases(logit_bias))
    request.min_tokens = checks.integer("min_tokens", min_tokens)
    request.stop_token_ids.extend(checks.integers("stop_token_ids", stop_token_ids, empty=True))
    form = _format(json_schema, regex, grammar)
    if form is not None:
        request.format.CopyFrom(form)


def _biases(logit_bias: object) -> list[types_pb2.LogitBias]:
    if logit_bias is None:
        return []
    if not isinstance(logit_bias, Mapping):
        raise TypeError(f"logit_bias must map token ids to numbers, not {checks.kind_of(logit_bias)}")
    biases = []
    for token, bias in logit_bias.items():
        of = checks.integer("a token of logit_bias", token)
        biases.append(types_pb2.LogitBias(token=of, bias=checks.real(f"logit_bias[{of}]", bias, -100.0, 100.0)))
    return biases


def _format(
    json_schema: str | Mapping[str, object] | None, regex: str | None, grammar: str | None
) -> types_pb2.OutputFormat | None:
    given = {"json_schema": json_schema, "regex": regex, "grammar": grammar}
    names = [name for name, value in given.items() if value is not None]
    if not names:
        return None
    if len(names) > 1:
        raise ValueError(f"give only one of json_schema, regex and grammar, not {' and '.join(names)}")
    if isinstance(json_schema, Mapping):
        return types_pb2.OutputFormat(json_schema=json.dumps(json_schema))
    return types_pb2.OutputFormat(**{names[0]: checks.text(names[0], given[names[0]])})
