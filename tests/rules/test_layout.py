"""The rules of the house that a machine can check: who includes whom, and how long files may be."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Folder -> folders whose headers it may include (itself is always allowed).
MAY_INCLUDE = {
    "services/common": set(),
    "services/policy": {"services/common"},
    "services/cache": {"services/common", "services/policy"},
    "kernels": {"services/common"},
    "services/collective": {"services/common"},
    "services/model": {"services/common", "services/collective", "kernels"},
    "services/client": {"services/common", "proto"},
    "services/worker": {"services/common", "services/collective", "kernels", "services/model",
                        "services/client", "proto"},
    "services/manager": {"services/common", "services/policy", "services/cache", "proto"},
    "services/cli": {"services/common", "services/client", "proto"},
}
HEADER_LINES, SOURCE_LINES, HARD_STOP = 150, 300, 500
# Files longer than the rule when the rule came in, with the length they may not pass. Only shrinks.
RATCHET = ROOT / "tests/rules/long_files.txt"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".rs", ".py", ".sh"}


def sources():
    for top in ("services", "kernels", "tests", "deploy"):
        for path in sorted((ROOT / top).rglob("*")):
            # Cargo and setuptools build beside their sources.
            built = {"target", "build", "__pycache__"} & set(path.relative_to(ROOT).parts) or "_pb2" in path.name
            if path.suffix in SUFFIXES and not built:
                yield path


def owner(name):
    """The folder of MAY_INCLUDE that a root-relative path belongs to."""
    if name.startswith("folio/v1/"):
        return "proto"
    return next((folder for folder in MAY_INCLUDE if name.startswith(folder + "/")), None)


def test_includes_follow_the_layering():
    wrong, seen = [], 0
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        folder = owner(name)
        if folder is None or path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
            continue
        for included in INCLUDE.findall(path.read_text()):
            seen += 1
            target = owner(included)
            if (path.parent / included).exists() and "/" not in included:
                wrong.append(f"{name}: write {included} relative to the root")
            elif target is None:
                continue  # a library's header
            elif target != folder and target not in MAY_INCLUDE[folder]:
                wrong.append(f"{name} ({folder}) may not include {included} ({target})")
    assert seen > 100, "found hardly any include: is the test looking in the right place?"
    assert not wrong, "\n".join(wrong)


def test_layering_has_no_cycle():
    done, stack = set(), []

    def visit(folder):
        assert folder not in stack, " -> ".join([*stack, folder])
        if folder in done:
            return
        stack.append(folder)
        for target in MAY_INCLUDE.get(folder, ()):
            visit(target)
        stack.pop()
        done.add(folder)

    for folder in MAY_INCLUDE:
        visit(folder)


def rule_for(path):
    """Lines a file may have: `.inl.h` files are sources that several files compile."""
    header = path.suffix == ".h" and not path.name.endswith(".inl.h")
    return HEADER_LINES if header else SOURCE_LINES


def limits():
    entries = {}
    for line in RATCHET.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, count = line.rsplit(maxsplit=1)
            entries[name] = int(count)
    return entries


def test_files_stay_short():
    allowed, wrong = limits(), []
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        lines = len(path.read_text().splitlines())
        limit = min(max(rule_for(path), allowed.get(name, 0)), HARD_STOP)
        if lines > limit:
            wrong.append(f"{name}: {lines} lines, {limit} allowed")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(limits()) or [pytest.param(None, marks=pytest.mark.skip)])
def test_ratchet_is_tight(name):
    """An entry that is no longer needed, or looser than needed, must be tightened."""
    path = ROOT / name
    lines = len(path.read_text().splitlines())
    assert rule_for(path) < lines == limits()[name], f"{name} has {lines} lines now: update {RATCHET.name}"


@pytest.mark.parametrize("folder", sorted(MAY_INCLUDE) + ["proto", "deploy", "tests", "services/client/python"])
def test_every_folder_says_what_it_is_for(folder):
    readme = ROOT / folder / "README.md"
    assert readme.exists() and len(readme.read_text()) > 80, f"{folder} has no README.md"
