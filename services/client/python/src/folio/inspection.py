"""The answers of a manager. proto/folio/v1/admin.proto defines each figure."""

from __future__ import annotations

from dataclasses import dataclass

from folio.messages import of
from folio.results import CacheOptions, ModelLayout


@of("GetManagerResponse")
@dataclass(frozen=True)
class Manager:
    build: str
    pid: int
    uptime_ms: int


@of("AttachedWorker")
@dataclass(frozen=True)
class AttachedWorker:
    worker_id: str
    name: str
    pid: int
    sequences: int
    lease_remaining_ms: int


@of("RankMemory")
@dataclass(frozen=True)
class RankMemory:
    """One rank's page memory, on "cpu" or on a GPU as the manager numbers them."""

    device: str
    bytes: int


@of("Device")
@dataclass(frozen=True)
class Device:
    """A GPU whose memory holds pages, those of `ranks` or, if that is empty, of all ranks. Bytes are None if
    they are unknown."""

    device: str
    uuid: str
    name: str
    total_bytes: int | None
    free_bytes: int | None
    ranks: tuple[int, ...]


@of("Pool")
@dataclass(frozen=True)
class Pool:
    """The page memory of all ranks."""

    pool_id: int
    layout: ModelLayout
    pool_bytes: int
    page_bytes: int
    total_pages: int
    free_pages: int
    held_pages: int
    quarantined_pages: int
    reserved_pages: int
    huge_pages: bool
    sequences: int
    workers: tuple[AttachedWorker, ...]
    rank_memory: tuple[RankMemory, ...]
    orphans: int
    """The number of sequences whose worker was lost."""


@of("Sequence")
@dataclass(frozen=True)
class SequenceInfo:
    """A sequence that is open. `state` is "prefill", "decode", "evicting" or "orphaned"."""

    sequence_id: int
    worker_id: str
    label: str
    state: str
    cache: CacheOptions
    prompt_tokens: int
    max_new_tokens: int
    logical_length: int
    resident_tokens: int
    held_pages: int
    reserved_pages: int
    held_bytes: int
    evicted_tokens: int
    evicted_pages: int
    plan_epoch: int
    age_ms: int
    lease_epoch: int
    orphan_ms: int
    """Seconds until an orphan ends, unless a worker continues it."""


@of("PageRef")
@dataclass(frozen=True)
class PageRef:
    """A page, and how often it had been given out when the sequence got it."""

    page: int
    generation: int


@of("LayerTable")
@dataclass(frozen=True)
class LayerTable:
    """A layer's pages in token order, and the logical positions of the tokens in them, as ranges."""

    pages: tuple[PageRef, ...]
    resident_tokens: int
    kept: tuple[range, ...]


@of("GetSequenceResponse")
@dataclass(frozen=True)
class SequenceTables:
    """A sequence, layer by layer."""

    sequence: SequenceInfo
    layers: tuple[LayerTable, ...]


@of("ExplainedLayer")
@dataclass(frozen=True)
class ExplainedLayer:
    """The eviction from one layer, which is tokens (as ranges of logical positions) or a block.

    `scores` has a number per resident token if tokens go, otherwise a number per full block. High scores are kept.
    It is empty for a policy without scores.
    """

    budget_tokens: int
    resident_tokens: int
    drop_tokens: tuple[range, ...]
    drop_block: int | None
    scores: tuple[float, ...]


@of("ExplainEvictionResponse")
@dataclass(frozen=True)
class Explanation:
    """A dry run of a policy's decision. `due` is true if the sequence is over this budget now."""

    cache: CacheOptions
    due: bool
    layers: tuple[ExplainedLayer, ...]
