#!/usr/bin/env python3
"""Prints "KEY FILE" for each C++ file named on standard input that the build compiles.

The key covers all that a finding may depend on and that is ours: the file, the headers and protos it
includes, directly or not, its compile command, the rules and the linter's version.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
IMPORT = re.compile(rb'^import (?:public )?"([^"]+)"', re.M)


def included(path, root):
    """Our files that this one includes; generated headers are their protos."""
    pattern = IMPORT if path.suffix == ".proto" else INCLUDE
    for name in pattern.findall(path.read_bytes()):
        name = re.sub(r"(\.grpc)?\.pb\.h$", ".proto", name.decode())
        for place in (root / name, root / "proto" / name, path.parent / name):
            if place.is_file():
                yield place.resolve()
                break


def closure(path, root, known):
    """The file and all it includes."""
    todo, seen = [path], {path}
    while todo:
        current = todo.pop()
        if current not in known:
            known[current] = (hashlib.sha256(current.read_bytes()).hexdigest(), list(included(current, root)))
        new = [other for other in known[current][1] if other not in seen]
        seen.update(new)
        todo += new
    return sorted(f"{other.relative_to(root)} {known[other][0]}" for other in seen)


def main():
    build = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parents[1]
    commands = {entry["file"]: entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())}
    rules = b"".join(path.read_bytes() for path in (root / ".clang-tidy", root / "tests/.clang-tidy"))
    rules += subprocess.run([sys.argv[2], "--version"], check=True, capture_output=True).stdout
    known = {}
    for name in sys.stdin.read().split():
        path = root / name
        if str(path) not in commands:
            continue
        key = hashlib.sha256(rules)
        key.update(commands[str(path)].replace(str(root), "").encode())
        key.update("\n".join(closure(path, root, known)).encode())
        print(key.hexdigest()[:40], name)


if __name__ == "__main__":
    main()
