"""The token that tells a server with --access who calls."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable

from folio import checks

_MOST = 4096


def check_token(token: str | None) -> str:
    """The argument of a client, or in place of None that of the environment: $FOLIO_TOKEN, or the contents of the file
    $FOLIO_TOKEN_FILE. Empty if there is none. Raises a ValueError that does not show the token."""
    if token is not None:
        name, value = "token", checks.text("token", token)
    elif os.environ.get("FOLIO_TOKEN"):
        name, value = "FOLIO_TOKEN", os.environ["FOLIO_TOKEN"]
    else:
        name, value = "FOLIO_TOKEN_FILE", _read(os.environ.get("FOLIO_TOKEN_FILE", ""))
    if not all("!" <= letter <= "~" for letter in value):
        raise ValueError(f"{name} has a space or a character that is not printable ASCII")
    if len(value) > _MOST:
        raise ValueError(f"{name} has more than {_MOST} characters")
    return value


def _read(path: str) -> str:
    if not path:
        return ""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(_MOST + 2).strip()
    except OSError as error:
        raise ValueError(f'FOLIO_TOKEN_FILE: the file "{path}" cannot be read: {error.strerror}') from error
    if not text:
        raise ValueError(f'FOLIO_TOKEN_FILE: the file "{path}" is empty')
    return text


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_ways(token: str, encrypted: bool, addresses: Iterable[str]) -> None:
    """Raises a ValueError if the token would go to one of the addresses in plain over a network."""
    for address in addresses:
        if token and not encrypted and not address.startswith("unix:") and not _is_loopback(address):
            raise ValueError(
                f'token would go to "{address}" without encryption, so others could read it on its way: give tls, or use a '
                "Unix socket or loopback (127.0.0.1)"
            )


def metadata(token: str) -> tuple[tuple[str, str], ...]:
    """The metadata of calls that carry the token."""
    return (("authorization", f"Bearer {token}"),) if token else ()
