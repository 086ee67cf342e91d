"""The Python SDK as its users get it: `python -m build` gives a wheel, which generates from an environment with nothing else."""

import os
import pathlib
import shutil
import subprocess

import folio
import pytest
from stubs import ROOT

SOURCES = ROOT / "services/client/python"
LOCKS = ROOT / "tests/packages"
ASK = """
import sys, folio
with folio.Client(sys.argv[1], sys.argv[2], timeout=60) as client:
    print(client.generate(chat=[("user", "What is the capital of France?")], max_tokens=20).text())
    print(len(client.pools()), "pool")
print(folio.__version__, folio.__file__)
"""


def run(*command, **options):
    done = subprocess.run([os.fspath(word) for word in command], capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def environment(folder, lock):
    return pathlib.Path(run(ROOT / "deploy/python_env.sh", folder, LOCKS / lock / "requirements.txt").strip())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the source distribution of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    # A copy: setuptools leaves its work beside the sources.
    copy = folder / "repository/services/client/python"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("*_pb2*", "__pycache__", "build", "dist", "*.egg-info"))
    shutil.copytree(ROOT / "proto", folder / "repository/proto")
    python = environment(folder / "build-venv", "wheel")
    # The source distribution first and the wheel of it, as without --sdist and --wheel. The lock has the build's tools.
    run(python, "-m", "build", "--no-isolation", "--outdir", folder / "dist", copy)
    return folder / "dist"


def test_both_distributions_are_made(built):
    names = sorted(path.name for path in built.iterdir())
    assert names == [f"folio-{folio.__version__}-py3-none-any.whl", f"folio-{folio.__version__}.tar.gz"]


def test_the_wheel_generates_in_a_clean_environment(built, tmp_path, nothing_lost):
    python = environment(tmp_path / "venv", "clean")
    (wheel,) = built.glob("*.whl")
    run(python, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps", "--no-index", wheel)
    run(python, "-m", "pip", "--disable-pip-version-check", "check")  # it has all that the wheel asks for
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FOLIO_"))}
    said = run(python, "-I", "-c", ASK, nothing_lost.worker_address(), nothing_lost.manager_address, cwd=tmp_path, env=clean)
    assert "Paris" in said and "1 pool\n" in said and f"{folio.__version__} {tmp_path}/venv/" in said
