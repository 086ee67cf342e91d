"""deploy/python_env.sh installs what a lock names, byte for byte, and nothing else."""

import hashlib
import io
import os
import pathlib
import subprocess
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
PYPROJECT = '[build-system]\nrequires = ["toy_builder"]\nbuild-backend = "toy_builder"\n'
# A build backend (PEP 517) of our own: the wheel that it makes says who made it.
BUILDER = """
import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "toy_source-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as archive:
        archive.writestr("toy_source.py", "'made by the locked builder'")
        archive.writestr("toy_source-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: toy_source\\nVersion: 1.0\\n")
        archive.writestr("toy_source-1.0.dist-info/WHEEL",
                         "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr("toy_source-1.0.dist-info/RECORD", "")
    return name
"""


class Index:
    """A folder of packages of our own making that pip looks in, and in nothing else."""

    def __init__(self, path):
        self.path, self.packages = path, path / "packages"
        self.packages.mkdir()

    def wheel(self, name, text, needs=()):
        path = self.packages / f"{name}-1.0-py3-none-any.whl"
        about = METADATA.format(name=name) + "".join(f"Requires-Dist: {other}\n" for other in needs)
        folder = f"{name}-1.0.dist-info"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{name}.py", text)
            archive.writestr(f"{folder}/METADATA", about)
            archive.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{folder}/RECORD", "")
        return self.line(name, path)

    def source(self, name):
        path = self.packages / f"{name}-1.0.tar.gz"
        files = {"pyproject.toml": PYPROJECT, "PKG-INFO": METADATA.format(name=name)}
        with tarfile.open(path, "w:gz") as archive:
            for member, text in files.items():
                entry = tarfile.TarInfo(f"{name}-1.0/{member}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        return self.line(name, path)

    @staticmethod
    def line(name, path):
        return f"{name}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"

    def lock(self, *lines, name="requirements.txt"):
        (self.path / name).write_text("".join(lines))

    def install(self, *options):
        environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.packages)}
        command = [ROOT / "deploy/python_env.sh", self.path / "venv", self.path / "requirements.txt", *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    def imported(self, name):
        done = subprocess.run([self.path / "venv/bin/python", "-c", f"import {name}; print({name}.__doc__)"],
                              capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """One environment for all tests, which install packages of different names: making one takes seconds."""
    return Index(tmp_path_factory.mktemp("index"))


def test_installs_once_and_follows_the_lock(index):
    one = index.wheel("toy_one", "'first'")
    index.lock(one)
    done = index.install()
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(index.path / "venv/bin/python")
    assert index.imported("toy_one") == "first"
    assert "installing" not in index.install().stderr, "a lock that has not changed was installed again"
    index.lock(one, index.wheel("toy_two", "'second'"))
    assert index.install().returncode == 0 and index.imported("toy_two") == "second"


def test_refuses_another_file_of_the_same_name(index):
    index.lock(index.wheel("toy_three", "'third'"))
    index.wheel("toy_three", "'changed'")
    for _ in range(2):
        done = index.install()
        assert done.returncode != 0 and not done.stdout and "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr
    assert index.imported("toy_three") is None


def test_refuses_what_the_lock_does_not_name(index):
    index.wheel("toy_five", "'fifth'")
    index.lock(index.wheel("toy_four", "'fourth'", needs=["toy_five"]))
    done = index.install()
    assert done.returncode != 0 and "toy_five" in done.stderr and index.imported("toy_five") is None


def test_checks_a_lock_that_is_installed_as_it_is(tmp_path):
    index = Index(tmp_path)
    seventh = index.wheel("toy_seven", "'seventh'")
    index.lock(index.wheel("toy_six", "'sixth'", needs=["toy_seven"]))
    done = index.install("--no-deps")
    assert done.returncode != 0 and not done.stdout
    assert "requires toy" in done.stderr and "which is not installed" in done.stderr
    assert "installing" in index.install("--no-deps").stderr, "it counts as installed"
    index.lock(index.line("toy_six", index.packages / "toy_six-1.0-py3-none-any.whl"), seventh)
    assert index.install("--no-deps").returncode == 0 and index.imported("toy_seven") == "seventh"


def test_builds_sources_with_locked_tools_alone(index):
    builder = index.wheel("toy_builder", BUILDER)
    index.lock(index.source("toy_source"))
    done = index.install()
    assert done.returncode != 0 and index.imported("toy_source") is None, "its builder came without a lock"
    index.lock(builder, name="build-requirements.txt")
    done = index.install()
    assert done.returncode == 0, done.stderr
    assert index.imported("toy_source") == "made by the locked builder"


def test_bad_arguments():
    done = subprocess.run([ROOT / "deploy/python_env.sh", "alone"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr
    done = subprocess.run([ROOT / "deploy/python_env.sh", "a", "b", "--deps"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr
