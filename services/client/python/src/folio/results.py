"""The answers of a worker. proto/folio/v1/inference.proto defines each figure."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from folio.checks import short_float
from folio.messages import custom, of
from folio.policies import Policy


@of("CacheOptions")
@dataclass(frozen=True)
class CacheOptions:
    """The settings that hold a sequence to its budget, with every default filled in."""

    policy: Policy | None
    """None for a policy that this version does not know."""
    budget_tokens: int
    budget_share: float
    budget_schedule: str
    layer_budget_tokens: tuple[int, ...]
    sink_tokens: int | None
    recent_tokens: int | None
    eviction_mode: str
    compaction: str = "unspecified"
    compaction_stride_tokens: int = 0
    layers: str = "unspecified"
    prompt_share: float | None = None
    protect_ends: float = 0.0
    segments: int = 0

    def __post_init__(self) -> None:
        for name in ("budget_share", "prompt_share", "protect_ends"):
            value = getattr(self, name)
            object.__setattr__(self, name, value if value is None else short_float(value))


@of("Candidate")
@dataclass(frozen=True)
class Candidate:
    """A token that could have come, its natural log-probability, and the bytes it stands for."""

    token: int
    logprob: float
    bytes: builtins.bytes


@of("TokenLogprob")
@dataclass(frozen=True)
class TokenLogprob:
    """A token's natural log-probability before temperature and filters, and its likeliest rivals."""

    token: int
    logprob: float
    top: tuple[Candidate, ...]
    bytes: builtins.bytes


@of("TokenChunk")
@dataclass(frozen=True)
class Chunk:
    """A piece of an answer. Its text is whole characters. It has `logprobs` if the request asked for them."""

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]


@dataclass(frozen=True)
class EvictedLayer:
    """The tokens that one layer kept, or the block that it lost."""

    kept: tuple[int, ...]
    """In a compaction: the logical positions that stayed, ascending."""
    dropped_block: int | None
    """In decode, the block taken out of the table, or None if this layer lost none."""


@of("EvictionEvent")
@dataclass(frozen=True)
class Eviction:
    """One plan of the manager, carried out."""

    step: int
    """Generated tokens that had been fed back; -1 in prefill and right after it."""
    layers: tuple[EvictedLayer, ...]
    prompt_tokens: int = 0
    """In a compaction: the tokens of the prompt that were in the cache by then."""


def _evicted_layer(message: Any) -> EvictedLayer:
    dropped = message.dropped_block
    return EvictedLayer(tuple(message.kept), None if dropped < 0 else dropped)


custom("EvictionEvent.Layer", _evicted_layer)


@of("Started")
@dataclass(frozen=True)
class Started:
    """A generation that was admitted. `seed` repeats it."""

    sequence_id: int
    prompt_tokens: int
    cache: CacheOptions
    seed: int
    resume_token: builtins.bytes
    """A client that has this and `sequence_id` may continue the sequence when its worker is lost."""
    replayed_tokens: int = 0
    """The tokens that were computed again, of an answer whose sequence was gone."""
    model_fingerprint: str = ""
    """Tells models apart, by their configuration and weights."""


@of("Usage")
@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    generated_tokens: int
    queue_seconds: float
    prefill_seconds: float
    time_to_first_token: float
    decode_seconds: float


@of("CacheStats")
@dataclass(frozen=True)
class CacheStats:
    """The tokens and pages that the sequence held and lost."""

    resident_tokens: int
    peak_resident_tokens: int
    held_pages: int
    peak_held_pages: int
    resident_bytes: int
    evicted_tokens: int
    evicted_pages: int
    plans: int


@of("Finished")
@dataclass(frozen=True)
class Finished:
    """The end of a generation: `reason` is "eos", "stop" (by the string `stop` or the token `stop_token`) or "length"."""

    reason: str
    stop: str
    usage: Usage
    cache: CacheStats
    stop_token: int | None
    replays: int = 0
    """How often the request was sent again because its sequence was gone."""


@dataclass(frozen=True)
class Completion:
    """A whole generation."""

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    evictions: tuple[Eviction, ...]
    started: Started
    finished: Finished


@dataclass(frozen=True)
class ScoreResult:
    """Log-probabilities of a continuation, token by token."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    top: tuple[tuple[Candidate, ...], ...]
    """The likeliest tokens at each place. Empty without `top_logprobs`."""
    usage: Usage
    cache: CacheStats
    evictions: tuple[Eviction, ...]


class Tokens(Sequence[int]):
    """A sequence of token ids, with the bytes each stands for and the text that they were made from
    (a chat's: as the template rendered it)."""

    def __init__(self, ids: Sequence[int], pieces: Sequence[bytes], text: str) -> None:
        self.ids, self.pieces, self.text = tuple(ids), tuple(pieces), text

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[int, ...]: ...
    def __getitem__(self, at: int | slice) -> int | tuple[int, ...]:
        return self.ids[at]

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return self.ids == tuple(other) if isinstance(other, (Tokens, tuple, list)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.ids)

    def __repr__(self) -> str:
        return f"Tokens({list(self.ids)})"


@of("ModelLayout")
@dataclass(frozen=True)
class ModelLayout:
    """The layout that a pool is created for. rank_kv_heads has the KV heads of each tensor-parallel rank, and is
    empty for one rank. window_layers attend to the latest window_tokens tokens only, and give up
    window_stride_tokens at a time."""

    model: str
    fingerprint: str
    num_layers: int
    num_kv_heads: int
    head_dim: int
    page_tokens: int
    data_type: str
    rank_kv_heads: tuple[int, ...]
    window_layers: tuple[int, ...] = ()
    window_tokens: int = 0
    window_stride_tokens: int = 0


@of("GetModelResponse")
@dataclass(frozen=True)
class Model:
    """The model that a worker serves."""

    layout: ModelLayout
    architecture: str
    vocab_size: int
    context_length: int
    hidden_size: int
    num_attention_heads: int
    parameters: int
    weight_bytes: int
    compute: str
    kernels: str
    threads: int
    chat_template: bool
    eos_tokens: tuple[int, ...]
    kv_bytes_per_token: int
    device: str
