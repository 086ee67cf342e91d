"""The units of deploy/systemd: systemd understands them, and their exposure is low. CUDA's drop-in is laid on them as well."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy/systemd"
SYSTEM = pathlib.Path("/usr/lib/systemd/system")
MOST = 2.0  # exposure, as systemd-analyze security counts it
# As deploy/packages.cmake fills in the worker's template.
WORKERS = {
    "folio-worker.service": {"package": "folio-worker", "flags": "worker.flags", "listen": "", "name": ""},
    "folio-worker@.service": {"package": "folio-worker", "flags": "worker-%i.flags",
                              "listen": " --listen=unix:/run/folio/worker-%i.sock", "name": " %i"},
}
SERVICES = ["folio-manager.service", "folio-gateway.service", *WORKERS]

pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here: NO UNIT WAS CHECKED")


def fill(values):
    text = (UNITS / "folio-worker.service.in").read_text()
    for name, value in values.items():
        assert f"@{name}@" in text
        text = text.replace(f"@{name}@", value)
    assert not re.search(r"@[a-z]+@", text)
    return text


def analyze(*arguments):
    environment = {**os.environ, "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
    done = subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def machine(tmp_path):
    """The folders of a machine that has the packages, as far as systemd-analyze looks."""
    units = tmp_path / "usr/lib/systemd/system"
    units.parent.mkdir(parents=True)
    shutil.copytree(SYSTEM, units, symlinks=True)
    for path in (*UNITS.glob("folio-manager*"), UNITS / "folio-gateway.service"):
        shutil.copy(path, units)
    for name, values in WORKERS.items():
        (units / name).write_text(fill(values))
    for program in ("usr/bin/folio-manager", "usr/bin/folio-gateway", "usr/bin/folio-worker", "usr/libexec/folio/worker-has-model"):
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tmp_path


def with_cuda(machine):
    for service in SERVICES:
        folder = machine / f"usr/lib/systemd/system/{service}.d"
        folder.mkdir()
        shutil.copy(UNITS / "cuda.conf", folder)


def installed(machine, name):
    return name.replace("@.", "@second."), machine / "usr/lib/systemd/system" / name


@pytest.mark.parametrize("name", [*SERVICES, "folio-manager.socket", "folio-manager-export.socket"])
def test_systemd_finds_nothing_wrong(machine, name):
    code, said = analyze("verify", "--man=no", "--recursive-errors=no", f"--root={machine}", installed(machine, name)[0])
    ours = [line for line in said.splitlines() if "folio" in line]
    assert code == 0 and not ours, said


def test_a_wrong_line_is_found(machine):
    unit = machine / "usr/lib/systemd/system/folio-worker.service"
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=gently"))
    said = analyze("verify", "--man=no", "--recursive-errors=no", f"--root={machine}", unit.name)[1]
    assert "kill mode" in said and "gently" in said


def exposure(machine, name):
    code, said = analyze("security", "--offline=true", "--no-pager", f"--root={machine}", installed(machine, name)[0])
    found = re.search(r"exposure level for \S+: ([0-9.]+)", said)
    assert found, f"{code}: {said}"
    return float(found[1])


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("cuda", [False, True])
def test_exposure_is_low(machine, name, cuda):
    before = exposure(machine, name)
    assert before <= MOST
    if cuda:
        with_cuda(machine)
        assert before < exposure(machine, name) <= MOST, "the drop-in opens devices, which must count"


def test_services_have_longer_to_end_than_they_drain():
    for role, unit in (("manager", "folio-manager.service"), ("gateway", "folio-gateway.service"),
                       ("worker", "folio-worker.service.in")):
        flags = (ROOT / f"deploy/debian/{role}.flags").read_text()
        drain = int(re.search(r"^--drain_timeout=(\d+)s$", flags, re.M)[1])
        assert drain + 10 <= int(re.search(r"^TimeoutStopSec=(\d+)$", (UNITS / unit).read_text(), re.M)[1])


def test_sockets_and_flags_agree():
    flags = (ROOT / "deploy/debian/manager.flags").read_text()
    for unit, flag in (("folio-manager", "listen"), ("folio-manager-export", "export_socket")):
        path = re.search(r"^Listen\w+=(.+)$", (UNITS / f"{unit}.socket").read_text(), re.M)[1]
        assert re.search(rf"^--{flag}=(unix:)?{re.escape(path)}$", flags, re.M)
