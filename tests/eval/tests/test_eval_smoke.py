"""The whole evaluation once, small, on the real processes and the reference model."""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import pytest
from folio_eval.cells import Setting
from folio_eval.store import read_lines
from folio_eval.summary import Results

HERE = pathlib.Path(__file__).resolve().parent
GRID = "run --tasks needle_prose,perplexity --policies full,paged_eviction,random --budgets 128,256 --lengths 512".split()
SECONDS = 900  # on a machine that others use
MOST_SECONDS = 180  # of all its processes together


def start(*arguments, **more):
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, "-m", "folio_eval", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A shell's background jobs ignore SIGINT, and so would whatever they start.
    heeds = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    return subprocess.Popen(command, env=environment, **pipes, **{**heeds, **more})


def finish(process, timeout=SECONDS):
    """(exit status, what it said); killed, and a failure, when it takes longer."""
    try:
        out, said = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"not over within {timeout} s: {process.communicate()}") from None
    return process.returncode, out + said


def used_seconds():
    """Of processors, by all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    if not os.environ.get("FOLIO_MODEL"):
        pytest.skip("FOLIO_MODEL is not set: NOTHING WAS EVALUATED")
    path = tmp_path_factory.mktemp("eval") / "results.jsonl"
    before = used_seconds()
    status, said = finish(start(*GRID, "--prompts", 2, "--out", path))
    assert status == 0, said
    assert used_seconds() - before < MOST_SECONDS
    return path


def test_every_cell_has_its_numbers(results):
    lines = read_lines(results)
    assert len(lines) == 10 and not any("error" in line for line in lines)
    table = Results([results])
    full = table.estimate("needle_prose", 512, Setting("full"), "nll")
    assert full.count == 2 and 0 < full.mean < 1, "the model finds a needle when nothing was forgotten"
    for budget in (128, 256):
        assert table.estimate("needle_prose", 512, Setting("random", budget), "nll").mean > full.mean
        for policy in ("paged_eviction", "random"):
            assert table.estimate("perplexity", 512, Setting(policy, budget), "kl").mean > 0.001
    assert table.estimate("perplexity", 512, Setting("full"), "kl").mean == 0
    assert 0.5 < table.estimate("perplexity", 512, Setting("full"), "nll").mean < 6


def test_maps_show_what_was_kept(results):
    maps = {(line["policy"], line["budget"]): line["kept"] for line in Results([results]).maps}
    assert set(maps) == {(policy, budget) for policy in ("paged_eviction", "random") for budget in (128, 256)}
    for (policy, budget), rows in maps.items():
        assert len(rows) == 30 and all(len(row) == 64 for row in rows)
        share = sum(int(digit) for row in rows for digit in row) / (9 * 64 * 30)
        assert share == pytest.approx(budget / 518, abs=0.06), (policy, budget)
        assert all(row[0] == row[-1] == "9" for row in rows), "sinks and the latest tokens stay"


def test_nothing_is_done_twice(results):
    before = results.read_bytes()
    status, said = finish(start(*GRID, "--prompts", 2, "--out", results))
    assert status == 0 and "0 of 10 cells to do" in said and results.read_bytes() == before


def test_the_report_opens(results, tmp_path):
    status, said = finish(start("report", results, "--out", tmp_path / "report"))
    assert status == 0, said
    page = (tmp_path / "report/report.html").read_text()
    assert page.count("data:image/png") >= 4 and "paged_eviction" in page
    status, said = finish(start("compare", "random", "full", results))
    assert status == 0 and "random @ 128 minus full" in said


def test_compactions_are_told_apart(model, tmp_path):
    """The same prompts, compacted at their end and while they are prefilled: other nats, and as many tokens kept."""
    out = tmp_path / "results.jsonl"
    grid = "run --tasks needle_prose --policies key_diff --budgets 128 --lengths 512 --prompts 2".split()
    status, said = finish(start(*grid, "--compaction", "whole,streamed:128", "--out", out))
    assert status == 0, said
    whole, streamed = (Setting("key_diff", 128, compaction=one) for one in ("whole", "streamed:128"))
    table = Results([out])
    assert set(table.settings()) == {whole, streamed}
    nll = [table.values("needle_prose", 512, one, "nll") for one in (whole, streamed)]
    assert len(nll[0]) == len(nll[1]) == 2 and nll[0] != nll[1]
    status, said = finish(start("compare", "key_diff/streamed:128", "key_diff/whole", out))
    assert status == 0 and "key_diff, streamed:128 @ 128 minus key_diff, whole @ 128" in said


def test_a_cell_that_is_refused_costs_only_itself(model, tmp_path):
    out = tmp_path / "results.jsonl"
    grid = "run --tasks needle_repeat --policies full,streaming_llm --budgets 100,256 --lengths 256 --prompts 1".split()
    status, said = finish(start(*grid, "--out", out))
    assert status == 1 and "budget" in said and "1 cells FAILED" in said
    failed = {line.get("budget"): "error" in line for line in read_lines(out)}
    assert failed == {None: False, 100: True, 256: False}


def children(pid):
    """Processes that it started and that still run."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = stat.read_text().partition(") ")
        except OSError:
            continue
        state, parent = fields.split()[:2]
        if int(parent) == pid and state != "Z":
            found.append(int(name.split()[0]))
    return found


def alive(pid):
    try:
        return "Z" != pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except OSError:
        return False


def test_ctrl_c_leaves_whole_lines_and_no_process(model, tmp_path):
    out = tmp_path / "results.jsonl"
    grid = "run --tasks needle_repeat,long_generation --policies full --lengths 1024 --prompts 4 --seeds 2".split()
    process = start(*grid, "--out", out)
    deadline = time.monotonic() + SECONDS
    while not out.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    daemons = children(process.pid)
    process.send_signal(signal.SIGINT)
    status, said = finish(process, 300)
    assert status == 130 and "stopped" in said, said
    assert len(daemons) == 2 and not any(map(alive, daemons))
    assert 1 <= len(read_lines(out)) < 4


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--tasks", "needles"], "no task 'needles'"),
        (["--model", "/no/model"], "/no/model"),
        (["--bin", "/no/bin"], "/no/bin/folio-manager does not exist"),
        (["--address", "unix:/no/socket"], "/no/socket"),
        (["--policies", "random"], "needs a budget"),
    ],
)
def test_what_cannot_work_is_said_in_a_line(model, tmp_path, arguments, said):
    grid = ["run", "--tasks", "needle_4", "--policies", "full", "--out", tmp_path / "x.jsonl", *arguments]
    status, words = finish(start(*grid))
    assert status == 1 and said in words and "Traceback" not in words
