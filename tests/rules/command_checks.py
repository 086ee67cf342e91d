"""The checks of the commands that pages show, one for each program: does it understand these words?

faults(command) says what is wrong with a command. A program that has no check is a fault too, unless UNCHECKED gives a
reason. So no command on a page is left unchecked by accident.
"""

import fnmatch
import re

import programs
from commands import INSTEAD
from test_layout import ROOT

# Programs of other people, which say nothing of ours that a file could confirm.
UNCHECKED = {
    "docker": "there is no Docker where the tests run; tests/images checks the Compose file",
    "install": "it prepares a folder of a node, and tests/kubernetes does the same",
    "kubectl": "it asks a cluster",
    "nvidia-modprobe": "it belongs to NVIDIA's driver",
    "openssl": "tests/e2e/test_docs_commands.py runs it",
}
# Flags of such programs that stand alone on a page.
FOREIGN = {
    "docker compose": {"--profile"},
    "the endpoint picker of the Gateway API": {
        "--total-queued-requests-metric", "--total-running-requests-metric", "--kv-cache-usage-percentage-metric",
        "--lora-info-metric", "--cache-info-metric", "--model-server-metrics-port"},
}
# Options of programs of other people that our pages use. Somebody tried each of them.
TRIED = {
    "cmake": {"--install", "--build", "--prefix", "-S", "-B", "-j"},
    "ctest": {"--test-dir", "-R", "--output-on-failure", "-j"},
    "pytest": {"-k", "-q", "-p"},
    "helm": {"--set", "-f", "--values", "-n", "--namespace", "--create-namespace", "--wait"},
    "curl": {"-s", "-f", "-sf", "-fsS", "-H", "-d"},
    "grpcurl": {"-plaintext", "-unix", "-d"},
}


def flag_name(word):
    return word.partition("=")[0].lstrip("-").replace("-", "_")


def unknown_flags(words, known):
    known = {name.replace("-", "_") for name in known}
    return [f"there is no flag {word}" for word in words if word.startswith("--") and word != "--" and flag_name(word) not in known]


def untried(program, words):
    return [f"no one has tried option {word}" for word in words if word.startswith("-") and len(word) > 1
            and not word.startswith("-D") and word.partition("=")[0] not in TRIED[program]]


def wrong_definitions(words):
    for word in words:
        name = word.removeprefix("-D").partition("=")[0]
        if word.startswith("-D") and not name.startswith("CMAKE_") and name not in programs.cmake_options():
            yield f"no CMakeLists.txt has an option {name}"


def absent(command):
    """Paths in the tree that do not exist. They are relative to the root, to the page, or to where `cd` has gone."""
    tops = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("build")}
    folders = [ROOT, ROOT / command.folder, (ROOT / command.page).parent]
    for word in command.words:
        path = re.sub(r"^\$PWD/", "", word.rpartition("=")[2])
        if "/" in path and re.fullmatch(r"[\w./*-]+", path) and path.split("/")[0] in tops and not any(
                any(folder.glob(path.rstrip("/"))) for folder in folders):
            yield f"there is no {path}"


def daemon(words, _):
    yield from unknown_flags(words[1:], programs.daemon_flags(words[0]))
    yield from (f"{word} is not a flag" for word in words[1:] if not word.startswith("--"))


def client(words, _):
    known = programs.client_flags()
    named = next((word for word in words[1:] if word in known or word == "COMMAND"), None)
    if named is None and set(map(flag_name, words[1:])) - known[""]:
        yield f"folioctl has none of the commands {words[1:]}"
    yield from unknown_flags(words[1:], known.get(named, known[""]))


def script(words, _):
    if (ROOT / words[0]).is_file():
        if not (ROOT / words[0]).stat().st_mode & 0o100:
            yield f"{words[0]} cannot be run"
        options, _, made = " ".join(words[1:]).partition(" -- ")
        yield from unknown_flags(options.split(), programs.script_flags(words[0]))
        yield from wrong_definitions(options.split())
        yield from (f"no CMakeLists.txt makes {name}" for name in made.split() if name not in programs.TARGETS)


