"""The release that the steps share, and the record of the steps."""

import datetime
import os
import pathlib
import platform

import pytest
from kube import CONFIG, TAG, Release, run

HERE = os.path.dirname(__file__)
STEPS = []  # (seconds, outcome, what the step shows, facts)


def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path).startswith(HERE) and not CONFIG:
            item.add_marker(pytest.mark.skip(reason="no cluster: tests/kubernetes/run.sh brings one up and runs these"))


@pytest.fixture(scope="session")
def release():
    """Installed by the first step of test_pods_install.py."""
    return Release("folio", "privileged")


@pytest.fixture(scope="session")
def strict():
    """In a namespace that refuses all that Pod Security "restricted" does."""
    return Release("folio-strict", "restricted")


@pytest.fixture
def note(request):
    """Takes a fact that the step has found, for the record."""
    request.node.facts = []
    return request.node.facts.append


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if not CONFIG or not str(item.path).startswith(HERE):
        return
    if report.failed:
        for name in ("release", "strict"):
            if name in item.fixturenames:
                report.sections.append((f"pods of {name}", item.funcargs[name].diagnosis()))
    if call.when != "call" and not report.failed:
        return
    what = item.function.__doc__.split("\n")[0].rstrip(".")
    outcome = "failed" if report.failed else report.outcome
    STEPS.append((call.duration, outcome, what, list(getattr(item, "facts", []))))
    reporter = item.config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line(f"[kubernetes] {call.duration:6.1f} s  {outcome}: {what}")
    for fact in getattr(item, "facts", []):
        reporter.write_line(f"[kubernetes]             {fact}")


def pytest_report_teststatus(report):
    """No letters for steps: each has its line."""
    if CONFIG and report.nodeid.startswith("tests/kubernetes") and report.when == "call":
        return report.outcome, "", report.outcome.upper()
    return None


def versions():
    yield "kernel", platform.release()
    yield "control groups", "v2" if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"
    yield "processors", str(os.cpu_count())
    yield "Kubernetes", run("kubelet", "--version").stdout.split()[-1]
    yield "containerd", run("containerd", "--version").stdout.split()[2]
    yield "runc", run("runc", "--version").stdout.split("\n")[0].split()[-1]
    yield "helm", run("helm", "version", "--short").stdout.strip()
    yield "images", TAG
    yield "programs in them", os.environ.get("FOLIO_CLUSTER_VERSION", "")


def pytest_sessionfinish(session, exitstatus):
    summary = os.environ.get("FOLIO_CLUSTER_SUMMARY")
    if not CONFIG or not summary or not STEPS:
        return
    setup = os.environ.get("FOLIO_CLUSTER_SETUP", "")
    lines = [f"# Folio on a real cluster, {datetime.date.today()}", ""]
    took = sum(step[0] for step in STEPS)
    lines += [f"`tests/kubernetes/run.sh` wrote this. {len(STEPS)} steps took {took:.0f} s. {setup}", ""]
    lines += ["| with | version |", "|---|---|", *(f"| {name} | {value} |" for name, value in versions()), ""]
    lines += ["| step | seconds | result | seen |", "|---|---|---|---|"]
    for seconds, outcome, what, facts in STEPS:
        seen = "<br>".join(facts).replace("|", "\\|")
        lines.append(f"| {what} | {seconds:.1f} | {outcome} | {seen} |")
    pathlib.Path(summary).write_text("\n".join(lines) + "\n")
