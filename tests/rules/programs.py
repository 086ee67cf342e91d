"""What our programs understand, read from the tree: flags, CMake's options and targets, tests, units, packages, the chart.

Nothing need be built. tests/e2e/test_docs_commands.py compares the flags with those that the built programs list.
"""

import ast
import collections
import functools
import json
import re

from test_layout import ROOT
from test_links import programs as targets

# Where a program's flags are declared: its own room, and rooms that several programs share.
DAEMONS = {"folio-manager": ("services/manager", "services/access", "services/grpc", "services/runtime", "services/metrics"),
           "folio-worker": ("services/worker", "services/access", "services/grpc", "services/runtime", "services/metrics",
                            "services/tracing"),
           "folio-gateway": ("services/gateway", "services/runtime", "services/metrics", "services/tracing"),
           "folio_bench": ("tests/bench",)}
# The same for Python programs, beside their own folder.
TOGETHER = ("tests/eval/folio_eval/together.py",)
PYTHON = {"tests/eval/folio_trials": TOGETHER, "tests/eval/folio_peers": TOGETHER}
EVERY_DAEMON = {"help", "version", "flagfile"}
DECLARED = re.compile(r"ABSL_FLAG\(\s*[\w:<> ]+,\s*(\w+),")
TARGETS = targets()


def read(path):
    return (ROOT / path).read_text()


@functools.cache
def daemon_flags(name):
    files = [path for folder in DAEMONS[name] for path in (ROOT / folder).rglob("*.cc")]
    return EVERY_DAEMON | {flag for path in files for flag in DECLARED.findall(path.read_text())}


def bodies(text, head):
    """(match, text) of each function or service whose first line `head` matches, up to the brace in the first column."""
    for match in re.finditer(head, text, re.M):
        yield match, text[match.start():text.index("\n}", match.start())]


@functools.cache
def client_flags():
    """Command of folioctl -> its flags. Under the empty name are those of every command."""
    def own(body):
        return set(re.findall(r'(?:add_(?:option|flag|option_function<[^>]*>)|set_version_flag)\(\s*"--(\w+)"', body))

    text = "\n".join(path.read_text() for path in sorted((ROOT / "services/cli").glob("*.cc")))
    groups = collections.defaultdict(set)
    for match, body in bodies(text, r"^void (\w+)Flags::Add\w*\("):
        groups[match[1]] |= own(body)
    (every,) = ({"help"}.union(own(body), *(groups[group.capitalize()] for group in re.findall(r"context\.(\w+)\.Add\(", body)))
                for _, body in bodies(text, r"^void AddGlobalOptions\("))
    found = {"": every}
    for _, body in bodies(text, r"^void Add\w+\(CLI::App& root"):
        # A command below another one has its flags with those of the one above.
        names = re.findall(r'Add(?:Command|Verb)\(\s*root,\s*(?:context,\s*)?"([\w-]+)"', body)
        shared = re.findall(r"flags->(\w+)\.Add\(", body) + (["reason"] if "AddVerb(" in body else [])
        flags = every | own(body).union(*(groups[group.capitalize()] for group in shared))
        found.update(dict.fromkeys(names, flags))
    return found


def usage(text):
    """What a script says of itself: the comment or docstring at its top, and what its function `usage` prints."""
    top = re.match(r"#!.*\n(?:\"\"\"[\s\S]*?\"\"\"|(?:#.*\n)*)", text)
    function = re.search(r"^usage\(\) \{[\s\S]*?^\}", text, re.M)
    return (top[0] if top else "") + (function[0] if function else "")


def parser_flags(text):
    """The flags that a Python program gives to argparse."""
    return {argument.value for call in ast.walk(ast.parse(text)) if isinstance(call, ast.Call)
            and getattr(call.func, "attr", "") == "add_argument" for argument in call.args
            if isinstance(argument, ast.Constant) and str(argument.value).startswith("--")}


@functools.cache
def script_flags(name):
    """Those of a script, or of the Python programs in a folder."""
    path = ROOT / name
    files = sorted(path.glob("*.py")) if path.is_dir() else [path]
    files += [ROOT / shared for shared in PYTHON.get(str(path.relative_to(ROOT)), ())]
    found = {"--help"}
    for file in files:
        text = file.read_text()
        found |= set(re.findall(r"(?<![\w-])--[a-z][\w-]*", usage(text)))
        found |= parser_flags(text) if file.suffix == ".py" else set()
    return {flag.lstrip("-") for flag in found}


@functools.cache
def cmake_options():
    files = [ROOT / "CMakeLists.txt", *ROOT.glob("deploy/*.cmake"),
             *(path for top in ("services", "kernels", "tests") for path in (ROOT / top).rglob("CMakeLists.txt"))]
    return {name for path in files for name in re.findall(r"\b(?:option|set)\((FOLIO_\w+)", path.read_text())}


@functools.cache
def tests():
    """Suite.Name of the C++ tests."""
    written = re.compile(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", re.M)
    return {".".join(pair) for path in ROOT.glob("tests/**/*.cc") for pair in written.findall(path.read_text())}


@functools.cache
def units():
    """The units that the packages install; a worker's template stands for one unit and for one with a name."""
    names = {path.name for path in (ROOT / "deploy/systemd").iterdir() if re.search(r"\.(service|socket)(\.in)?$", path.name)}
    return {name.removesuffix(".in") for name in names} | {name.replace(".service.in", "@.service") for name in names
                                                           if name.endswith(".in")}


@functools.cache
def packages():
    declared = re.findall(r"^set\(CPACK_DEBIAN_(\S+)_DESCRIPTION", read("deploy/debian/control.cmake"), re.M)
    return {name.lower() for name in declared}


def package_files():
    """Names as deploy/package.sh gives them, of some version."""
    return {f"{'folio-folioctl' if name == 'folioctl' else name}_0.0.0-1_amd64.deb" for name in packages()}


def chart_has(key):
    """Whether the chart knows a value, such as image.registry."""
    whole = json.loads(read("helm/folio/values.schema.json"))
    node = whole
    for name in re.sub(r"\[(\d+)\]", r".\1", key).split("."):
        while "$ref" in node:
            node = functools.reduce(dict.get, node["$ref"].removeprefix("#/").split("/"), whole)
        if name.isdigit():
            node = node.get("items", {})
        elif name in node.get("properties", {}):
            node = node["properties"][name]
        else:  # a key of the user's, such as that of a label
            return "properties" not in node and node.get("additionalProperties") is not False
    return True


def calls(service):
    """The calls of one of the protocol's services."""
    text = "\n".join(path.read_text() for path in (ROOT / "proto/folio/v1").glob("*.proto"))
    return {name for _, body in bodies(text, rf"^service {service} \{{") for name in re.findall(r"\brpc (\w+)", body)}
