#!/usr/bin/env python3
"""Checks that our programs know the flags that the chart gives them: flags.py MANIFEST...

The flags are read from the sources, so nothing need be built.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2] / "services"
DEFINED = re.compile(r'ABSL_FLAG\(\s*[^,]+(?:<[^>]*>)?,\s*(\w+),')
OPTION = re.compile(r'"--(\w+)"')


def known():
    """Program -> names of its flags."""
    def read(pattern, *folders):
        files = [path for folder in folders for path in sorted((ROOT / folder).glob("*.cc"))]
        return {name for path in files for name in pattern.findall(path.read_text())}
    return {"folio-manager": read(DEFINED, "manager", "access", "grpc", "runtime", "metrics"),
            "folio-worker": read(DEFINED, "worker", "access", "grpc", "runtime", "metrics"),
            "folio-gateway": read(DEFINED, "gateway", "runtime", "metrics"), "folioctl": read(OPTION, "cli")}


def given(text):
    """(program, flag) of each container, whose arguments stand behind its command."""
    program = None
    for line in text.splitlines():
        if command := re.match(r"\s*command: \[([\w/-]+)", line):
            program = command[1]
        elif flag := re.match(r'\s+- "?--(\w+)', line):
            yield program, flag[1]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    flags, used = known(), set()
    for path in sys.argv[1:]:
        used |= set(given(pathlib.Path(path).read_text()))
    wrong = [f"{program} has no flag --{flag}" for program, flag in sorted(used, key=str) if flag not in flags.get(program, ())]
    if len(used) < 20:
        wrong.append(f"only {len(used)} flags were found: does flags.py still understand the manifests?")
    if wrong:
        sys.exit("\n".join(["flags.py:", *wrong]))
    print(f"{len(used)} flags are known to the programs")


if __name__ == "__main__":
    main()
