"""Encryption of connections by TCP: whose certificates a client trusts, and the one that it shows."""

from __future__ import annotations

import os
import ssl
import threading
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import grpc

from folio import checks

_ON = {"": None, "1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True)
class Tls:
    """TLS for connections by TCP, with paths of PEM files. An empty text is not given. Unix sockets stay plain.

    `ca` has the authorities of which one has signed the servers' certificates. Without it they are those that grpcio has,
    or those in $GRPC_DEFAULT_SSL_ROOTS_FILE_PATH. `cert`, with the authorities between, and `key` are the client's own,
    for servers with --tls_client_ca. `server_name` is the name or IP address that the servers' certificates must have.
    Without it that is the host of the address.

    The files are read when a connection is made. If one cannot be used then, the call raises a ValueError that names it.

        >>> Tls(ca="/etc/folio/ca.crt")
        Tls(ca='/etc/folio/ca.crt', cert='', key='', server_name='')
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    server_name: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            checks.text(field.name, getattr(self, field.name))
        for given, missing in (("cert", "key"), ("key", "cert")):
            if getattr(self, given) and not getattr(self, missing):
                raise ValueError(f"{given} needs {missing}: give both files, or neither")

    @classmethod
    def from_environment(cls) -> Tls | None:
        """Reads $FOLIO_TLS_CA, $FOLIO_TLS_CERT, $FOLIO_TLS_KEY and $FOLIO_TLS_SERVER_NAME, as folioctl does. Returns None if all
        are empty and $FOLIO_TLS is neither 1 nor true, and in any case if that is 0 or false. Raises a ValueError that names
        the variable."""
        said = os.environ.get("FOLIO_TLS", "")
        if said not in _ON:
            raise ValueError(f'FOLIO_TLS must be 1, true, 0 or false, or empty, is "{said}"')
        given = {field.name: os.environ.get(f"FOLIO_TLS_{field.name.upper()}", "") for field in fields(cls)}
        if _ON[said] is False or not (_ON[said] or any(given.values())):
            return None
        if bool(given["cert"]) != bool(given["key"]):
            variables = ("FOLIO_TLS_CERT", "FOLIO_TLS_KEY") if given["cert"] else ("FOLIO_TLS_KEY", "FOLIO_TLS_CERT")
            raise ValueError("{} needs {}: set both, or neither".format(*variables))
        return cls(**given)


def check_tls(tls: object) -> Tls | None:
    """The argument of a client, or in place of None that of the environment. Raises a TypeError for any other type."""
    if tls is None:
        return Tls.from_environment()
    if not isinstance(tls, Tls):
        raise TypeError(f"tls must be a folio.Tls, not {checks.kind_of(tls)}")
    return tls


class Pem(NamedTuple):
    """Contents of a client's files, as gRPC takes them. None is a file that is not given."""

    ca: bytes | None
    key: bytes | None
    cert: bytes | None


def _unusable(name: str, path: str, why: str) -> ValueError:
    return ValueError(f'the file "{path}" of tls.{name} {why}')


def _read(name: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        raise _unusable(name, path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_files(tls: Tls) -> Pem:
    """Raises a ValueError that names the file that cannot be used, about which gRPC would say nothing."""
    pem = Pem(_read("ca", tls.ca), _read("key", tls.key), _read("cert", tls.cert))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if pem.ca is not None:
            context.load_verify_locations(cadata=pem.ca.decode("ascii", "ignore"))  # bundles have comments
    except (OSError, ValueError) as error:
        raise _unusable("ca", tls.ca, "has no certificate as PEM that can be read") from error
    if pem.key is None or pem.cert is None:
        return pem
    for name, path, text, mark in (("cert", tls.cert, pem.cert, b"CERTIFICATE-"), ("key", tls.key, pem.key, b"PRIVATE KEY-")):
        if mark not in text:
            raise _unusable(name, path, f"has no {mark[:-1].decode().lower()} as PEM")
    try:
        # Without a password. OpenSSL would ask for one at the terminal.
        context.load_cert_chain(tls.cert, tls.key, password=b"")
    except (OSError, ValueError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            raise _unusable("key", tls.key, f'is not the key of the certificate in "{tls.cert}"') from error
        why = f'or the certificate in "{tls.cert}" cannot be read, or needs a password: {error}'
        raise _unusable("key", tls.key, why) from error
    return pem


class Credentials:
    """gRPC's credentials of a client, from files that may be replaced. Thread-safe."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._lock = threading.Lock()
        self._last: Pem | None = None

    @property
    def options(self) -> list[tuple[str, str]]:
        """Options of channels."""
        return [("grpc.ssl_target_name_override", self._tls.server_name)] if self._tls.server_name else []

    def read(self) -> Pem:
        """Returns the contents of the files now. While they cannot be used, for example because one of two is replaced, it
        returns those of before. The first time it raises as `read_files` does."""
        with self._lock:
            try:
                self._last = read_files(self._tls)
            except ValueError:
                if self._last is None:
                    raise
            return self._last

    @staticmethod
    def of(pem: Pem) -> Any:
        return grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert)
