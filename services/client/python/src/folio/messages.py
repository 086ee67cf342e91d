"""The protocol's answers as frozen dataclasses: each class takes the fields of its message by name.

Enumerations become their words in lower case ("length", "decode"), repeated fields tuples, unset optional
ones None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from folio import policies

T = TypeVar("T")
Reader = Callable[[Any], Any]

# Full name of a message -> how it is read.
_READERS: dict[str, Reader] = {
    "folio.v1.Policy": policies.from_message,
    "folio.v1.PositionRange": lambda message: range(message.begin, message.end),
}


def of(name: str) -> Callable[[type[T]], type[T]]:
    """Decorates a dataclass that holds what the message `folio.v1.NAME` holds."""

    def register(cls: type[T]) -> type[T]:
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]

        def read(message: Any) -> T:
            fields = message.DESCRIPTOR.fields_by_name
            return cls(*(_field(message, fields[name]) for name in names))

        _READERS[f"folio.v1.{name}"] = read
        return cls

    return register


def read(message: Any) -> Any:
    """The dataclass of a message."""
    return _READERS[message.DESCRIPTOR.full_name](message)


def _field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if hasattr(value, "extend"):
        if field.message_type is None and field.enum_type is None:
            return tuple(value)
        return tuple(_one(field, one) for one in value)
    # proto3 keeps a field that is declared optional in a oneof of its own.
    optional = field.message_type is None or field.containing_oneof is not None
    if field.has_presence and optional and not message.HasField(field.name):
        return None
    return _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return read(value)
    if field.enum_type is not None:
        return word(field.enum_type, value)
    return value


def word(enum: Any, number: int) -> str:
    """FINISH_REASON_EOS -> "eos"; a number that this version does not know as its digits."""
    known = enum.values_by_number.get(number)
    if known is None:
        return str(number)
    # Values carry the name of their enumeration: CamelCase -> CAMEL_CASE_.
    words = "".join("_" + letter if letter.isupper() else letter for letter in enum.name).lstrip("_")
    return str(known.name).removeprefix(words.upper() + "_").lower()


def custom(name: str, reader: Reader) -> None:
    """For a message whose fields say more than their values."""
    _READERS[f"folio.v1.{name}"] = reader
