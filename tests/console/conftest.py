"""A browser, real daemons on the reference model, and the page of the console that they serve."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from console import CHROMIUM, Console  # noqa: E402
from gateway import Gateway  # noqa: E402
from node import BIN, MODEL, pair, write_model  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402


def pytest_collection_modifyitems(items):
    here = os.path.dirname(__file__)
    for item in items:
        if not str(item.path).startswith(here):
            continue
        if not MODEL:
            item.add_marker(pytest.mark.skip(reason="FOLIO_MODEL is not set: NOTHING WAS TESTED END TO END"))
        elif not os.path.exists(CHROMIUM):
            item.add_marker(pytest.mark.skip(reason=f"no {CHROMIUM}: THE CONSOLE WAS NOT TESTED"))


# Playwright's event loop runs in this thread for as long, and tests of other folders have loops of their own.
@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        # Chromium's sandbox refuses to run as root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def node():
    assert (BIN / "folio-gateway").exists(), f"{BIN} lacks folio-gateway: build first, or set FOLIO_BIN"
    # Tests may stop the worker for as long as they have patience.
    with pair(pool="96MiB", lease="10m", flags=["--step_timeout=0"]) as node:
        yield node


@pytest.fixture(scope="module")
def gateway(node):
    with Gateway(node, flags=[f"--manager={node.manager_address}"]) as gateway:
        yield gateway


@pytest.fixture
def open_console(browser):
    """Opens the console of a gateway in a window of its own. The page may report no error, whatever a test does."""
    opened = []

    def start(gateway, view="", **options):
        console = Console(browser, gateway, **options)
        opened.append(console)
        console.open(view)
        return console

    yield start
    try:
        for console in opened:
            console.assert_no_complaint()
    finally:
        for console in opened:
            console.close()


@pytest.fixture
def console(open_console, gateway):
    """One on the pair of the reference model, which has all its pages back at the end."""
    yield open_console(gateway)


@pytest.fixture(scope="session")
def long_model(tmp_path_factory):
    """One of random weights, which loads at once, with a context of 65,536 tokens."""
    return write_model(tmp_path_factory.mktemp("model") / "long", "llama", 1 << 16)
