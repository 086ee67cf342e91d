#!/usr/bin/env python3
"""Prints "KEY FILE" for each file that the build compiles for the C++ files named on standard input.

That is the file itself, or the one in which CMake includes several of a library (FOLIO_UNITY). The key covers all
that a finding may depend on and that is ours: the file, the headers and protos it includes, directly or not, its
compile command, the rules and the linter's version.
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


def parts(unity):
    """The files that CMake compiles together in this one."""
    return {name.decode() for name in INCLUDE.findall(unity.read_bytes())}


def closure(path, root, known):
    """The file and all it includes."""
    todo, seen = [path], {path}
    while todo:
        current = todo.pop()
        if current not in known:
            content = current.read_bytes().replace(str(root).encode(), b"")
            known[current] = (hashlib.sha256(content).hexdigest(), list(included(current, root)))
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
    wanted = {str(root / name) for name in sys.stdin.read().split()}
    for name, command in commands.items():
        path = pathlib.Path(name)
        if name not in wanted and not (path.parent.name == "Unity" and wanted & parts(path)):
            continue
        key = hashlib.sha256(rules)
        key.update(command.replace(str(root), "").encode())
        key.update("\n".join(closure(path, root, known)).encode())
        print(key.hexdigest()[:40], path.relative_to(root))


if __name__ == "__main__":
    main()
