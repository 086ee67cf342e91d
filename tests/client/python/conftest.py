"""A scripted server for each test that wants one; the SDK is the one of this tree."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
import stubs  # noqa: E402, F401 - brings the installed SDK up to date
from certificates import house, other  # noqa: E402, F401 - for the tests of encryption
from scripted import Scripted  # noqa: E402

import folio  # noqa: E402


@pytest.fixture
def server(tmp_path):
    with Scripted(f"unix:{tmp_path}/worker.sock") as server:
        yield server


@pytest.fixture
def client(server):
    """Of that server, as worker and as manager; it gives up after a minute at the latest."""
    with folio.Client(server.address, server.address, timeout=60) as client:
        yield client