def built(words, _):
    name = words[0].rpartition("/")[2]
    if name not in programs.TARGETS:
        yield f"no CMakeLists.txt makes {name}"
    if name in programs.DAEMONS:
        yield from daemon([name, *words[1:]], _)
        return
    for word in words[1:]:
        flag, _, value = word.partition("=")
        if flag != "--gtest_filter":
            yield f"no one has tried option {word}"
        elif not any(fnmatch.fnmatchcase(test, value) for test in programs.tests()):
            yield f"no test is called {value}"


def cmake(words, _):
    yield from untried("cmake", words[1:])
    yield from wrong_definitions(words)


def ctest(words, _):
    yield from untried("ctest", words[1:])
    for option, value in zip(words, words[1:], strict=False):
        if option == "-R" and not any(re.search(value, test) for test in programs.tests()):
            yield f"no test's name has {value}"


def pytest(words, _):
    yield from untried("pytest", words[1:])
    files = [path for word in words if word.startswith("tests/")
             for path in ([ROOT / word] if word.endswith(".py") else (ROOT / word).rglob("test_*.py")) if path.is_file()]
    for option, value in zip(words, words[1:], strict=False):
        if option == "-k" and not any(re.search(rf"def test_\w*{value}", path.read_text()) for path in files):
            yield f"no test's name has {value}"


def python(words, command):
    if words[1].endswith(".py"):
        yield from unknown_flags(words, programs.script_flags(words[1])) if (ROOT / words[1]).is_file() else ()
    elif words[1] != "-m":
        yield f"no one has tried: {' '.join(words)}"
    elif words[2] == "pytest":
        yield from pytest(words[2:], command)
    else:
        # In the folder that `cd` has gone to, or in that of the page.
        places = [path / words[2].replace(".", "/") for path in (ROOT / command.folder, (ROOT / command.page).parent)]
        found = [path for place in places for path in (place, place.with_suffix(".py")) if path.exists()]
        if not found:
            yield f"there is no module {words[2]}"
        for path in found[:1]:
            yield from unknown_flags(words, programs.script_flags(path.relative_to(ROOT)))


def pip(words, _):
    if words[1] != "install" or not all((ROOT / word / "pyproject.toml").is_file() for word in words[2:]):
        yield "it installs no package of ours"


def apt(words, _):
    if words[1] not in ("install", "remove", "purge"):
        yield f"no one has tried: {' '.join(words)}"
    for word in words[2:]:
        folder, _, name = word.rpartition("/")
        if folder:
            fits = any(fnmatch.fnmatchcase(file, name) for file in programs.package_files())
            if not fits or not re.fullmatch(r"\.(/build[\w-]*/packages)?", folder):
                yield f"deploy/package.sh makes nothing that is called {word}"
        elif word not in programs.packages():
            yield f"{word} is not a package of ours"


def unknown_units(words):
    for word in words:
        name = re.sub(r"@[\w-]*", "@", word)
        if not {name, f"{name}.service"} & programs.units():
            yield f"the packages have no unit {word}"


def systemd(*verbs):
    def check(words, _):
        if words[1] not in verbs:
            yield f"no one has tried: {' '.join(words)}"
        yield from unknown_units(words[2:])
    return check


def adduser(words, _):
    user = re.search(r"^u (\S+)", programs.read("deploy/debian/sysusers.conf"), re.M)[1]
    if words[2:] != [user]:
        yield f"the packages make the group {user}"


def copy(words, _):
    if f"--model={words[-1]}\n" not in programs.read("deploy/debian/worker.flags"):
        yield f"{words[-1]} is not where the packages' worker has its model"


def export(words, _):
    files = [path for folder in ("deploy", "tests", "services") for path in (ROOT / folder).rglob("*")
             if path.suffix in (".sh", ".py", ".cc", ".h") and path.parent.name != "rules"]
    for name in (word.partition("=")[0] for word in words[1:]):
        if name.startswith("FOLIO_") and not any(re.search(rf"\b{name}\b", path.read_text()) for path in files):
            yield f"nothing reads {name}"


