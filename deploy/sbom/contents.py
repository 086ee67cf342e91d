"""The parts of a program of a build directory, by what Ninja, the ELF file, dpkg, cargo, npm's lock and the CUDA wheels say.

A part is either compiled into the program (headers, static libraries, crates, the console's page) or linked when it starts (shared libraries).
"""

import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILED, LINKED = "compiled in", "shared library"
# cargo's libraries, and the crate of ours that each is made of; a program that links one has the crates inside.
CRATES = {"libfolio_query_ffi.a": ROOT / "services/cli/query",
          "libfolio_tokenizer_ffi.a": ROOT / "services/model/tokenizer/ffi"}
# Licences of crates whose packages have no file with it.
TEXTS = pathlib.Path(__file__).resolve().parent / "texts"
# The console's page as C++, and the lock of what it is made of.
PAGE, PAGE_LOCK = "page_files.cc.o", ROOT / "services/console/package-lock.json"
# A library of other people inside a wheel: its folder there, and a header that says its version and licence.
VENDORED = {"flashinfer-python": ("flashinfer/data/cutlass/", "cutlass", "include/cutlass/version.h")}
# Files of a wheel under another licence than the rest, whose notice is their first comment: one of each.
NOTICES = {"flashinfer-python": ["flashinfer/data/include/flashinfer/attention/hopper/prefill_sm90.cuh"]}


@dataclasses.dataclass(frozen=True, order=True)
class Part:
    kind: str  # deb, cargo, npm, pypi or generic
    name: str
    version: str
    source: str  # of a Debian package: its source package, which the table of licences names
    how: str  # COMPILED or LINKED
    licence: str = ""  # as the part itself says, where it says one
    texts: tuple[pathlib.Path, ...] = ()  # files with its licence


def said(*command, cwd=None, **variables):
    done = subprocess.run(
        [os.fspath(word) for word in command], cwd=cwd, capture_output=True, text=True, env={**os.environ, **variables}
    )
    if done.returncode != 0:
        raise SystemExit(f"sbom: {' '.join(map(str, command))} failed: {done.stderr.strip()}")
    return done.stdout


def unaliased(path):
    """The real path, and the one that a package of a machine with merged /usr may have listed."""
    real = os.path.realpath(path)
    return [real, real.removeprefix("/usr")] if real.startswith("/usr/lib") else [real]


OWNERS: dict[str, str | None] = {}  # by path, because dpkg is slow and the programs share most of their headers


def owners(paths):
    """Debian package of each path, for the paths that one owns."""
    asked = sorted({name for path in paths for name in unaliased(path)} - OWNERS.keys())
    for begin in range(0, len(asked), 2000):
        some = asked[begin:begin + 2000]
        OWNERS.update(dict.fromkeys(some))
        # dpkg fails when it does not know one of them, and tells of the others all the same.
        answer = subprocess.run(["dpkg", "-S", *some], capture_output=True, text=True).stdout
        for line in answer.splitlines():
            packages, _, path = line.partition(": ")
            if not packages.startswith("diversion"):
                OWNERS[path] = packages.split(", ")[0].split(":")[0]
    return {path: OWNERS[name] for path in paths for name in unaliased(path) if OWNERS[name]}


@functools.cache
def debian_part(package, how):
    version, source = said("dpkg-query", "-W", "-f=${Version}\t${source:Package}", package).split("\t")
    text = pathlib.Path(f"/usr/share/doc/{package}/copyright")
    return Part("deb", package, version, source, how, texts=(text,) if text.exists() else ())


def shared_libraries(program):
    """Debian packages, and paths without one, of all libraries that the loader finds for a program."""
    lines = said("ldd", program).splitlines()
    missing = [line.strip() for line in lines if "not found" in line]
    paths = [match[1] for line in lines if (match := re.search(r"(/\S+) \(0x", line))]
    known = owners(paths)
    return {debian_part(package, LINKED) for package in known.values()}, set(paths) - set(known), missing


def inputs(build, target):
    """All files that Ninja makes `target` of."""
    return said("ninja", "-C", build, "-t", "inputs", target).splitlines()


@functools.cache
def compilations(build):
    """The lines of files that were read for each object, as Ninja keeps them."""
    found, lines = {}, []
    for line in said("ninja", "-C", build, "-t", "deps").splitlines():
        if line.startswith(" "):
            lines.append(line)
        elif line:
            found[line.partition(": #deps")[0]] = lines = []
    return found


def headers(build, objects):
    """All files that were read while these objects were compiled."""
    known = compilations(build)
    lines = {line for name in objects for line in known.get(name, ())}
    return {os.path.normpath(build / line.strip()) for line in lines}


def licence_texts(folder):
    return tuple(sorted(path for path in folder.iterdir()
                        if path.is_file() and re.match(r"(?i)(licen[cs]e|copying|notice|copyright)", path.name)))


def setting(build, name):
    """A variable of the build's CMake cache."""
    found = re.search(rf"^{name}:\w+=(.+)$", (build / "CMakeCache.txt").read_text(), re.M)
    if found is None:
        raise SystemExit(f"sbom: {build}/CMakeCache.txt has no {name}")
    return found[1]


def rust_tools(build):
    """cargo as CMake found it, and the rustc beside it."""
    cargo = pathlib.Path(setting(build, "FOLIO_CARGO"))
    rustc = cargo.with_name(cargo.name.replace("cargo", "rustc"))
    return cargo, rustc if rustc.exists() else "rustc"


def is_macro(package):
    """It runs in the compiler, as all that it depends on does."""
    return any("proc-macro" in target["kind"] for target in package["targets"])


