"""Every Python environment is locked: each package has a version and hashes, and the lock follows its .in file."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIN = re.compile(r"([a-z0-9][a-z0-9-]*)==([^\s;]+)(?: ; [^\\]+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
ASKED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[a-z,]+\])?\s*(?:==\s*(\S+)|>=\s*\S+)?")
# An option, or an address, would take packages from elsewhere than the machine's own index.
ADDRESS = re.compile(r"://|^\s*-(?!-hash)|(?<![\w-])(index|find-links|trusted-host)\b", re.M)


def tracked(pattern):
    command = ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", pattern]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return sorted(name for name in listed if (ROOT / name).exists())


INPUTS, LOCKS = tracked("*requirements.in"), tracked("*requirements.txt")


def package_name(name):
    """As locks write it."""
    return re.sub(r"[._-]+", "-", name).lower()


def without_comments(text):
    return [line for line in (line.split("#")[0].strip() for line in text.splitlines()) if line]


def pins(text):
    """Name to versions and to what stands behind each, of a lock; a name has several versions where markers differ."""
    found = {}
    for entry in "\n".join(without_comments(text)).replace("\\\n", " ").splitlines():
        first, *rest = re.split(r"\s+(?=--hash)", entry)
        match = PIN.fullmatch(first.strip())
        assert match, f"no pinned package: {first}"
        assert rest and all(HASH.fullmatch(one.strip()) for one in rest), f"{first}: no hash"
        found.setdefault(match[1], set()).add(match[2])
    return found


def test_each_in_file_has_a_lock_and_each_lock_an_in_file():
    assert len(INPUTS) >= 5
    assert [name.removesuffix(".in") + ".txt" for name in INPUTS] == LOCKS


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_a_version_and_hashes(name):
    text = (ROOT / name).read_text()
    assert pins(text), "an empty lock"
    assert not ADDRESS.search("\n".join(without_comments(text))), "a lock names where packages come from"


def asked_for(text):
    """The packages that a lock says its .in file asked for, from the comment under each."""
    found, package = set(), None
    for line in text.splitlines():
        if match := PIN.match(line):
            package = match[1]
        elif re.fullmatch(r"\s*#\s+(via )?-r \S+\.in", line):
            found.add(package)
    return found


@pytest.mark.parametrize("name", INPUTS)
def test_a_lock_holds_what_its_in_file_asks_for(name):
    text = (ROOT / name).with_suffix(".txt").read_text()
    locked, asked = pins(text), {}
    for line in without_comments((ROOT / name).read_text()):
        match = ASKED.fullmatch(line)
        assert match, f"{name}: {line}"
        asked[package_name(match[1])] = match[2]
    for package, version in asked.items():
        assert package in locked, f"{package} is not in the lock: run deploy/lock.sh"
        assert version is None or locked[package] == {version}, f"{package} is {locked[package]}: run deploy/lock.sh"
    assert asked_for(text) == asked.keys(), "the .in file has changed since: run deploy/lock.sh"


@pytest.mark.parametrize("name", [name for name in LOCKS if "build-requirements" in name])
def test_an_environment_has_one_version_of_a_build_tool(name):
    tools = pins((ROOT / name).read_text())
    rest = pins((ROOT / name.replace("build-requirements", "requirements")).read_text())
    assert {tool: rest[tool] for tool in tools if tool in rest} == {tool: tools[tool] for tool in tools if tool in rest}


@pytest.mark.parametrize(
    "text",
    [
        "numpy\n",
        "numpy>=2\n",
        "numpy==2.1.3\n",
        "numpy==2.1.3 \\\n    --hash=md5:0123\n",
        "numpy==2.1.3 \\\n    --hash=sha256:" + "0" * 63 + "\n",
        "--index-url=somewhere\n",
        "pip @ file:///pip.whl\n",
    ],
)
def test_what_is_not_locked_is_found(text):
    with pytest.raises(AssertionError):
        pins(text)


def test_scripts_install_from_locks_alone():
    wrong = []
    for name in [*tracked("*.sh"), ".ci/run", ".ci/lint"]:
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if re.search(r"\bpip\b.*\binstall\b", line) and not re.search(r"--require-hashes|--no-deps", line):
                wrong.append(f"{name}:{number}: {line.strip()}")
            if re.search(r"-m venv\b", line) and name != "deploy/python_env.sh":
                wrong.append(f"{name}:{number}: {line.strip()}")
    assert not wrong, "make the environment with deploy/python_env.sh:\n" + "\n".join(wrong)