def curl(words, _):
    yield from untried("curl", words[1:])
    given = {index + 1 for index, word in enumerate(words) if word in ("-H", "-d")}
    addresses = [word for index, word in enumerate(words[1:], 1) if not word.startswith("-") and index not in given]
    paths = "|".join(re.findall(r'^      \{"(/[\w/]+)", "', programs.read("services/gateway/api.cc"), re.M))
    if len(addresses) != 1 or not re.fullmatch(rf"(http://)?[\w.-]+:(700[346]/metrics|8000({paths}))", addresses[0]):
        yield f"only metrics and paths of the gateway are known: {' '.join(addresses)}"


def grpcurl(words, _):
    yield from untried("grpcurl", words[1:])
    service, _, method = words[-1].partition("/")
    if not service.startswith("folio.v1.") or method not in programs.calls(service.removeprefix("folio.v1.")):
        yield f"the protocol has no call {words[-1]}"


def helm(words, _):
    yield from untried("helm", words[1:])
    if words[1] not in ("install", "upgrade", "uninstall", "test", "template"):
        yield f"no one has tried: {' '.join(words)}"
    for option, value in zip(words, words[1:], strict=False):
        if option == "--set":
            keys = [part.partition("=")[0] for part in value.split(",")]
            yield from (f"the chart has no value {key}" for key in keys if not programs.chart_has(key))
    charts = any((ROOT / word / "Chart.yaml").is_file() for word in words[2:])
    if words[1] in ("install", "upgrade", "template") and words[2:] and not charts:
        yield "it names no chart of ours"


CHECKS = {
    "folio-manager": daemon, "folio-worker": daemon, "folio-gateway": daemon, "folioctl": client, "cmake": cmake,
    "ctest": ctest, "pytest": pytest,
    INSTEAD: python, "$python": python, "python3": python, "pip": pip, "apt": apt, "adduser": adduser, "cp": copy,
    "systemctl": systemd("start", "stop", "restart", "edit", "status"), "systemd-analyze": systemd("security", "verify"),
    "journalctl": lambda words, _: unknown_units(word for word in words[1:] if word != "-u"),
    "export": export, "cd": lambda words, _: (), "curl": curl, "grpcurl": grpcurl, "helm": helm,
}


def check_of(program):
    """The function that checks the commands of a program, or None."""
    if re.fullmatch(r"build[\w-]*/bin/\w+", program):
        return built
    if re.fullmatch(r"(deploy|tests)/[\w/.-]+\.(sh|py)|\.ci/\w+", program):
        return script
    return CHECKS.get(program)


def is_program(words):
    """Whether a code span that begins with these words is a command."""
    return bool(words) and words[0] != INSTEAD and (check_of(words[0]) is not None or words[0] in UNCHECKED)


def faults(command):
    check = check_of(command.words[0])
    if check is None and command.words[0] not in UNCHECKED:
        return [f"no check knows {command.words[0]}"]
    found = list(absent(command))
    # A span of one word may only name the program.
    if check is not None and (command.block or len(command.words) > 1 or check is built):
        found += check(command.words, command)
    return found


def flag_faults(flag, page, text):
    """A flag that stands alone is one of our daemons or of folioctl, or of a program that the page names."""
    if flag.partition("=")[0] in set().union(*FOREIGN.values()):
        return []
    known = set().union(*programs.client_flags().values(), programs.daemon_flags("folio-manager"),
                        programs.daemon_flags("folio-worker"), programs.daemon_flags("folio-gateway"))
    folder = (ROOT / page).parent
    for name in re.findall(r"[\w/.-]+\.(?:sh|py)\b", text):
        for path in (ROOT / name, folder / name):
            known |= programs.script_flags(path.resolve().relative_to(ROOT)) if path.is_file() else set()
    for inner in folder.glob("*/__main__.py"):
        known |= programs.script_flags(inner.parent.relative_to(ROOT))
    return unknown_flags([flag], known)
