"""The policies, which choose what leaves the cache when a sequence is over its budget.

A policy is a frozen dataclass, and has a text form for command lines and labels:

    >>> KvCrush(base=KeyDiff(), share=0.25)
    KvCrush(base=KeyDiff(), share=0.25, anchor=None, seed=0, prefill_only=False)
    >>> str(KvCrush(base=KeyDiff(), share=0.25))
    'kv_crush:key_diff,share=0.25'
    >>> policy("kv_crush:key_diff,share=0.25,anchor=mean")
    KvCrush(base=KeyDiff(), share=0.25, anchor='mean', seed=0, prefill_only=False)
    >>> policy("snap_kv:window=32")
    SnapKv(window=32, pool=None)
    >>> policy("paged_evictoin")
    Traceback (most recent call last):
    ValueError: policy: no kind 'paged_evictoin'; there are full, paged_eviction, streaming_llm, inverse_key_norm, \
key_diff, snap_kv, random, kv_crush, query_diff, value_norm
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

from folio import checks
from folio.v1 import types_pb2

_ANCHOR_PREFIX = "CRUSH_ANCHOR_"
ANCHORS = {
    name.removeprefix(_ANCHOR_PREFIX).lower(): number
    for name, number in types_pb2.CrushAnchor.items()
    if number != types_pb2.CRUSH_ANCHOR_UNSPECIFIED
}


@dataclass(frozen=True)
class Policy:
    """The base of all policies. Each class below is a message of the protocol, field by field."""

    kind: ClassVar[str]
    """The name in the protocol and on command lines."""

    def __str__(self) -> str:
        items = [text for item in dataclasses.fields(self) if (text := self._item(item))]
        return ":".join([self.kind, ",".join(items)] if items else [self.kind])

    def _item(self, item: dataclasses.Field[Any]) -> str:
        value = getattr(self, item.name)
        if isinstance(value, float):
            value = int(value) if value.is_integer() else value
        return "" if value == item.default else f"{item.name}={value}"

    def _write(self, message: Any) -> None:
        """Fills the policy's own message."""
        message.SetInParent()
        for item in dataclasses.fields(self):
            if (value := getattr(self, item.name)) is not None:
                setattr(message, item.name, value)


@dataclass(frozen=True)
class Full(Policy):
    """Keeps every token. It takes no budget."""

    kind: ClassVar[str] = "full"


@dataclass(frozen=True)
class PagedEviction(Policy):
    """Keeps the tokens with the highest ||V|| / ||K|| (arXiv 2509.04377)."""

    kind: ClassVar[str] = "paged_eviction"


@dataclass(frozen=True)
class StreamingLlm(Policy):
    """Keeps the first tokens and the most recent ones (arXiv 2309.17453)."""

    kind: ClassVar[str] = "streaming_llm"


@dataclass(frozen=True)
class InverseKeyNorm(Policy):
    """Keeps the tokens with the lowest ||K|| (arXiv 2406.11430)."""

    kind: ClassVar[str] = "inverse_key_norm"


@dataclass(frozen=True)
class ValueNorm(Policy):
    """Keeps the tokens with the highest ||V||, one of the two factors of PagedEviction."""

    kind: ClassVar[str] = "value_norm"


@dataclass(frozen=True)
class KeyDiff(Policy):
    """Keeps the tokens whose key is least like the mean key (arXiv 2504.15364)."""

    kind: ClassVar[str] = "key_diff"


@dataclass(frozen=True)
class SnapKv(Policy):
    """Keeps the tokens that the prompt's last `window` queries attend to (arXiv 2404.14469).

    A token counts with the highest attention among `pool` neighbouring tokens, an odd number up to 127. None lets the
    manager choose a window of 64 and a pool of 7.
    """

    kind: ClassVar[str] = "snap_kv"
    window: int | None = None
    pool: int | None = None

    def __post_init__(self) -> None:
        _check_attention(self)


