""".ci/sanitized.py runs a program again when anything changed that its result depends on, and only then."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Stands for a program of GoogleTest: it counts its runs, writes a report and ends as it is told.
PROGRAM = """#!/bin/sh
[ "$GTEST_SHARD_INDEX" != 0 ] || echo run >>runs
echo "options $TSAN_OPTIONS $FOLIO_MODEL"
printf '<testsuites><testsuite><testcase name="Works" classname="One">%s</testcase></testsuite></testsuites>' \\
  "$(cat skip 2>/dev/null)" >"${1#--gtest_output=xml:}"
exit "$(cat code)"
"""
NINJA = """rule cc
  command = c++ -c $in -o $out
rule link
  command = c++ $in -o $out
build one.dir/Unity/unity.cxx.o: cc {root}/build/one.dir/Unity/unity.cxx
build other.o: cc {root}/services/other.cc || /usr/bin/env
build bin/one_test: link one.dir/Unity/unity.cxx.o
build bin/other_test: link other.o
"""


class Tree:
    """A folder of sources with a build of two programs, one_test and other_test."""

    def __init__(self, root):
        self.root, self.build, self.cache = root, root / "build", root.parent / "cache"
        for name in (".ci/sanitized.py", ".ci/lint_keys.py", "tests/skips.py", "tests/cache_folder.py"):
            self.write(name, (ROOT / name).read_text())
            shutil.copymode(ROOT / name, root / name)
        # As CMake compiles the files of a library together.
        self.write("build/one.dir/Unity/unity.cxx", f'#include "{root}/services/one.cc"\n')
        self.write("build/one.dir/Unity/unity.cxx.o", "what a compiler made")
        self.write("services/one.cc", '#include "services/one.h"\n')
        self.write("services/one.h", "// header\n")
        self.write("services/other.cc", "// alone\n")
        self.write("tests/oracle/rows.json", "[]\n")
        self.write("allowed", "Nothing: no reason  # an example\n")
        self.write("build/build.ninja", NINJA.format(root=root))
        self.write("build/thread_tests.txt", "one_test\nother_test\n")
        self.write("build/code", "0")
        self.compile("-O1")
        for name in ("one_test", "other_test"):
            self.write(f"build/bin/{name}", PROGRAM)
            (self.build / "bin" / name).chmod(stat.S_IRWXU)
        subprocess.run(["git", "init", "-q", root], check=True)
        self.add()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def compile(self, flags):
        files = ("build/one.dir/Unity/unity.cxx", "services/other.cc")
        entries = [{"file": f"{self.root}/{name}", "command": f"c++ {flags} -I{self.root} -c {self.root}/{name}"} for name in files]
        self.write("build/compile_commands.json", json.dumps(entries))

    def add(self):
        subprocess.run(["git", "-C", self.root, "add", "services", "tests"], check=True)

    def call(self, action, *more):
        command = [self.root / ".ci/sanitized.py", action, self.build, "thread", *more]
        environment = {**os.environ, "FOLIO_CACHE": str(self.cache), "FOLIO_MODEL": "a model"}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)

    def run(self):
        """The exit status, how many programs ran, and what was said."""
        runs = self.build / "runs"
        runs.unlink(missing_ok=True)
        done = self.call("run", "--allowed", self.root / "allowed")
        return done.returncode, runs.read_text().count("run") if runs.exists() else 0, done.stdout + done.stderr

    def targets(self):
        done = self.call("targets")
        assert done.returncode == 0, done.stderr
        return done.stdout.split()


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "sources")


def test_a_program_that_passed_is_not_run_again(tree, tmp_path):
    assert tree.targets() == ["bin/one_test", "bin/other_test"]
    assert tree.run()[:2] == (0, 2)
    assert tree.targets() == []
    code, runs, said = tree.run()
    assert (code, runs) == (0, 0) and "2 programs, of which 0 have not passed" in said
    # The same sources in another folder, in a build that has yet to be made. Its path is after those of the system in order, and
    # that of the first before them.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        other = Tree(pathlib.Path(folder) / "sources")
        other.cache = tree.cache
        shutil.rmtree(other.build / "bin")
        (other.build / "one.dir/Unity/unity.cxx.o").unlink()
        assert other.targets() == []


def header(tree):
    tree.write("services/one.h", "// another header\n")


def source(tree):
    tree.write("services/one.cc", "// another source\n")


def data(tree):
    tree.write("tests/oracle/rows.json", "[1]\n")


def flags(tree):
    tree.compile("-O2")


def link(tree):
    tree.write("build/build.ninja", NINJA.format(root=tree.root).replace("c++ $in -o", "c++ -lm $in -o"))


def options(tree):
    tree.write(".ci/sanitized.py", (tree.root / ".ci/sanitized.py").read_text().replace("halt_on_error=1", "halt_on_error=0"))


@pytest.mark.parametrize("change, runs", [(header, 1), (source, 1), (data, 2), (flags, 2), (link, 2), (options, 2)])
def test_what_changed_is_run(tree, change, runs):
    assert tree.run()[:2] == (0, 2)
    change(tree)
    assert len(tree.targets()) == runs
    assert tree.run()[:2] == (0, runs)
    assert tree.run()[:2] == (0, 0)


def test_a_program_that_fails_runs_until_it_passes(tree):
    tree.write("build/code", "3")
    for _ in range(2):
        code, runs, said = tree.run()
        assert code == 1 and runs == 2 and "bin/one_test FAILED" in said and "code 3" in said
        assert "options halt_on_error=1 \n" in said, "it has the sanitizer's options, and no model"
    tree.write("build/code", "0")
    assert tree.run()[:2] == (0, 2)


def test_a_skip_has_to_be_allowed(tree):
    tree.write("build/skip", '<skipped message="no reason"/>')
    code, runs, said = tree.run()
    assert code == 1 and runs == 2 and "a skip that is not allowed: One.Works: no reason" in said
    tree.write("allowed", "One.Works: no reason  # an example\n")
    assert tree.run()[:2] == (0, 2)
