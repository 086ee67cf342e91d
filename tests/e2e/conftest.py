"""Pairs of manager and worker that tests share: one in float32, one in bfloat16."""

import os
import subprocess

import pytest
from certificates import house, other  # noqa: F401 - for the tests of encryption
from node import BIN, MODEL, Node, pair, write_model


def pytest_collection_modifyitems(items):
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here) and not MODEL:
            item.add_marker(pytest.mark.skip(reason="FOLIO_MODEL is not set: NOTHING WAS TESTED END TO END"))


def pytest_terminal_summary(terminalreporter):
    if not MODEL:
        terminalreporter.write_line("FOLIO_MODEL is not set: the end-to-end tests were skipped", red=True)


@pytest.fixture(scope="session", autouse=True)
def binaries():
    if not MODEL:
        return
    missing = [name for name in ("folio-manager", "folio-worker", "folioctl") if not (BIN / name).exists()]
    assert not missing, f"{BIN} lacks {', '.join(missing)}: build first, or set FOLIO_BIN"
    assert os.path.exists(MODEL), f"FOLIO_MODEL={MODEL} does not exist"


@pytest.fixture(scope="session")
def float32():
    with pair(compute="float32") as node:
        yield node


@pytest.fixture(scope="session")
def bfloat16():
    # Its weights too, whose numbers are those of the oracle and of a directory.
    with pair(compute="bfloat16", flags=["--weights=bfloat16"]) as node:
        yield node


@pytest.fixture
def nothing_lost(bfloat16):
    """Around a test on the bfloat16 pair: whatever it does, all pages come back and all live."""
    yield bfloat16
    bfloat16.assert_alive()
    bfloat16.assert_all_free()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """One of random weights that the kernels for GPUs serve."""
    return write_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def long_model(tmp_path_factory):
    """The same with a context of 65,536 tokens, for generations that nobody waits for. It says thousands of tokens a second."""
    return write_model(tmp_path_factory.mktemp("model") / "long", "llama", 1 << 16)


@pytest.fixture(scope="session")
def tiny_cpu(tiny_model):
    """A pair with it on the CPU, in bfloat16."""
    with Node(pool="8MiB") as node:
        node.stub = node.start_worker(model=tiny_model)
        yield node
        node.assert_alive()
        node.assert_all_free()


@pytest.fixture
def folioctl(nothing_lost):
    """Runs a command on the pair that fits it."""
    environment = {
        **os.environ,
        "FOLIO_ADDRESS": nothing_lost.worker_address(),
        "FOLIO_MANAGER_ADDRESS": nothing_lost.manager_address,
        "LC_ALL": "C.UTF-8",
    }

    def run(*arguments, code=0, **options):
        result = subprocess.run(
            [BIN / "folioctl", *map(str, arguments)], capture_output=True, text=True, timeout=120, env=environment, **options
        )
        assert result.returncode == code, f"{result.returncode}: {result.stdout}{result.stderr}"
        return result.stderr if code else result.stdout

    run.environment = environment
    return run
