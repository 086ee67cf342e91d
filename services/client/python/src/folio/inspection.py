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
    draining: bool
    """An operator has it take no new sequences."""
    steering: bool
    """Operators may change something."""
    boot_id: str
    """Random for each start of a manager. Empty for one of version 0.1."""


@of("AttachedWorker")
@dataclass(frozen=True)
class AttachedWorker:
    worker_id: str
    name: str
    pid: int
    sequences: int
    lease_remaining_ms: int
    steps_done: int | None
    step_in_flight_ms: int | None
    """Both are None for a worker that does not tell them."""


@of("WorkerProcess")
@dataclass(frozen=True)
class WorkerProcess:
    """The process of a rank. `pid` is 0 until it has the pages, or if it is in another PID namespace."""

    rank: int
    pid: int
    has_pages: bool
    ended: bool


@of("Fence")
@dataclass(frozen=True)
class Fence:
    """The end of a worker's lease. `blocked_pages` are out of use until the worker's processes have ended. `kill_in_ms`
    is None if the manager never kills them, or has tried, and then `kill_error` may say why it could not."""

    reason: str
    fenced_ms: int
    silent_ms: int
    blocked_pages: int
    orphans: int
    kill_in_ms: int | None
    killed: bool
    kill_error: str | None


@of("Worker")
@dataclass(frozen=True)
class Worker:
    """A worker, from when it attaches until nothing of it is left. `fence` is None while it has a lease, and
    `lease_remaining_ms` afterwards."""

    worker_id: str
    name: str
    processes: tuple[WorkerProcess, ...]
    sequences: int
    held_pages: int
    claimed_sequences: int
    highest_lease_epoch: int
    lease_remaining_ms: int | None
    steps_done: int | None
    step_in_flight_ms: int | None
    fence: Fence | None
    draining: bool
    """An operator has it get no new sequences."""
    pool: str = ""
    """The name of its pool."""


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
    total_swap_slots: int
    used_swap_slots: int
    """Slots of the swap memory, each of a page, and those of them in use."""
    name: str = ""
    """As the manager's `--pools` has it, and "default" without that flag."""


@of("Sequence")
@dataclass(frozen=True)
class SequenceInfo:
    """A sequence that is open. `state` is "prefill", "decode", "evicting", "orphaned" or "parked"."""

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
    swap_slots: int
    """Slots of the swap memory that are its own."""
    tenant: str
    priority: int
    pinned: bool
    """It is not parked."""
    closing: bool
    """An operator has ended it, and its worker has yet to give its pages back."""
    pool: str = ""
    """The name of the pool that its pages are in."""
    pages_behind_windows: int = 0
    """Pages, over all layers, that the window of their layer has passed. They are free."""


@of("Quota")
@dataclass(frozen=True)
class Quota:
    """The most that a tenant may have open at a time, and begin in a minute. Without a number there is none."""

    sequences: int | None
    pages: int | None
    requests_per_minute: int | None = None


@of("Tenant")
@dataclass(frozen=True)
class Tenant:
    """A tenant that has sequences, first requests of workers' lines that wait for pages, or a quota. `needed_pages` is the
    most that its sequences may come to hold together."""

    tenant: str
    sequences: int
    parked: int
    held_pages: int
    held_bytes: int
    waiting: int
    needed_pages: int
    quota: Quota
    pool: str = ""
    """The numbers are those of this pool."""


@of("PageRun")
@dataclass(frozen=True)
class PageRun:
    """Neighbouring pages that are "free", "held" or "quarantined". `sequence_id` is of held pages."""

    pages: int
    state: str
    sequence_id: int
    layer: int | None
    score: float | None


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


@of("PastPlan.Loss")
@dataclass(frozen=True)
class Loss:
    """The loss of one layer by a plan, `tokens` of the positions from `begin` to before `end`."""

    layer: int
    tokens: int
    begin: int
    end: int


@of("PastPlan")
@dataclass(frozen=True)
class PastPlan:
    """A plan that was carried out: a compaction, or otherwise a drop of pages."""

    plan_epoch: int
    ago_ms: int
    logical_length: int
    compaction: bool
    freed_pages: int
    losses: tuple[Loss, ...]


@of("GetSequenceResponse")
@dataclass(frozen=True)
class SequenceTables:
    """A sequence, layer by layer."""

    sequence: SequenceInfo
    layers: tuple[LayerTable, ...]
    plans: tuple[PastPlan, ...]
    """The newest plans that were carried out, oldest first."""


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