def crates(build, crate):
    """Rust's standard library, and the crates that cargo resolves for this machine and compiles in."""
    cargo, rustc = rust_tools(build)
    compiler = said(rustc, "-vV")
    release, target = (re.search(rf"{key}: (\S+)", compiler)[1] for key in ("release", "host"))
    yield Part("generic", "rust-std", release, "rust-std", COMPILED, "MIT OR Apache-2.0")
    told = json.loads(said(cargo, "metadata", "--locked", "--format-version=1", f"--filter-platform={target}",
                           "--manifest-path", crate / "Cargo.toml", RUSTC=os.fspath(rustc)))
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    reached, todo = set(), [told["resolve"]["root"]]
    while todo:
        one = todo.pop()
        if one in reached or is_macro(packages[one]):
            continue
        reached.add(one)
        for dependency in nodes[one]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                todo.append(dependency["pkg"])
    for package in (packages[one] for one in reached):
        if package["source"] is None:
            continue  # it is ours
        # Old manifests write "MIT/Apache-2.0".
        licence = (package["license"] or "").replace("/", " OR ")
        texts = licence_texts(pathlib.Path(package["manifest_path"]).parent)
        yield Part("cargo", package["name"], package["version"], package["name"], COMPILED, licence,
                   texts or tuple(TEXTS.glob(f"{package['name']}.txt")))


def page_parts(folder):
    """The packages of npm inside the page that lies in a folder; none if it was built without one."""
    if not (folder / "index.html").exists():
        return
    for path, package in json.loads(PAGE_LOCK.read_text())["packages"].items():
        name = path.removeprefix("node_modules/")
        if name and not package.get("dev"):
            text = folder / "licences" / f"{name}.txt"
            yield Part("npm", name, package["version"], name, COMPILED, package["license"], (text,))


def wheels():
    """Requirement and folder of each wheel that deploy/cuda_toolkit.sh may have unpacked."""
    text = (ROOT / "deploy/cuda_wheels.sh").read_text()
    for kind, body in re.findall(r"FOLIO_WHEELS_(\w+)=\((.*?)\n\)", text, re.S):
        for name, version in re.findall(r'"(\S+?)==(\S+) ', body):
            yield kind, name, version


def wheel_parts(paths):
    """Parts for paths that lie in an unpacked wheel, and the paths that do not."""
    found, rest = set(), set()
    listed = list(wheels())
    for path in paths:
        part = next((part for part in (wheel_part(path, *wheel) for wheel in listed) if part), None)
        if part:
            found.add(part)
        else:
            rest.add(path)
    return found, rest


def wheel_part(path, kind, name, version):
    for folder in pathlib.Path(path).parents:
        if folder.name != kind or not (folder / "wheels.txt").exists():
            continue
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        record = info / "RECORD"
        relative = os.path.relpath(path, folder)
        # A wheel of which only a part was unpacked is alone in its folder.
        listed = not record.exists() or f"{relative}," in record.read_text()
        if info.is_dir() and listed:
            inside, *of_others = VENDORED.get(name, ("",))
            if of_others and relative.startswith(inside):
                return vendored_part(of_others[0], folder / inside / of_others[1])
            texts = sorted(text for text in info.glob("licenses/**/*") if text.is_file())
            texts += [folder / notice for notice in NOTICES.get(name, ()) if (folder / notice).exists()]
            how = LINKED if ".so" in os.path.basename(path) else COMPILED
            return Part("pypi", name, version, name, how, texts=tuple(texts))
    return None


def vendored_part(name, header):
    text = header.read_text()
    version = [re.search(rf"^#define \w+_{number} (\d+)$", text, re.M)[1] for number in ("MAJOR", "MINOR", "PATCH")]
    licence = re.search(r"SPDX-License-Identifier: (\S+)", text)[1]
    return Part("generic", name, ".".join(version), name, COMPILED, licence, (header,))


def program_parts(build, target):
    """All parts of a program or of a static library of ours."""
    build = build.resolve()
    read = inputs(build, target)
    objects = [name for name in read if name.endswith(".o")]
    if not objects:
        raise SystemExit(f"sbom: {build} does not build {target}")
    files = headers(build, objects)
    if not files:
        raise SystemExit(f"sbom: {build} has not built {target}")
    tree = setting(build, "CMAKE_HOME_DIRECTORY")
    ours = (f"{build}/", *(f"{tree}/{folder}/" for folder in ("kernels", "proto", "services")))
    files = {path for path in files if not path.startswith(ours)}
    files |= {path for path in read if path.startswith("/") and re.search(r"\.(a|so)(\.[0-9.]+)?$", path)
              and not path.startswith(f"{build}/")}
    static = {path for path in files if ".so" not in os.path.basename(path)}
    known = owners(static)
    parts = {debian_part(package, COMPILED) for package in known.values()}
    linked, foreign, missing = set(), set(), []
    if (build / target).suffix == "":
        linked, foreign, missing = shared_libraries(build / target)
    if missing:
        raise SystemExit(f"sbom: {target} does not find its libraries: {'; '.join(missing)}")
    from_wheels, unknown = wheel_parts((static - known.keys()) | foreign)
    if unknown:
        raise SystemExit(f"sbom: nothing says where these parts of {target} come from: {', '.join(sorted(unknown)[:5])}")
    for library, crate in CRATES.items():
        if any(name.endswith(library) for name in read):
            parts |= set(crates(build, crate))
    if any(name.endswith(PAGE) for name in objects):
        parts |= set(page_parts(build / "services/gateway/page"))
    return parts | linked | from_wheels
