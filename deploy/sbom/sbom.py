#!/usr/bin/env python3
"""Writes the bill of materials of each package, and refuses a licence that may not be shipped.

  sbom.py BUILD OUT VERSION PACKAGE=TARGET ...
For each package it writes OUT/PACKAGE/sbom.json (CycloneDX 1.6, checked against its schema) and, where something of other
people is compiled in, OUT/PACKAGE/third-party-licences.gz with the texts of their licences. TARGET is as Ninja in BUILD
names it, such as bin/folio-worker, and built. deploy/package.sh runs this in the environment of requirements.txt.
"""

import datetime
import gzip
import os
import pathlib
import sys
import uuid

import contents
import licences
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

LICENCES = LicenseFactory()
SPACE = uuid.UUID("6d1f0f52-5a0c-5b7e-9d55-3a3c0a1b7c11")  # of serial numbers: the same content gives the same one


def distribution():
    lines = pathlib.Path("/etc/os-release").read_text().splitlines()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}


def address(part):
    """Its package URL."""
    if part.kind != "deb":
        return PackageURL(part.kind, None, part.name, part.version)
    system = distribution()
    release = f"{system['ID']}-{system['VERSION_ID']}"
    return PackageURL("deb", system["ID"], part.name, part.version, {"distro": release})


def component(part, expression):
    return Component(
        type=ComponentType.LIBRARY, name=part.name, version=part.version, purl=address(part),
        bom_ref=f"{address(part)}#{part.how.replace(' ', '-')}", licenses=[LICENCES.make_from_string(expression)],
        properties=[Property(name="folio:use", value=part.how)])


def bill(package, version, parts, table):
    root = Component(type=ComponentType.APPLICATION, name=package, version=version, bom_ref=package,
                     licenses=[LICENCES.make_from_string("Apache-2.0")])
    bom = Bom()
    bom.metadata.component = root
    when = os.environ.get("SOURCE_DATE_EPOCH")
    if when:
        bom.metadata.timestamp = datetime.datetime.fromtimestamp(int(when), datetime.timezone.utc)
    made = [component(part, table.of(part)) for part in sorted(parts)]
    for one in made:
        bom.components.add(one)
    bom.register_dependency(root, made)
    bom.serial_number = uuid.uuid5(SPACE, "\n".join([package, version, *sorted(str(one.bom_ref) for one in made)]))
    return bom


def as_json(bom):
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong:
        raise SystemExit(f"sbom: the bill is not valid CycloneDX 1.6: {wrong}")
    return text + "\n"


def text_of(path):
    """A licence's text: all of a file, or the first comment of a header."""
    text = path.read_text(errors="replace")
    if path.suffix in (".h", ".cuh"):
        text = text[:text.index("*/") + 2]
    return text.rstrip()


def notices(parts):
    """The licence texts of all that is compiled in."""
    said = []
    for part in sorted(parts):
        if part.how != contents.COMPILED:
            continue
        for path in part.texts:
            title = f"{part.name} {part.version}: {path.name}"
            said.append(f"{title}\n{'=' * len(title)}\n{text_of(path)}\n")
    return "\n\n".join(said)


def main(build, out, version, *packages):
    build, table, problems = pathlib.Path(build), licences.read(), []
    made = {}
    for name, target in (package.split("=") for package in packages):
        made[name] = contents.program_parts(build, target)
        problems += [f"{name}: {problem}" for part in sorted(made[name]) if (problem := table.problem(part))]
    if problems:
        raise SystemExit("sbom: " + "\nsbom: ".join(problems))
    for name, parts in made.items():
        folder = pathlib.Path(out) / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sbom.json").write_text(as_json(bill(name, version, parts, table)))
        text = notices(parts)
        if text:
            (folder / "third-party-licences.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        compiled = sum(part.how == contents.COMPILED for part in parts)
        print(f"[sbom] {name}: {compiled} parts compiled in, {len(parts) - compiled} shared libraries' packages")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
