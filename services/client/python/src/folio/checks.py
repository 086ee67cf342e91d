"""Checks of single arguments. Each returns the value as the protocol takes it, or raises a TypeError or
ValueError that begins with the argument's name."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Iterable, Mapping
from typing import Any

UINT32, UINT64 = 2**32 - 1, 2**64 - 1
FLOAT32 = 3.4028234663852886e38


def kind_of(value: object) -> str:
    return type(value).__name__


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {kind_of(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} is not text that UTF-8 can encode, at character {error.start}") from None
    return value


def integer(name: str, value: object, least: int = 0, most: int = UINT32) -> int:
    """Any kind of integer (NumPy's too) except a bool, which is probably a mistake."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not bool")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an int, not {kind_of(value)}") from None
    if not least <= number <= most:
        bounds = f"at least {least}" if number < least else f"at most {most}"
        raise ValueError(f"{name} must be {bounds}, is {number}")
    return number


def real(name: str, value: Any, least: float = 0.0, most: float = FLOAT32, *, above: bool = False) -> float:
    """A finite number in [least, most], or in (least, most] if it must be `above` the least."""
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {kind_of(value)}")
    number = float(value)
    if not math.isfinite(number) or not least <= number <= most or (above and number == least):
        bounds = f"above {least:g}" if above else f"at least {least:g}"
        bounds += "" if most == FLOAT32 and number < most else f" and at most {most:g}"
        raise ValueError(f"{name} must be a number {bounds}, is {number}")
    return number


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, not {kind_of(value)}")
    return value


def choice(name: str, value: object, choices: Mapping[str, int]) -> int:
    """The number that one of these words stands for."""
    if text(name, value) not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, is {value!r}")
    return choices[str(value)]


def integers(name: str, values: object, least: int = 0, *, empty: bool = False) -> list[int]:
    """A list, tuple, array, range ... of integers, which may be empty if `empty` is true."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of int, not {kind_of(values)}")
    found = [integer(f"{name}[{at}]", value, least) for at, value in enumerate(values)]
    if not found and not empty:
        raise ValueError(f"{name} is empty")
    return found


def timeout(value: object) -> float | None:
    """Seconds, or None to wait forever."""
    return None if value is None else real("timeout", value, above=True)


def keepalive(value: object) -> float:
    """Seconds between two questions to a server. 0 is for none, and servers allow one every 5 seconds."""
    seconds = real("keepalive", value, most=86400)
    if 0 < seconds < 5:
        raise ValueError(f"keepalive must be 0, or at least 5, is {seconds:g}")
    return seconds


def short_float(value: float) -> float:
    """A float32 of a message as the decimal number that was meant: 0.1, not 0.10000000149011612."""
    if not math.isfinite(value):
        return value
    same = (float(f"{value:.{digits}g}") for digits in range(6, 9))
    return next((short for short in same if struct.pack("f", short) == struct.pack("f", value)), value)
