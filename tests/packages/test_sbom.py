"""deploy/sbom/sbom.py: the bill of a program that is built here is complete, and no licence passes unseen."""

import gzip
import importlib
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from cache_folder import CACHE

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FOLIO_BIN") or ROOT / "build/bin").resolve().parent
# sbom.py works from its own place in the tree, so a copy of the tree's parts that it reads takes a changed table.
CRATES = ["services/cli/query", "services/model/tokenizer/ffi"]
READ = ["deploy/sbom", "deploy/cuda_wheels.sh", "services/base/boundary", "services/console/package-lock.json",
        *(f"{crate}/{name}" for crate in CRATES for name in ("Cargo.toml", "Cargo.lock", "src"))]

pytestmark = [
    pytest.mark.skipif(not (BUILD / "bin/folioctl").exists(), reason=f"{BUILD} has no programs: NO BILL WAS MADE"),
    pytest.mark.skipif(not (BUILD / "build.ninja").exists(), reason=f"{BUILD} is not Ninja's: NO BILL WAS MADE"),
]


@pytest.fixture(scope="module")
def python():
    done = subprocess.run([ROOT / "deploy/python_env.sh", CACHE / "sbom-venv", ROOT / "deploy/sbom/requirements.txt"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def make(python, out, *packages, root=ROOT):
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1795000000"}
    return subprocess.run([python, root / "deploy/sbom/sbom.py", BUILD, out, "0.2.0", *packages], capture_output=True, text=True,
                          timeout=300, env=environment)


@pytest.fixture(scope="module")
def made(python, tmp_path_factory):
    out = tmp_path_factory.mktemp("documents")
    done = make(python, out, "folioctl=bin/folioctl", "folio-worker=bin/folio-worker",
                "folio-gateway=bin/folio-gateway", "libfolio-client-dev=services/client/libfolio_client.a")
    assert done.returncode == 0, done.stderr
    return out


def parts(made, package):
    """Name of each part to its licence and use."""
    bill = json.loads((made / package / "sbom.json").read_text())
    assert bill["bomFormat"] == "CycloneDX" and bill["specVersion"] == "1.6"
    assert bill["metadata"]["component"]["name"] == package
    found = {}
    for one in bill["components"]:
        licence = one["licenses"][0]
        said = licence.get("expression") or licence["license"].get("id") or licence["license"]["name"]
        found.setdefault(one["name"], []).append((said, one["properties"][0]["value"]))
        assert one["purl"].startswith(("pkg:deb/", "pkg:cargo/", "pkg:npm/", "pkg:pypi/", "pkg:generic/")) and one["version"]
    return found


def test_each_crate_of_the_lock_that_is_compiled_in_is_listed(made):
    listed = parts(made, "folio-worker")
    assert {"tokenizers", "minijinja", "minijinja-contrib", "serde_json", "regex", "rust-std"} <= listed.keys()
    assert not {"syn", "quote", "proc-macro2", "darling"} & listed.keys(), "these run in the compiler"
    assert listed["tokenizers"] == [("Apache-2.0", "compiled in")]
    assert "jmespath" not in listed, "it is in folioctl"
    listed = parts(made, "folioctl")
    assert listed["jmespath"] == [("MIT", "compiled in")] and {"serde_json", "rust-std"} <= listed.keys()
    assert not {"tokenizers", "slug", "deunicode"} & listed.keys(), "these are in the worker, or run while it is built"


def test_shared_libraries_are_those_of_the_loader(made):
    lines = subprocess.run(["ldd", BUILD / "bin/folio-worker"], capture_output=True, text=True, check=True).stdout
    linked = [name for name, uses in parts(made, "folio-worker").items() if any(use == "shared library" for _, use in uses)]
    for library, package in (("libgrpc++.so", "libgrpc++"), ("libdnnl.so", "libdnnl"), ("libgomp.so", "libgomp")):
        assert library in lines and any(name.startswith(package) for name in linked)
    assert "libspdlog-dev" not in linked


def test_headers_count_as_compiled_in(made):
    assert parts(made, "folioctl")["libcli11-dev"] == [("BSD-3-Clause", "compiled in")]
    assert "libcli11-dev" not in parts(made, "folio-worker")
    boost = [uses for name, uses in parts(made, "folio-gateway").items() if name.startswith("libboost")]
    assert boost == [[("BSL-1.0", "compiled in")]]
    sdk = parts(made, "libfolio-client-dev")
    assert "libprotobuf-dev" in sdk and all(use == "compiled in" for uses in sdk.values() for _, use in uses)


@pytest.mark.skipif(not (BUILD / "services/gateway/page/index.html").exists(), reason="built without the console's page")
def test_the_page_s_packages_are_listed(made):
    listed = parts(made, "folio-gateway")
    assert listed["preact"] == listed["uplot"] == [("MIT", "compiled in")]
    assert not {"vite", "esbuild", "typescript", "rollup"} & listed.keys(), "these only build the page"
    text = gzip.decompress((made / "folio-gateway/third-party-licences.gz").read_bytes()).decode()
    assert "preact.txt" in text and "Jason Miller" in text


def test_licence_texts_come_along(made):
    text = gzip.decompress((made / "folio-worker/third-party-licences.gz").read_bytes()).decode()
    listed = parts(made, "folio-worker")
    for name in ("tokenizers", "nom", "nlohmann-json3-dev", "memchr"):
        assert name in listed and f"\n{name} " in f"\n{text}", name
    assert "Permission is hereby granted, free of charge" in text


def test_every_crate_has_the_text_of_its_licence(made):
    for package in ("folioctl", "folio-worker"):
        text = gzip.decompress((made / package / "third-party-licences.gz").read_bytes()).decode()
        bill = json.loads((made / package / "sbom.json").read_text())
        crates = [one["name"] for one in bill["components"] if one["purl"].startswith("pkg:cargo/")]
        assert crates and not [name for name in crates if f"\n{name} " not in f"\n{text}"]


def test_a_library_inside_a_wheel_is_a_part_of_its_own(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "deploy/sbom")
    contents = importlib.import_module("contents")
    name, version = next((name, version) for _, name, version in contents.wheels() if name in contents.VENDORED)
    folder, library, header = contents.VENDORED[name]
    (tmp_path / "flashinfer" / f"{name.replace('-', '_')}-{version}.dist-info/licenses").mkdir(parents=True)
    (tmp_path / "flashinfer/wheels.txt").touch()
    says = tmp_path / "flashinfer" / folder / header
    says.parent.mkdir(parents=True)
    says.write_text("/* SPDX-License-Identifier: BSD-3-Clause */\n#define TOY_MAJOR 4\n#define TOY_MINOR 10\n#define TOY_PATCH 2\n")
    part, other = (contents.wheel_part(tmp_path / "flashinfer" / path, "flashinfer", name, version)
                   for path in (f"{folder}include/a.hpp", "flashinfer/data/include/b.cuh"))
    assert (part.name, part.version, part.licence, part.texts) == (library, "4.10.2", "BSD-3-Clause", (says,))
    assert (other.name, other.version) == (name, version)


def test_the_same_build_gives_the_same_bill(made, python, tmp_path):
    assert make(python, tmp_path, "folioctl=bin/folioctl").returncode == 0
    assert (tmp_path / "folioctl/sbom.json").read_bytes() == (made / "folioctl/sbom.json").read_bytes()


CASES = [
    ("source cli11 BSD-3-Clause\n", "", "libcli11-dev"),
    ("source cli11 BSD-3-Clause\n", "source cli11 GPL-3.0-only\n", "GPL-3.0-only is not allowed"),
    ("headers glibc LGPL-2.1-or-later WITH GCC-exception-2.0\n", "", "allowed for what is used as: compiled in"),
    ("allow-linked LGPL-2.1-or-later\n", "", "LGPL-2.1-or-later is not allowed for what is used as: shared library"),
    ("allow MIT\n", "", "MIT is not allowed"),
    ("allow MIT\n", "permit MIT\n", "not understood: permit MIT"),
]


@pytest.fixture(scope="module")
def judged(python):
    """The problems that the table as it is finds, and those of each of CASES."""
    table = (ROOT / "deploy/sbom/licences.txt").read_text()
    assert all(old in table for old, _, _ in CASES)
    texts = [table, *(table.replace(old, new) for old, new, _ in CASES)]
    done = subprocess.run([python, ROOT / "tests/packages/judge.py", BUILD], input=json.dumps(texts), capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_table_allows_what_is_shipped(judged):
    assert judged[0] == []


@pytest.mark.parametrize("index", range(len(CASES)), ids=[said for _, _, said in CASES])
def test_a_licence_that_is_not_allowed_is_refused(judged, index):
    assert CASES[index][2] in "\n".join(judged[index + 1])


def test_one_wrong_part_stops_the_packaging(python, tmp_path):
    for name in READ:
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    table = tmp_path / "deploy/sbom/licences.txt"
    table.write_text(table.read_text().replace(CASES[0][0], CASES[0][1]))
    done = make(python, tmp_path / "out", "folioctl=bin/folioctl", root=tmp_path)
    assert done.returncode != 0 and CASES[0][2] in done.stderr and "copyright" in done.stderr
    assert not (tmp_path / "out").exists(), "nothing is written when one part is wrong"
