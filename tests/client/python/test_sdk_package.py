"""The package as others get it: types hold, and the source distribution builds by itself."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import folio

ROOT = pathlib.Path(__file__).resolve().parents[3]
SOURCES = ROOT / "services/client/python"


def run(*command, cwd=None):
    result = subprocess.run([sys.executable, *map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_types(tmp_path):
    config = SOURCES / "pyproject.toml"
    assert "no issues" in run("-m", "mypy", "--config-file", config, "--cache-dir", tmp_path / "cache", "-p", "folio")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import folio\nfolio.Client(7).generate(budgets=3)\nfolio.Client().model().size\n")
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", wrong], capture_output=True, text=True
    ).stdout
    assert "Found 3 errors" in found, f"users do not see our types: {found}"


def test_the_source_distribution_builds_a_wheel(tmp_path):
    copy = tmp_path / "repository/services/client/python"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("*_pb2*", "__pycache__", "build", "dist", "*.egg-info"))
    shutil.copytree(ROOT / "proto", tmp_path / "repository/proto")
    run("setup.py", "-q", "sdist", "-d", tmp_path, cwd=copy)
    shutil.rmtree(tmp_path / "repository")
    (archive,) = tmp_path.glob("folio-*.tar.gz")
    run("-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", "-w", tmp_path, archive)
    (wheel,) = tmp_path.glob("folio-*.whl")
    assert wheel.name == f"folio-{folio.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    stubs = {f"folio/v1/{name}_pb2{end}" for name in ("types", "inference", "admin", "kv_manager") for end in (".py", ".pyi", "_grpc.py")}
    assert stubs | {"folio/py.typed", "folio/__init__.py", f"folio-{folio.__version__}.dist-info/licenses/LICENSE"} <= names
    run("-m", "zipfile", "-e", wheel, tmp_path / "unpacked")
    imported = run("-c", "import folio; print(folio.__file__)", cwd=tmp_path / "unpacked").strip()
    assert imported == os.fspath(tmp_path / "unpacked/folio/__init__.py")


def test_what_is_installed_is_this_tree():
    installed = pathlib.Path(folio.__file__).parent
    for path in sorted((SOURCES / "src/folio").glob("*.py")):
        assert (installed / path.name).read_text() == path.read_text(), f"run tests/python.sh: {path.name} is another one"
