"""Certificates for tests, made with the command openssl: authorities, and what they sign for servers and clients."""

import os
import pathlib
import shutil
import subprocess
from typing import NamedTuple

import folio
import pytest

_FRESH_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
LOCAL = ("DNS:localhost", "IP:127.0.0.1")


class Pair(NamedTuple):
    """Paths of a certificate and its key, as PEM."""

    cert: pathlib.Path
    key: pathlib.Path

    def server_flags(self, client_ca=None):
        """Those with which every daemon serves it."""
        flags = [f"--tls_cert={self.cert}", f"--tls_key={self.key}"]
        return flags if client_ca is None else [*flags, f"--tls_client_ca={client_ca}"]

    def expiry(self):
        """The second of UTC at which it expires, such as 2026-07-01T12:00:00."""
        line = _openssl("x509", "-in", self.cert, "-noout", "-enddate", "-dateopt", "iso_8601")
        return line.strip().removeprefix("notAfter=").removesuffix("Z").replace(" ", "T")


def _openssl(*arguments, environment=None):
    given = {**os.environ, **(environment or {})}
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, env=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Authority:
    """Signs certificates in a directory, which must exist. Its own is `ca`, and is valid for two days unless it is given others.
    `environment` is for the command, whose time of day it may set."""

    def __init__(self, directory, name="authority", days=2, environment=None):
        self.directory, self.environment = pathlib.Path(directory), environment
        self.ca, self._key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        own = ["-days", days, "-subj", f"/CN={name}", "-out", self.ca, "-keyout", self._key]
        _openssl("req", "-x509", *_FRESH_KEY, *own, environment=environment)
        self._key.chmod(0o600)

    def issue(self, name, names=LOCAL, days=2):
        """A Pair of the files NAME.pem and NAME.key. `names` are those that the certificate is for, such as "DNS:localhost".
        With fewer than 0 `days` it has expired."""
        pair = Pair(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        request = self.directory / f"{name}.csr"
        subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName={','.join(names)}"]
        _openssl("req", *_FRESH_KEY, *subject, "-out", request, "-keyout", pair.key, environment=self.environment)
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._key, "-set_serial", f"0x{os.urandom(8).hex()}",
            "-days", days, "-copy_extensions", "copy", "-out", pair.cert, environment=self.environment,
        )  # fmt: skip
        pair.key.chmod(0o600)
        return pair


def tls(authority, pair=None, **more):
    """How a client of the Python SDK trusts an authority, and shows a pair of its own."""
    own = {} if pair is None else {"cert": str(pair.cert), "key": str(pair.key)}
    return folio.Tls(ca=str(authority.ca), **own, **more)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """The authority that signs for our side."""
    return Authority(tmp_path_factory.mktemp("house"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """An authority that our side does not trust."""
    return Authority(tmp_path_factory.mktemp("other"))


def replace(path, by):
    """Puts a copy of one file in the place of another in one step, as those who renew certificates do."""
    fresh = path.with_name(path.name + ".fresh")
    shutil.copy(by, fresh)
    os.replace(fresh, path)