@dataclass(frozen=True)
class QueryDiff(Policy):
    """Folio's own (tests/eval): keeps a part as SnapKv does and fills the rest as KeyDiff does, with the rotation undone.

    `share` of what is not protected, in [0, 1], goes by the attention of the prompt's last `window` queries,
    max-pooled over `pool` tokens, an odd number up to 127. The rest are the tokens whose key, with its rotation
    undone, is least like the mean key, each with `neighbours` tokens on either side, at most 64. In decode a page is
    judged once, when it fills, by that difference. With layers="shared" the layers between the shares `judges_from`
    and `judges_to` of the depth choose for all. Defaults: 0.25 (under a small budget up to a half), 16, 15, 8, 2/3, 5/6.
    """

    kind: ClassVar[str] = "query_diff"
    share: float | None = None
    window: int | None = None
    pool: int | None = None
    neighbours: int | None = None
    judges_from: float | None = None
    judges_to: float | None = None

    def __post_init__(self) -> None:
        for name in ("share", "judges_from", "judges_to"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checks.real(name, value, 0.0, 1.0))
        _check_attention(self)


def _check_attention(chosen: SnapKv | QueryDiff) -> None:
    """The queries whose attention counts, and how it is pooled and smoothed."""
    for name, least in (("window", 1), ("pool", 1), ("neighbours", 0)):
        if (value := getattr(chosen, name, None)) is not None:
            value = checks.integer(name, value, least=least)
            if name == "pool" and value % 2 == 0:
                raise ValueError(f"pool must be odd, is {value}")
            object.__setattr__(chosen, name, value)


@dataclass(frozen=True)
class Random(Policy):
    """Keeps tokens drawn uniformly, which is the control for every other policy. None takes the sampling seed."""

    kind: ClassVar[str] = "random"
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            object.__setattr__(self, "seed", checks.integer("seed", self.seed, most=checks.UINT64))


@dataclass(frozen=True)
class KvCrush(Policy):
    """Gives `share` of the budget to representatives of what `base` would evict (arXiv 2503.00022).

    `base` is a policy that scores each KV head, PagedEviction, InverseKeyNorm, KeyDiff or SnapKv. `share` is in
    [0, 1), and None lets the manager choose 0.25. Representatives are near to or far from `anchor`, which is mean,
    alternating, zeros, ones or random. None lets the manager choose mean. `seed` is that of anchor random. With
    `prefill_only` the base alone drops pages in decode, and the text form says decode=base.
    """

    kind: ClassVar[str] = "kv_crush"
    base: PagedEviction | InverseKeyNorm | KeyDiff | SnapKv = field(default_factory=PagedEviction)
    share: float | None = None
    anchor: str | None = None
    seed: int = 0
    prefill_only: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.base, (PagedEviction, InverseKeyNorm, KeyDiff, SnapKv)):
            raise TypeError(
                "base must be a policy that scores each KV head (PagedEviction, InverseKeyNorm, KeyDiff or SnapKv), "
                f"not {self.base!r}"
            )
        if self.share is not None:
            share = checks.real("share", self.share, 0.0, 1.0)
            if share == 1.0:
                raise ValueError("share must be below 1, is 1.0")
            object.__setattr__(self, "share", share)
        if self.anchor is not None:
            checks.choice("anchor", self.anchor, ANCHORS)
        object.__setattr__(self, "seed", checks.integer("seed", self.seed, most=checks.UINT64))
        checks.flag("prefill_only", self.prefill_only)

    def _item(self, item: dataclasses.Field[Any]) -> str:
        if item.name == "prefill_only":
            return "decode=base" if self.prefill_only else ""
        return str(self.base).replace(":", ",") if item.name == "base" else super()._item(item)

    def _write(self, message: Any) -> None:
        message.SetInParent()
        self.base._write(getattr(message, self.base.kind))
        if self.share is not None:
            message.share = self.share
        if self.anchor is not None:
            message.anchor = ANCHORS[self.anchor]
        message.seed = self.seed
        message.prefill_only = self.prefill_only


