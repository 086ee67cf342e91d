"""deploy/setup.sh finds or installs a recent cargo and Node.js, on each system we name, without touching this one."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ("bash", "awk", "cat", "dirname", "env", "grep", "mktemp", "rm", "sort", "tr")
OLD, NEW = "0.66.0+ds1-1", "1.85.0+dfsg3-1~deb12u3"
UBUNTU = "1.82.0+dfsg0ubuntu1-0ubuntu1"


class Machine:
    """Its PATH has a package manager that writes down what it is asked, and brings a cargo or not."""

    def __init__(self, path, offered, brings):
        self.bin, self.asked = path / "bin", path / "asked"
        self.bin.mkdir()
        self.asked.touch()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.script("id", "echo 0")
        self.script("dpkg-query", "echo installed")
        self.script("node", "echo v20.1.0")
        self.script("npm", "")
        rows = "".join(f"{name}) version='{version}' ;; " for name, version in offered.items())
        self.script("apt-cache", f"case $2 in {rows}*) version='(none)' ;; esac; echo '  Candidate:' $version")
        # An install leaves a cargo under the name of its first package, as the real ones do.
        cargo = "cargo" if brings == "cargo-web" else brings
        self.script("apt-get", f'echo "$@" >>{self.asked}\ncase $* in install*{brings or "NOTHING"}*) '
                    f"printf '#!/bin/sh\\necho cargo 1.85.0\\n' >{self.bin}/{cargo}; "
                    f"{shutil.which('chmod')} +x {self.bin}/{cargo} ;; esac")

    def script(self, name, body):
        path = self.bin / name
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)

    def set_up(self, *folders_before):
        path = ":".join(map(str, (*folders_before, self.bin)))
        environment = {"PATH": path, "HOME": str(self.bin.parent), "TMPDIR": str(self.bin.parent)}
        return subprocess.run([shutil.which("bash"), ROOT / "deploy/setup.sh"], env=environment,
                              capture_output=True, text=True, timeout=60)

    def installs(self):
        return [line.split("recommends ")[1] for line in self.asked.read_text().splitlines() if "install" in line]


@pytest.mark.parametrize(
    "offered, packages",
    [
        pytest.param({"cargo": OLD, "cargo-web": NEW}, "cargo-web", id="Debian 12"),
        pytest.param({"cargo": "1.75.0+dfsg0ubuntu1-0ubuntu7", "cargo-1.82": UBUNTU, "rustc-1.82": UBUNTU},
                     "cargo-1.82 rustc-1.82", id="Ubuntu 24.04"),
        pytest.param({"cargo": NEW, "cargo-web": NEW}, "cargo", id="newer than both"),
    ],
)
def test_installs_the_cargo_that_the_system_offers(tmp_path, offered, packages):
    machine = Machine(tmp_path, offered, packages.split()[0])
    machine.script("cargo", "echo cargo 1.65.0")
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert machine.installs() == [packages]


@pytest.mark.parametrize("name", ["cargo", "cargo-1.82"])
def test_a_recent_cargo_is_taken_as_it_is(tmp_path, name):
    machine = Machine(tmp_path, {}, None)
    machine.script("cargo", "echo cargo 1.75.0")
    machine.script(name, "echo cargo 1.82.0")
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert not machine.asked.read_text()


@pytest.mark.parametrize("first", ["echo cargo 1.65.0", "echo no toolchain is configured >&2; exit 1"])
def test_a_cargo_that_will_not_do_hides_no_good_one(tmp_path, first):
    machine = Machine(tmp_path, {}, None)
    machine.script("cargo", "echo cargo 1.85.0")
    before = tmp_path / "before"
    before.mkdir()
    (before / "cargo").write_text(f"#!{shutil.which('bash')}\n{first}\n")
    (before / "cargo").chmod(0o755)
    done = machine.set_up(before)
    assert done.returncode == 0, done.stderr
    assert not machine.asked.read_text()


@pytest.mark.parametrize("offered", [{"cargo": OLD}, {"cargo-1.82": UBUNTU}, {"cargo": NEW}])
def test_no_recent_cargo_is_said(tmp_path, offered):
    """Nothing on offer, half of what is needed, and a package that does not hold what it says."""
    done = Machine(tmp_path, offered, None).set_up()
    assert done.returncode == 1
    assert "no cargo of 1.82 or newer" in done.stderr and "rustup" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["asked", "bin"], "a log was left behind"


@pytest.mark.parametrize("node", ["echo v12.22.12", "exit 127"])
def test_a_missing_or_old_node_is_installed(tmp_path, node):
    machine = Machine(tmp_path, {}, None)
    machine.script("cargo", "echo cargo 1.85.0")
    machine.script("node", node)
    done = machine.set_up()
    assert machine.installs() == ["nodejs npm"]
    assert done.returncode == 1 and "no Node.js of 18.19 or newer" in done.stderr  # what was installed is not recent either


def test_set_up_and_build_look_for_the_same_cargo():
    packages = (ROOT / "deploy/packages.sh").read_text()
    build = (ROOT / "deploy/cargo.cmake").read_text()
    assert (re.search(r"FOLIO_CARGO_NAMES=\(([^)]*)\)", packages)[1].split()
            == re.search(r"foreach\(name (cargo [^)]*)\)", build)[1].split())
    assert (re.search(r"FOLIO_RUST_MINIMUM=(\S+)", packages)[1]
            == re.search(r"FOLIO_CARGO_MINIMUM (\S+)\)", build)[1])
