"""Says which tests took long as soon as they end, so that a run that is cut off shows where its time went. NumPy has one thread.

Tests marked `long` take ten seconds or more and show by another way what a test without the mark shows: with more ranks, in
another arithmetic, with a longer prompt. They run with FOLIO_LONG_TESTS=1.

No test begins after FOLIO_TESTS_UNTIL, a time in seconds as `date +%s` prints it. The others are skipped, so that a run that must
end in time says which tests it left out.
"""

import collections
import os
import time

import pytest

LONG = 20  # seconds
UNTIL = float(os.environ.get("FOLIO_TESTS_UNTIL") or "inf")

# Threads of BLAS wait for each other in loops, and take the processors from the programs under test. NumPy reads this once.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class LongTests:
    def __init__(self, terminal):
        self.terminal = terminal
        self.seconds = collections.Counter()

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] += report.duration
        if report.when == "teardown" and (took := self.seconds.pop(report.nodeid)) >= LONG:
            self.terminal.ensure_newline()
            self.terminal.write_line(f"{took:.0f} s: {report.nodeid}")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("FOLIO_LONG_TESTS"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.hookimpl(tryfirst=True)  # before fixtures, which start processes
def pytest_runtest_setup():
    if time.time() >= UNTIL:
        pytest.skip("no time was left")


@pytest.hookimpl(trylast=True)  # the terminal reporter comes before
def pytest_configure(config):
    config.addinivalue_line("markers", "long: runs with FOLIO_LONG_TESTS=1 only")
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal and not hasattr(config, "workerinput"):
        config.pluginmanager.register(LongTests(terminal))
