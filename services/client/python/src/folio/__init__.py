"""Folio's client: text from a worker, facts from a manager.

    import folio

    with folio.Client() as client:
        for chunk in client.generate("Once upon a time", policy=folio.PagedEviction(), budget=512):
            print(chunk.text, end="", flush=True)

`Client` is the way in; `folio.v1` holds the protocol's own messages and stubs.
"""

from folio.client import Client
from folio.errors import (
    Aborted,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    FolioError,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from folio.generation import AsyncGeneration, Generation
from folio.inspection import (
    AttachedWorker,
    Device,
    ExplainedLayer,
    Explanation,
    LayerTable,
    PageRef,
    Pool,
    RankMemory,
    SequenceInfo,
    SequenceTables,
)
from folio.policies import (
    Full,
    InverseKeyNorm,
    KeyDiff,
    KvCrush,
    PagedEviction,
    Policy,
    QueryDiff,
    Random,
    SnapKv,
    StreamingLlm,
    ValueNorm,
    policy,
)
from folio.results import (
    CacheOptions,
    CacheStats,
    Candidate,
    Chunk,
    Completion,
    EvictedLayer,
    Eviction,
    Finished,
    Model,
    ModelLayout,
    ScoreResult,
    Started,
    TokenLogprob,
    Tokens,
    Usage,
)

__version__ = "0.2.0"
__all__ = [
    "Aborted",
    "AsyncGeneration",
    "AttachedWorker",
    "CacheOptions",
    "CacheStats",
    "Cancelled",
    "Candidate",
    "Chunk",
    "Client",
    "Completion",
    "DeadlineExceeded",
    "Device",
    "EvictedLayer",
    "Eviction",
    "ExplainedLayer",
    "Explanation",
    "FailedPrecondition",
    "Finished",
    "FolioError",
    "Full",
    "Generation",
    "Internal",
    "InvalidArgument",
    "InverseKeyNorm",
    "KeyDiff",
    "KvCrush",
    "LayerTable",
    "Model",
    "ModelLayout",
    "NotFound",
    "PageRef",
    "PagedEviction",
    "PermissionDenied",
    "Policy",
    "Pool",
    "QueryDiff",
    "Random",
    "RankMemory",
    "ResourceExhausted",
    "ScoreResult",
    "SequenceInfo",
    "SequenceTables",
    "SnapKv",
    "Started",
    "StreamingLlm",
    "TokenLogprob",
    "Tokens",
    "Unavailable",
    "Unimplemented",
    "Usage",
    "ValueNorm",
    "policy",
]