_CLASSES = {kind.kind: kind for kind in Policy.__subclasses__()}
KINDS: dict[str, type[Policy]] = {
    field.name: _CLASSES[field.name] for field in types_pb2.Policy.DESCRIPTOR.oneofs_by_name["kind"].fields
}
"""By name, in the protocol's order."""


def to_message(chosen: Policy) -> types_pb2.Policy:
    """The policy's message."""
    message = types_pb2.Policy()
    chosen._write(getattr(message, chosen.kind))
    return message


def from_message(message: types_pb2.Policy) -> Policy | None:
    """None for a kind that this version does not know."""
    kind = message.WhichOneof("kind")
    if kind is None or kind not in KINDS:
        return None
    return _read(KINDS[kind], getattr(message, kind))


def _read(kind: type[Policy], message: Any) -> Policy:
    values: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        if item.name == "base":
            base = message.WhichOneof("base")
            values["base"] = PagedEviction() if base is None else _read(KINDS[base], getattr(message, base))
        elif item.name == "anchor":
            name = types_pb2.CrushAnchor.Name(message.anchor).removeprefix(_ANCHOR_PREFIX).lower()
            values["anchor"] = name if name in ANCHORS else None
        elif item.default is not None or message.HasField(item.name):
            value = getattr(message, item.name)
            values[item.name] = checks.short_float(value) if isinstance(value, float) else value
    return kind(**values)


def policy(text: str) -> Policy:
    """The policy of a text form, as in folioctl. It is `kind` or `kind:name=value,...`, and the list of kv_crush may
    contain its base.

    Raises ValueError that says what is wrong with it.
    """
    name, colon, rest = checks.text("policy", text).strip().partition(":")
    if name not in KINDS:
        raise ValueError(f"policy: no kind {name!r}; there are {', '.join(KINDS)}")
    items = [item.strip() for item in rest.split(",")] if colon else []
    try:
        base = [("base", _take_base(items))] if name == KvCrush.kind else []
        values = [*base, *(_value(KINDS[name], item) for item in items)]
        if len(dict(values)) < len(values):
            raise ValueError("a parameter is given twice")
        return KINDS[name](**dict(values))
    except (TypeError, ValueError) as error:
        raise ValueError(f"policy {text!r}: {error}") from None


def _take_base(items: list[str]) -> Policy:
    """Takes the base and its parameters out of kv_crush's parameters."""
    name = next((item for item in items if item in KINDS), PagedEviction.kind)
    own = {item.name for item in dataclasses.fields(KINDS[name])} - {item.name for item in dataclasses.fields(KvCrush)}
    taken = [item for item in items if item.partition("=")[0].strip() in own]
    items[:] = [item for item in items if item not in taken]
    if name in items:
        items.remove(name)
    return policy(":".join([name, ",".join(taken)] if taken else [name]))


def _value(kind: type[Policy], item: str) -> tuple[str, Any]:
    """A parameter and its value, of "name=value"."""
    name, equals, value = (part.strip() for part in item.partition("="))
    types = {one.name: str(one.type) for one in dataclasses.fields(kind) if one.name != "base"}
    if types.pop("prefill_only", None):
        types["decode"] = ""
    if not equals or name not in types:
        known = ", ".join(f"{one}=" for one in types)
        raise ValueError(f"no parameter {item!r}; " + (f"there are {known}" if known else "it takes none"))
    if name == "decode":
        return "prefill_only", bool(checks.choice("decode", value, {"crush": 0, "base": 1}))
    convert: type[int] | type[float] | type[str]
    convert = next(one for one in (int, float, str) if one.__name__ in types[name])
    try:
        return name, convert(value)
    except ValueError:
        raise ValueError(f"{name} must be a number, is {value!r}") from None
