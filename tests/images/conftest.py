"""The images that run.sh has built, and why tests of them are skipped without it."""

import os

import pytest
from containers import IMAGES, STORAGE, Image


@pytest.fixture(scope="session")
def images():
    if not STORAGE:
        pytest.skip("FOLIO_IMAGES is not set: tests/images/run.sh builds the images and tests them")
    built = {name: Image(name) for name in IMAGES}
    yield built
    for image in built.values():
        image.remove()


@pytest.fixture(scope="session")
def model():
    path = os.environ.get("FOLIO_MODEL", "")
    assert os.path.exists(path), "FOLIO_MODEL must be the reference model; tests/images/run.sh sets it"
    return path
