"""The rules of the house that a machine can check: who includes whom, and how long files may be."""

import collections
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Room -> rooms whose headers it may include (itself is always allowed). A room is a folder with what lies below
# it, except for rooms of their own. "proto" and "grpc" stand for Protobuf messages and for the gRPC library.
KERNELS = {"kernels"}
CUDA = KERNELS | {"kernels/cuda"}
SERVICE = {"services/base", "services/runtime"}
MODEL = {"services/base", "services/model/family", "services/model/source", "services/model/executor",
         "services/model/tp", "services/collective", *KERNELS}
MAY_INCLUDE = {
    "services/base": set(),
    "services/tls": set(),
    "services/runtime": {"services/base", "services/tls"},
    "services/metrics": SERVICE,
    "services/tracing": SERVICE | {"services/text", "services/metrics", "services/grpc", "proto", "grpc"},
    "services/text": set(),
    "services/access": SERVICE | {"services/text", "services/metrics", "grpc"},
    "services/grpc": SERVICE | {"services/tls", "proto", "grpc"},
    "services/wire": {"services/base", "proto"},
    "services/policy": {"services/base"},
    "services/cache": {"services/base", "services/policy"},
    "services/collective": SERVICE,
    "kernels": {"services/base"},
    "kernels/threads": {"services/base"},
    "kernels/cpu": {"services/base", "kernels/threads", *KERNELS},
    "kernels/cuda": KERNELS,
    "kernels/cuda/runtime": {"services/base", "kernels/cuda"},
    "kernels/cuda/device": {"kernels/cuda"},
    "kernels/cuda/ops": CUDA | {"kernels/cuda/device", "kernels/cuda/runtime"},
    "kernels/cuda/scores": CUDA | {"kernels/cuda/device"},
    "kernels/cuda/attention": CUDA | {"kernels/cuda/runtime"},
    "services/model/tokenizer": {"services/base", "services/text"},
    "services/model/family": {"services/base"},
    "services/model/source": SERVICE | KERNELS | {"kernels/threads", "services/model/family", "services/model/tokenizer"},
    "services/model/executor": {"services/base", "services/model/family", *KERNELS},
    "services/model/tp": {"services/base", "services/collective", "services/model/source", "services/model/executor",
                          *KERNELS},
    "services/model/cpu": MODEL | {"kernels/cpu"},
    "services/model/cuda": MODEL | CUDA | {"services/runtime", "kernels/threads", "kernels/cuda/runtime",
                                           "kernels/cuda/ops", "kernels/cuda/scores", "kernels/cuda/attention"},
    "services/client": {"services/base", "services/tls", "services/grpc", "services/text", "proto", "grpc"},
    "services/cli/load": {"services/base", "services/client", "proto"},
    "services/cli": {"services/base", "services/access", "services/runtime", "services/text", "services/wire", "services/client",
                     "services/cli/load", "proto"},
    "services/gateway/http": SERVICE,
    "services/gateway/console": {"services/base", "services/client"},
    "services/gateway/openai": {"services/text", "services/client", "proto"},
    "services/gateway/workers": {"services/base", "services/runtime", "services/client"},
    "services/gateway": SERVICE | {"services/access", "services/tls", "services/grpc", "services/metrics", "services/tracing", "services/text",
                                   "services/client", "services/gateway/http", "services/gateway/openai", "services/gateway/workers",
                                   "services/gateway/console"},
    "services/manager/journal": SERVICE,
    "services/manager/memory": SERVICE,
    "services/manager": SERVICE | {"services/access", "services/tls", "services/grpc", "services/metrics", "services/policy", "services/cache",
                                   "services/wire", "services/manager/journal", "services/manager/memory", "proto"},
    "services/worker/link": {"services/base", "services/runtime", "services/wire", "services/grpc", "proto", "grpc"},
    # Of services/wire, only headers without Protobuf: see MAY_NOT_REACH.
    "services/worker/engine": {"services/base", "services/text", "services/wire", "services/model/executor",
                               "services/model/tokenizer", "services/worker/link", *KERNELS},
    "services/worker/rpc": {"services/base", "services/access", "services/metrics", "services/tracing", "services/text", "services/grpc", "services/wire",
                            "services/model/tokenizer", "services/worker/engine", "proto", "grpc"},
    "services/worker/device": MODEL | {"kernels/cpu", "kernels/threads", "kernels/cuda", "kernels/cuda/runtime", "services/model/cpu",
                                       "services/model/cuda", "services/model/tokenizer", "services/wire", "proto"},
    "services/worker/pool": SERVICE | KERNELS | {"services/grpc", "services/wire", "services/worker/device", "services/worker/link",
                                                 "proto", "grpc"},
    "services/worker/ranks": {"services/base", "services/runtime", "services/collective", "services/model/tp", "services/worker/device",
                              "services/worker/pool", "proto"},
    "services/worker": SERVICE | {"services/access", "services/tls", "services/grpc", "services/metrics", "services/tracing", "services/worker/device",
                                  "services/worker/engine", "services/worker/link", "services/worker/pool", "services/worker/ranks",
                                  "services/worker/rpc", "kernels/threads", "grpc"},
}
# Room -> rooms that it may not reach through other rooms' headers either.
MAY_NOT_REACH = {
    "services/policy": {"proto", "grpc"},
    "services/cache": {"proto", "grpc"},
    "services/worker/engine": {"proto", "grpc"},
    "services/model/cuda": {"services/model/cpu", "kernels/cpu"},
    "kernels/cuda": {"kernels/cpu"},
}
# Files that still break the two tables, with the room that they include or reach. Only shrinks.
LAYERING = ROOT / "tests/rules/layering.txt"
HEADER_LINES, SOURCE_LINES, HARD_STOP = 150, 300, 500
# Files longer than the rule when the rule came in, with the length they may not pass. Only shrinks.
RATCHET = ROOT / "tests/rules/long_files.txt"
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".rs", ".py", ".sh"}


