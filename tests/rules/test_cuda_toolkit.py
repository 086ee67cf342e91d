"""deploy/cuda_toolkit.sh takes an installed toolkit that will do, and no wheel that is not the pinned one."""

import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ("bash", "awk", "basename", "cat", "chmod", "dirname", "find", "flock", "head", "ln", "mkdir", "mv", "readlink",
         "realpath", "rm", "sed", "sha256sum", "sort", "touch", "uname")
LINUX = pytest.mark.skipif(platform.machine() != "x86_64", reason="the pinned wheels are for x86-64")


class Machine:
    """A copy of the script that pins wheels of our own making; `pip` brings them and is counted."""

    def __init__(self, path):
        self.path, self.bin = path, path / "bin"
        (path / "deploy").mkdir()
        self.bin.mkdir()
        shutil.copy(ROOT / "deploy/cuda_toolkit.sh", path / "deploy")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.script(self.bin / "cmake", "echo cmake version 4.1.0")
        self.script(self.bin / "python3", f'case $* in *download*) echo "$@" >>{path}/asked; '
                    f'for last; do :; done; exec {shutil.which("cp")} {path}/offered/*"${{last##*==}}"* {path}/cache/'
                    f'cuda-wheels/ ;; esac; exec {sys.executable} "$@"')
        (path / "asked").touch()
        (path / "offered").mkdir()
        toolkit = self.wheel("toy_tool", "1.0", {"nvidia/cu13/bin/nvcc": "", "nvidia/cu13/nvvm/bin/cicc": "",
                                                 "nvidia/cu13/lib/libtoy.so.13": "", "nvidia/nccl/lib/libnccl.so.2": ""})
        headers = self.wheel("toy_infer", "2.0", {"toy/data/include/a.cuh": "", "toy/csrc/b.cu": "",
                                                  "toy/data/other/include/c.h": "", "toy/data/other/tools/d.h": "",
                                                  "toy_infer.dist-info/licenses/LICENSE": ""})
        tools = self.wheel("toy_check", "3.0", {"nvidia/cu13/compute-sanitizer/compute-sanitizer": "",
                                                "nvidia/cu13/bin/compute-sanitizer": ""})
        (path / "deploy/cuda_wheels.sh").write_text(
            f'FOLIO_CUDA_MINIMUM=12.4\nFOLIO_WHEELS_toolkit=("toy-tool==1.0 {toolkit}")\n'
            f'FOLIO_WHEELS_flashinfer=("toy-infer==2.0 {headers} toy/data/include/ toy/data/other/include/")\n'
            f'FOLIO_WHEELS_sanitizer=("toy-check==3.0 {tools} nvidia/cu13/compute-sanitizer/")\n')

    def script(self, path, body):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)

    def wheel(self, name, version, members):
        path = self.path / "offered" / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for member, text in members.items():
                archive.writestr(member, text)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def run(self, *options, **environment):
        environment = {"PATH": str(self.bin), "HOME": str(self.path), "FOLIO_CACHE": str(self.path / "cache"),
                       **environment}
        done = subprocess.run([shutil.which("bash"), self.path / "deploy/cuda_toolkit.sh", *options], env=environment,
                              capture_output=True, text=True, timeout=60)
        return done, dict(line.split("=", 1) for line in done.stdout.splitlines())

    def downloads(self):
        return len((self.path / "asked").read_text().splitlines())


@LINUX
def test_makes_a_toolkit_once(tmp_path):
    machine = Machine(tmp_path)
    for _ in range(2):
        done, paths = machine.run()
        assert done.returncode == 0, done.stderr
        root = pathlib.Path(paths["CUDA_ROOT"])
        assert os.access(root / "bin/nvcc", os.X_OK) and (root / "lib64/libtoy.so").exists()
        assert (pathlib.Path(paths["NCCL_ROOT"]) / "lib/libnccl.so").exists()
        assert machine.downloads() == 2
        assert (root / "bin/nvcc").stat().st_mtime == 1735689600, "another date for the same compiler"
    shutil.rmtree(tmp_path / "build-cuda-toolkit")
    assert machine.run()[0].returncode == 0
    assert machine.downloads() == 2, "wheels in the cache were downloaded again"


@LINUX
def test_unpacks_headers_alone(tmp_path):
    done, _ = Machine(tmp_path).run()
    assert done.returncode == 0, done.stderr
    found = {path.name for path in (tmp_path / "build-cuda-toolkit/flashinfer").rglob("*") if path.is_file()}
    assert found == {"a.cuh", "c.h", "LICENSE", "wheels.txt"}


@LINUX
def test_brings_the_sanitizer_where_it_is_asked_for(tmp_path):
    machine = Machine(tmp_path)
    assert "SANITIZER" not in machine.run()[1]
    assert machine.downloads() == 2
    for _ in range(2):
        done, paths = machine.run("--sanitizer")
        assert done.returncode == 0, done.stderr
        assert os.access(pathlib.Path(paths["SANITIZER"]) / "compute-sanitizer", os.X_OK)
        assert machine.downloads() == 3
    installed = pathlib.Path(paths["CUDA_ROOT"]) / "compute-sanitizer"
    machine.script(installed / "compute-sanitizer", "")
    assert machine.run("--sanitizer")[1]["SANITIZER"] == str(installed)


@LINUX
def test_refuses_another_wheel_of_the_same_name(tmp_path):
    machine = Machine(tmp_path)
    machine.wheel("toy_infer", "2.0", {"toy/data/include/a.cuh": "changed"})
    done, paths = machine.run()
    assert done.returncode == 1 and not paths
    assert "toy-infer==2.0 has another SHA-256" in done.stderr
    assert not list((tmp_path / "cache").rglob("toy_infer*")), "it stayed in the cache"


def install(machine, home, version, nccl=(2, 27)):
    machine.script(home / "bin/nvcc", f"echo Cuda compilation tools, release {version}, V{version}.1")
    (home / "include").mkdir()
    (home / "include/nccl.h").write_text(f"#define NCCL_MAJOR {nccl[0]}\n#define NCCL_MINOR {nccl[1]}\n")


@pytest.mark.parametrize("version, taken", [("12.4", True), ("13.0", True), ("12.3", False)])
@LINUX
def test_takes_an_installed_toolkit_that_will_do(tmp_path, version, taken):
    machine = Machine(tmp_path)
    home = tmp_path / "installed"
    install(machine, home, version)
    done, paths = machine.run(CUDA_HOME=str(home))
    assert done.returncode == 0, done.stderr
    assert (paths["CUDA_ROOT"] == paths["NCCL_ROOT"] == str(home)) is taken


@LINUX
def test_refuses_an_installed_nccl_that_is_too_old(tmp_path):
    machine = Machine(tmp_path)
    install(machine, tmp_path / "installed", "12.4", nccl=(2, 18))
    done, paths = machine.run(CUDA_HOME=str(tmp_path / "installed"))
    assert done.returncode == 1 and not paths
    assert "NCCL 2.18" in done.stderr and "2.19 is needed" in done.stderr and "NCCL_ROOT" in done.stderr


def test_names_no_wheel_without_its_hash():
    text = (ROOT / "deploy/cuda_wheels.sh").read_text()
    pins = re.findall(r'"(\S+==\S+) ([0-9a-f]+)((?: \S+/)*)"', text)
    assert len(pins) == text.count("==") > 8
    assert all(len(digest) == 64 for _, digest, _ in pins)
