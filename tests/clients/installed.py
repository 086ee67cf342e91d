"""The environments of the clients, outside the repository, and the folder of the end-to-end tests on the path."""

import os
import pathlib
import subprocess
import sys

from cache_folder import CACHE

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))


def run(*command, **options):
    """What the command writes. It must succeed."""
    words = [os.fspath(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def environment(name, lock):
    """The interpreter of a Python environment in the cache."""
    return pathlib.Path(run(ROOT / "deploy/python_env.sh", CACHE / name, HERE / lock / "requirements.txt").strip())
