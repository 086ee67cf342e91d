"""READMEs against the tree: what a folder table names exists, and what a room holds is named.

A folder table is a Markdown table whose first heading says file, folder, script or page. Names stand in backticks in its
first column. A name is relative to the README or to the root:
  `engine.h`    that file               `engine`     the file group (engine.h, engine.cc ...) or the folder
  `convert_*`   all that match          `link/`      that folder           `<shape>.bin`  as `*.bin`
Folders that have no README of their own belong to the README above, which names their files with or without the
folder in front.
"""

import fnmatch
import functools
import pathlib
import re

import pytest
from test_layout import MAY_INCLUDE, ROOT, SUFFIXES

# Rooms with several folders have one README or several; these must have one.
READMES = {"services", "proto", "deploy", "tests", "docs", "helm", "services/client/python",
           *(room for room in MAY_INCLUDE if room.count("/") < 2)} - {"kernels/threads", "kernels/cpu"}
# READMEs that are not written yet, names of theirs that do not exist and names that they lack: "README name". Only shrinks.
RATCHET = ROOT / "tests/rules/readmes.txt"
# Their READMEs say more than a list of files could: how the package is used, what a kind of test shows.
UNLISTED = {".", "docs", "helm/folio", "services/client/python"}
HEADING = re.compile(r"\b(file|folder|script|page)s?\b", re.I)
GENERATED = {"target", "build", "__pycache__", "v1", "node_modules", "dist"}


def exceptions():
    rows = [line.split() for line in RATCHET.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {(readme, name) for readme, name in rows}


def quoted(text):
    """What stands in backticks."""
    return re.findall(r"`([^`\n]+)`", text)


def tables(text):
    """(line, names of the first column) of each row of folder tables."""
    lines, heading = text.split("\n"), None
    for number, line in enumerate(lines, 1):
        if not line.startswith("|"):
            heading = None
            continue
        cell = re.split(r"(?<!\\)\|", line)[1]
        if heading is None:
            heading = cell
        elif HEADING.search(heading) and (names := quoted(cell)):
            yield number, names


@functools.cache
def scope(folder):
    """All (path relative to `folder`, whether it is a folder) of what a README describes."""
    found = []
    for path in sorted((ROOT / folder).iterdir()):
        if path.name.startswith(".") or path.name in GENERATED:
            continue
        own = path.is_dir() and (path / "README.md").exists()
        if path.is_file() or own or any(path.rglob("*.*")):
            found.append((path.name, path.is_dir()))
        if path.is_dir() and not own and folder != "tests":
            inside = scope(path.relative_to(ROOT).as_posix())
            found += [(f"{path.name}/{name}", is_dir) for name, is_dir in inside]
    return found


def stem(path):
    """Without its suffixes: attention.inl.h is of the group attention."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name.split('.')[0]}".lstrip("/")


def names(name, path):
    """Whether `name` in a README means `path`, relative to that README."""
    name = re.sub("<[^>]*>", "*", name.rstrip("/"))
    bare = path.rpartition("/")[2]
    return any(fnmatch.fnmatchcase(candidate, name) for candidate in (path, stem(path), bare, stem(bare)))


def exists(folder, name):
    # "kernels/cpu/ops.h" in any README, and "../deploy/demo.sh"
    if not re.search(r"[*?\[]", name) and ((ROOT / name).exists() or (ROOT / folder / name).exists()):
        return True
    return any(names(name, path) for path, _ in scope(folder)) or any(
        names(name, path.relative_to(ROOT).as_posix()) for path in ROOT.glob(f"{name.rstrip('/')}*") if "/" in name)


def readmes():
    return sorted(path for path in ROOT.rglob("README.md")
                  if not any(part.startswith("build") or part == "node_modules" for part in path.relative_to(ROOT).parts))


def unwritten():
    for folder in sorted(READMES):
        readme = ROOT / folder / "README.md"
        if not readme.exists() or len(readme.read_text()) <= 80:
            yield f"{folder}/README.md", "README.md"


def rows():
    """(README, line, name) of all folder tables."""
    for path in readmes():
        for line, row in tables(path.read_text()):
            yield from ((path.relative_to(ROOT).as_posix(), line, name) for name in row)


def unknown():
    for readme, line, name in rows():
        if not exists(pathlib.PurePosixPath(readme).parent.as_posix(), name):
            yield readme, name


def test_tables_are_understood():
    assert len(list(rows())) > 50, "found hardly any name: does the test still understand the tables?"


def missing_in(path):
    """The file groups and folders of a README's scope that it does not name."""
    folder, said = path.parent.relative_to(ROOT).as_posix(), quoted(path.read_text())
    said += [f"{folder}/{name}" for name in said]  # so that root-relative names fit as well
    groups = {name if is_dir else stem(name) for name, is_dir in scope(folder)
              if is_dir or pathlib.PurePosixPath(name).suffix in SUFFIXES | {".proto"}}
    for group in sorted(groups):
        paths = [name for name, _ in scope(folder) if group in (name, stem(name))]
        inside = [word for word in said if f"{group}/" in word]
        if not inside and not any(names(word, name) or names(word, f"{folder}/{name}") for word in said for name in paths):
            yield group


def unnamed():
    for path in readmes():
        folder = path.parent.relative_to(ROOT).as_posix()
        if folder not in UNLISTED and not folder.startswith("tests/"):
            yield from ((path.relative_to(ROOT).as_posix(), name) for name in missing_in(path))


@pytest.mark.parametrize("kind, problem", [
    (unwritten, "{0} is missing: every room says what it is for"),
    (unknown, "{0} names {1} in a table, and there is no such file or folder"),
    (unnamed, "{0} does not name {1}"),
])
def test_readmes_fit_the_tree(kind, problem):
    wrong = [problem.format(*pair) for pair in sorted(set(kind()) - exceptions())]
    assert not wrong, "\n".join(wrong)


def test_ratchet_is_tight():
    loose = exceptions() - set(unwritten()) - set(unknown()) - set(unnamed())
    assert not loose, f"run tighten.py, which deletes from {RATCHET.name}:\n" + "\n".join(" ".join(pair) for pair in sorted(loose))


@pytest.mark.parametrize("name, path, means", [
    ("engine", "engine.h", True), ("engine.h", "engine.h", True), ("engine.h", "engine.cc", False),
    ("engine", "engine_step.cc", False), ("convert_*", "convert_cache.cc", True), ("link/", "link", True),
    ("engine", "engine/engine.cc", True), ("engine/engine", "engine/engine.cc", True), ("attention", "attention.inl.h", True),
    ("fast/gemm.*", "fast/gemm.inl.h", True), ("rpc/engine", "engine/engine.cc", False), ("vec_*.inl.h", "vec_avx2.inl.h", True),
])
def test_understands_names(name, path, means):
    assert names(name, path) is means


def test_understands_tables():
    text = "| policy | x |\n|---|---|\n| `full` | y |\n\n| file | x |\n|---|---|\n| `a`, `b.h` | `c` |\n| none | `d` |\n"
    assert list(tables(text)) == [(7, ["a", "b.h"])]
