"""`cmake --install` gives programs that start and a C++ SDK that a project of another folder builds against."""

import pathlib
import re
import subprocess

import pytest
from node import BIN

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(folio VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(ask LANGUAGES CXX)
find_package(folio {version} REQUIRED)
add_executable(ask example.cc)
target_link_libraries(ask PRIVATE folio::client)
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation that was moved after it was made: nothing in it may know where it was."""
    folder = tmp_path_factory.mktemp("install")
    run("cmake", "--install", BIN.parent, "--prefix", folder / "first")
    return (folder / "first").rename(folder / "moved")


@pytest.mark.parametrize(
    "name, flag, said",
    [("folio-manager", "--version", VERSION), ("folio-worker", "--version", VERSION), ("folioctl", "--version", VERSION)],
)
def test_installed_programs_start(prefix, name, flag, said):
    assert said in run(prefix / "bin" / name, flag)


def test_the_installation_is_whole_and_knows_no_folder_of_the_build(prefix):
    for name in ("client", "inputs", "call", "admin_client", "policy_text"):
        assert (prefix / f"include/folio/services/client/{name}.h").is_file()
    protos = {path.name for path in (prefix / "share/folio/proto/folio/v1").iterdir()}
    assert protos == {path.name for path in (ROOT / "proto/folio/v1").iterdir()}
    package = list(prefix.glob("lib*/**/cmake/folio/*.cmake"))
    assert len(package) >= 4
    for path in package:
        text = path.read_text()
        assert str(ROOT) not in text and str(BIN.parent) not in text and "-Werror" not in text, path.name


def test_a_project_of_three_lines_uses_the_sdk(prefix, tmp_path, nothing_lost):
    example = (ROOT / "services/client/example.cc").read_text()
    (tmp_path / "example.cc").write_text(example)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(version=VERSION))
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    said = run(tmp_path / "build/ask", nothing_lost.worker_address(), "What is the capital of France?")
    assert "Paris" in said and "pages held]" in said


def test_another_minor_version_is_refused(prefix, tmp_path):
    (tmp_path / "example.cc").write_text("int main() {}\n")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.format(version="0.1"))
    done = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and f"version: {VERSION}" in done.stderr
