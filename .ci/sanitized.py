#!/usr/bin/env python3
"""Runs the test programs of a build with a sanitizer, except those that passed as they are.

    .ci/sanitized.py targets BUILD KIND                      what there is to build, one target a line
    .ci/sanitized.py run BUILD KIND [--allowed FILE]...      FILE is one of tests/skips.py

KIND is thread or address, and BUILD is configured. A program that passes is remembered with all
that its result may depend on: its sources and what they include, the commands that make it, files that tests read, libraries of
the system, and the sanitizer's options. When one of these changes it is built and run again. FOLIO_CACHE/sanitized has an
empty file for each that passed. Without that folder everything is run.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

from lint_keys import closure

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import skips  # noqa: E402
from cache_folder import CACHE  # noqa: E402

# Without the reference model, with which tests take minutes here. The build without a sanitizer has it.
OPTIONS = {
    "thread": {"TSAN_OPTIONS": "halt_on_error=1"},
    "address": {
        "ASAN_OPTIONS": "detect_leaks=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "FOLIO_FUZZ_STEPS": "100000",
    },
}
# Folders from which programs read when they run.
DATA = ["tests/oracle", "tests/parity", "tests/cli/golden"]
LONGEST = 1500  # seconds that a part of a program may take
NOTABLE = 20  # seconds from which on its time is said
SHARDS = os.cpu_count()  # parts of a program's tests, side by side


def said(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


class Keys:
    """Turns all that a program's result depends on into a name."""

    def __init__(self, build, kind):
        self.build, self.known, self.commands = build, {}, {}
        for entry in json.loads((build / "compile_commands.json").read_text()):
            self.commands.setdefault(entry["file"], []).append(entry["command"])
        data = said("git", "-C", ROOT, "ls-files", "-s", "--", *DATA) + said("git", "-C", ROOT, "diff", "--", *DATA)
        self.common = f"{data}{OPTIONS[kind]}{said('c++', '--version')}"

    @functools.cache  # noqa: B019
    def input(self, path):
        """A file that the program is made of, as it is in every folder of sources. Its path, commands and contents."""
        if not path.is_relative_to(ROOT):
            real = os.path.realpath(path)
            return f"{real} {os.path.getsize(real) if os.path.exists(real) else 0}\n".encode()
        parts = [str(path), *sorted(self.commands.get(str(path), []))]
        # CMake's lists of sources and of headers to compile together. The other files of the build are made of further inputs.
        listed = path.suffix == ".hxx" or (path.suffix == ".cxx" and path.parent.name == "Unity")
        if path.is_file() and (listed or not path.is_relative_to(self.build)):
            parts += closure(path, ROOT, self.known)
        return "\n".join(parts).replace(str(ROOT), "").encode()

    def of(self, program):
        key = hashlib.sha256(self.common.encode())
        key.update(said("ninja", "-C", self.build, "-t", "commands", "-s", program).replace(str(ROOT), "").encode())
        paths = said("ninja", "-C", self.build, "-t", "inputs", program).splitlines()
        # In the order of their texts, as the order of the paths depends on the folder.
        for text in sorted({self.input(pathlib.Path(os.path.normpath(self.build / path))) for path in paths}):
            key.update(text)
        return key.hexdigest()[:40]


def refused_skips(report, allowed):
    if "<testcase" not in report.read_text():
        return []  # the program has fewer tests than shards
    return skips.refused(skips.skips(report), allowed)


def run(program, shard, build, kind, allowed):
    """Whether that part of the program's tests passed; prints its output if not."""
    report, began = build / "reports" / f"{pathlib.Path(program).name}.{shard}.xml", time.monotonic()
    report.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FOLIO_MODEL")}
    environment |= {"GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(shard), **OPTIONS[kind]}
    try:
        done = subprocess.run(
            [build / program, f"--gtest_output=xml:{report}"], timeout=LONGEST, env=environment, cwd=build,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        why, output = done.returncode and f"code {done.returncode}", done.stdout
    except subprocess.TimeoutExpired as expired:
        why, output = f"no end within {LONGEST} s", expired.stdout or b""
    if not why:
        why = "\n".join(f"a skip that is not allowed: {test}: {reason}" for test, reason in refused_skips(report, allowed))
    took = time.monotonic() - began
    if why:
        print(f"{output.decode(errors='replace')}\n[sanitized] {program} FAILED after {took:.0f} s: {why}", flush=True)
    elif took > NOTABLE:
        print(f"[sanitized] {program} passed in {took:.0f} s", flush=True)
    return not why


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["targets", "run"])
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("kind", choices=sorted(OPTIONS))
    parser.add_argument("--allowed", type=pathlib.Path, action="append", default=[])
    options = parser.parse_args()
    build, kind = options.build, options.kind
    programs = [f"bin/{name}" for name in (build / f"{kind}_tests.txt").read_text().split()]
    keys, remembered = Keys(build, kind), CACHE / "sanitized"
    todo = {program: remembered / keys.of(program) for program in programs}
    todo = {program: passed for program, passed in todo.items() if not passed.exists()}
    if options.action == "targets":
        print("\n".join(todo))
        return
    print(f"[sanitized] {kind}: {len(programs)} programs, of which {len(todo)} have not passed as they are", flush=True)
    allowed = [row for path in options.allowed for row in skips.allowed_skips(path)]
    for folder in (remembered, build / "reports"):
        folder.mkdir(parents=True, exist_ok=True)

    failed = []
    with concurrent.futures.ThreadPoolExecutor(SHARDS) as threads:
        parts = {program: [threads.submit(run, program, shard, build, kind, allowed) for shard in range(SHARDS)] for program in todo}
        for program, shards in parts.items():
            if all([shard.result() for shard in shards]):
                todo[program].touch()
            else:
                failed.append(program)
    if failed or not programs:
        sys.exit(f"[sanitized] {kind}: {len(failed)} of {len(programs)} programs failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()
