"""deploy/demo.sh: ends with a table, and whenever it ends, nothing of it is left."""

import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.request

import pytest
from node import BIN, wait_until
from stubs import ROOT

SHORT = ("--tokens", "200", "--budget", "64")


def alive(directory):
    """Command lines by process id: all that a demo starts inherit its `directory` for temporary files."""
    mark, found = f"TMPDIR={directory}".encode(), {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(entry.name)] = command
        except OSError:
            pass  # it has ended meanwhile
    return found


class Demo:
    """One run, in a terminal's place: a process group that Ctrl-C reaches as a whole."""

    def __init__(self, path, *flags):
        self.log, self.temporary = path / "log", path / "tmp"
        self.temporary.mkdir()
        environment = {**os.environ, "TMPDIR": str(self.temporary), "FOLIO_BUILD": str(BIN.parent)}
        with open(self.log, "w") as out:
            self.popen = subprocess.Popen(
                [ROOT / "deploy/demo.sh", *SHORT, *flags],
                env=environment,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                # pytest may run in the background, where it is ignored, and what a shell finds ignored stays so.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def words(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, text):
        wait_until(lambda: text in self.words() or self.popen.poll() is not None, 240, text)
        assert text in self.words(), f"ended before it said {text!r}:\n{self.words()}"

    def interrupt(self):
        os.killpg(self.popen.pid, signal.SIGINT)

    def wait(self):
        return self.popen.wait(240)

    def assert_nothing_left(self):
        assert not alive(self.temporary), self.words()
        assert not os.listdir(self.temporary), self.words()

    def clean_up(self):
        """After a test that failed."""
        for pid in alive(self.temporary):
            os.kill(pid, signal.SIGKILL)
        self.popen.wait()


@pytest.fixture
def demo(tmp_path):
    started = []

    def start(*flags):
        started.append(Demo(tmp_path, *flags))
        return started[-1]

    yield start
    for run in started:
        run.clean_up()


def assert_compared(words):
    """Three policies in the table, with an answer each; the full cache's is right."""
    rows = re.findall(r"^(full|paged_eviction:64|streaming_llm:64) +(right|wrong) .*/s +(\d+) ", words, re.M)
    assert [row[0] for row in rows] == ["full", "paged_eviction:64", "streaming_llm:64"], words
    assert rows[0][1] == "right" and int(rows[0][2]) > 150, words
    # What they may keep, and the page that fills.
    assert all(int(resident) <= 64 + 16 for _, _, resident in rows[1:]), words
    assert re.search(r"^What is the capital of France\? .*Paris", words, re.M), words


def test_ends_with_a_table_and_leaves_nothing(demo):
    run = demo()
    assert run.wait() == 0, run.words()
    assert_compared(run.words())
    run.assert_nothing_left()


@pytest.mark.parametrize(
    "moment, later",
    [
        pytest.param("[demo] building", 0, id="set-up"),
        pytest.param("[demo] starting folio-manager", 0, id="start"),
        pytest.param("[demo] starting folio-worker", 0.3, id="load"),
        pytest.param("[demo] starting folio-gateway", 0, id="gateway"),
        pytest.param("[demo] one prompt", 0.3, id="stream"),
    ],
)
def test_ctrl_c_leaves_nothing(demo, moment, later):
    run = demo("--tokens", "4000")  # long enough not to be over before the signal
    run.wait_for(moment)
    time.sleep(later)
    run.interrupt()
    time.sleep(0.2)
    if run.popen.poll() is None:
        run.interrupt()  # an impatient second time
    assert run.wait() == 130, run.words()
    assert "policy  " not in run.words(), "it was over before the signal"
    run.assert_nothing_left()


def test_keep_leaves_daemons_that_the_printed_commands_reach_and_stop(demo):
    run = demo("--keep")
    assert run.wait() == 0, run.words()
    assert_compared(run.words())
    left = sorted(pathlib.Path(command.split()[0]).name for command in alive(run.temporary).values())
    assert left == ["folio-gateway", "folio-manager", "folio-worker"]
    commands = re.findall(r"^  (\S.*)$", run.words()[run.words().index("\nTry:\n") :], re.M)
    *tries, stop = commands
    console = re.search(r"^  (http://127\.0\.0\.1:\d+/console/)$", run.words(), re.M)[1]
    assert "<script" in urllib.request.urlopen(console, timeout=60).read().decode()
    reading = [line for line in tries if " chat " not in line]
    assert len(reading) >= 5 and any(line.startswith("curl ") and "/v1/completions " in line for line in reading)
    for line in reading:
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0 and done.stdout, (line, done.stderr)
    subprocess.run(stop, shell=True, check=True, timeout=60)
    wait_until(lambda: not alive(run.temporary), 60, f"all end: {alive(run.temporary)}")
    run.assert_nothing_left()
