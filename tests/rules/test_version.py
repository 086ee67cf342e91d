"""One version stands in every place that has one, and CHANGELOG.md begins with it."""

import re

import pytest
from test_layout import ROOT

PLACES = {
    "CMakeLists.txt": r"project\(folio VERSION (\S+)",
    "CHANGELOG.md": r"^## (\S+)",
    "helm/folio/Chart.yaml": r"^version: (.+)",
    "services/client/python/pyproject.toml": r'^version = "(.+)"',
    "services/client/python/src/folio/__init__.py": r'^__version__ = "(.+)"',
    "services/model/tokenizer/ffi/Cargo.toml": r'^version = "(.+)"',
    "services/model/tokenizer/ffi/Cargo.lock": r'^name = "folio-tokenizer"\nversion = "(.+)"',
    "services/base/boundary/Cargo.toml": r'^version = "(.+)"',
    "services/cli/query/Cargo.toml": r'^version = "(.+)"',
    "services/cli/query/Cargo.lock": r'^name = "folio-query"\nversion = "(.+)"',
}


def version(place):
    found = re.search(PLACES[place], (ROOT / place).read_text(), re.M)
    assert found, f"{place} names no version"
    return found.group(1)


@pytest.mark.parametrize("place", PLACES)
def test_versions_agree(place):
    assert version(place) == version("CMakeLists.txt")
