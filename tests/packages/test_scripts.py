"""The maintainer scripts and the worker's condition, without a package manager."""

import os
import pathlib
import subprocess

import pytest

DEBIAN = pathlib.Path(__file__).resolve().parents[2] / "deploy/debian"
SCRIPTS = sorted(path for path in DEBIAN.iterdir() if path.suffix in {".postinst", ".prerm", ".postrm"})


def condition(flags):
    return subprocess.run([DEBIAN / "worker-has-model", flags], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("line, starts", [
    ("--model={present}", True), ("-model={present}", True), ("  --model={present}", True), ("--model={absent}", False),
    ("--model={absent}\n--model={present}", True), ("#--model={absent}", True), ("--model_name=x", True),
])
def test_the_worker_starts_when_its_model_exists(tmp_path, line, starts):
    present, absent, flags = tmp_path / "model", tmp_path / "none", tmp_path / "worker.flags"
    present.write_text("")
    flags.write_text(line.format(present=present, absent=absent) + "\n")
    done = condition(flags)
    assert done.returncode == (0 if starts else 1)
    assert starts or (os.fspath(absent) in done.stderr and os.fspath(flags) in done.stderr)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid_shell(path):
    text = path.read_text().replace("@forget@", (DEBIAN / "forget.sh").read_text())
    done = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert text.startswith("#!/bin/sh\n") and "\nset -e\n" in text


def test_each_daemon_has_its_scripts():
    assert {path.name for path in SCRIPTS} == {f"{role}.{script}" for role in ("manager", "worker", "gateway")
                                               for script in ("postinst", "prerm", "postrm")}