def sources():
    for top in ("services", "kernels", "tests", "deploy"):
        for path in sorted((ROOT / top).rglob("*")):
            # Cargo, setuptools and npm build beside their sources.
            built = {"target", "build", "__pycache__", "node_modules"} & set(path.relative_to(ROOT).parts) or "_pb2" in path.name
            if path.suffix in SUFFIXES and not built:
                yield path


def owner(name):
    """The room that an included name belongs to, or None for a library's header."""
    if name.startswith(("folio/v1/", "google/protobuf/", "opentelemetry/proto/")):
        return "proto"
    if name.startswith(("grpc/", "grpcpp/")):
        return "grpc"
    parents = [parent.as_posix() for parent in pathlib.PurePosixPath(name).parents]
    return next((folder for folder in parents if folder in MAY_INCLUDE), None)


@functools.cache
def includes(name):
    return INCLUDE.findall((ROOT / name).read_text())


def cpp_files():
    """The files of all rooms."""
    names = [path.relative_to(ROOT).as_posix() for path in sources() if path.suffix in {".h", ".cc", ".cu", ".cuh"}]
    return [name for name in names if not name.startswith("tests/")]


def arrows():
    """(file, included name, room included) wherever a file includes another room's header."""
    for name in cpp_files():
        for included in includes(name):
            target = owner(included)
            if target not in (None, owner(name)):
                yield name, included, target


def reached(name):
    """All names that a file includes, through our own headers as well."""
    todo, seen = [name], set()
    while todo:
        new = set(includes(todo.pop())) - seen
        seen |= new
        todo += [other for other in new if (ROOT / other).is_file()]
    return seen


def exceptions():
    rows = [line.split() for line in LAYERING.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {(name, target) for name, target in rows}


def forbidden():
    return [arrow for arrow in arrows() if arrow[2] not in MAY_INCLUDE.get(owner(arrow[0]), ())]


def too_far():
    return {(name, target) for name in cpp_files()
            for room, targets in MAY_NOT_REACH.items() if name.startswith(room + "/")
            for target in targets & {owner(included) for included in reached(name)}}


def broken():
    """(file, room) wherever one of the tables is not kept."""
    return {(name, target) for name, _, target in forbidden()} | too_far()


def test_includes_follow_the_layering():
    wrong = [f"{name} ({owner(name)}) may not include {included} ({target})" for name, included, target in forbidden()
             if (name, target) not in exceptions()]
    wrong += [f"{name} may not reach {target} through what it includes" for name, target in sorted(too_far() - exceptions())]
    wrong += [f"{name} {target} in {LAYERING.name} is no longer needed: run tighten.py"
              for name, target in sorted(exceptions() - broken())]
    assert len(list(arrows())) > 100, "found hardly any include: is the test looking in the right place?"
    assert not wrong, "\n".join(wrong)


def test_every_permission_is_used():
    used = {(owner(name), target) for name, _, target in arrows()}
    unused = [f"{room} -> {target}" for room, targets in MAY_INCLUDE.items() for target in sorted(targets)
              if (room, target) not in used]
    assert not unused, "no file uses these permissions, delete them: " + ", ".join(unused)


def test_every_folder_of_sources_is_in_a_room():
    missing = {name for name in cpp_files() if owner(name) is None}
    assert not missing, f"give these a room in MAY_INCLUDE: {sorted(missing)}"
    empty = set(MAY_INCLUDE) - {owner(name) for name in cpp_files()}
    assert not empty, f"no files are in these rooms, delete them: {sorted(empty)}"
    # A folder below a room belongs to it only where this says so.
    parts = {"kernels/cpu/fast", "services/cli/query", "services/model/tokenizer/ffi"}
    below = {str(pathlib.PurePosixPath(name).parent) for name in cpp_files()} - set(MAY_INCLUDE) - parts
    assert not below, f"give these a room of their own in MAY_INCLUDE: {sorted(below)}"


def test_files_of_python_tests_have_different_names():
    """pytest imports them by their names alone, and refuses the second one when both are run together."""
    names = collections.Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(names) > 100 and [name for name, count in names.items() if count > 1] == []


def test_includes_are_relative_to_the_root():
    wrong = [f"{name}: write {included} relative to the root" for name in cpp_files() for included in includes(name)
             if "/" not in included and (ROOT / name).with_name(included).is_file()]
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
    assert rule_for(path) < lines == limits()[name], f"{name} has {lines} lines now: run tighten.py"
