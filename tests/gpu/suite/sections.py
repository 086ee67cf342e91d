"""One part of a run: a command or a function with a time limit, and what came of it."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import time
import typing

PASS, FAIL, SKIPPED, NOT_RUN = "pass", "fail", "skipped", "not run"
NO_GPU = 77  # exit code of our programs where they find none; there is one, or nothing would be run
PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?", re.M)
NOT_SERVED = re.compile(r"^\[  SKIPPED \] (\d+) tests?", re.M)
FAILED = re.compile(r"^\[  FAILED  \] ([A-Z][^\s,]*)", re.M)
TOTAL = re.compile(r"^\[==========\] Running (\d+) tests?", re.M)
BEGUN = re.compile(r"^\[ RUN      \] (\S+)", re.M)
ENDED = re.compile(r"^\[(?:       OK|  FAILED|  SKIPPED) \] \S+ \(\d+ ms\)", re.M)
# What compute-sanitizer has found so far, also where it never came to its summary.
FOUND = re.compile(r"^========= (?!COMPUTE-SANITIZER|(?:ERROR|LEAK|RACECHECK) SUMMARY)(\S.*)$", re.M)
SILENT = 60  # seconds without a word after which a benchmark counts as hung


@dataclasses.dataclass
class Outcome:
    state: str
    detail: str = ""
    records: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Section:
    name: str
    kind: str  # "correctness", "speed" or "peer"
    limit: float  # seconds at most
    # Gets the seconds that are left for it, gives an Outcome.
    run: typing.Callable[[float], Outcome]
    least: float = 5  # seconds that it makes sense with


@dataclasses.dataclass
class Done:
    """A command's end."""

    code: typing.Optional[int]  # None: it was stopped
    text: str
    seconds: float
    silent: float = 0  # seconds since its last output


def execute(command, environment, seconds, log):
    """Runs a command with its output in `log`; what it started is ended with it."""
    start = time.monotonic()
    with open(log, "w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    silent = max(0, time.time() - os.path.getmtime(log))
    with open(log, errors="replace") as read:
        return Done(code, read.read(), time.monotonic() - start, silent)


def last_words(text, lines=3):
    return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])[:400]


def judge_tests(done, seconds):
    """Of a GoogleTest program."""
    if done.code is None:
        return Outcome(FAIL, f"stopped after {seconds:.0f} s; last said: {last_words(done.text, 1)}")
    if done.code == NO_GPU:
        return Outcome(NOT_RUN, last_words(done.text, 1))
    if done.code == 127 and "error" in done.text:
        return Outcome(NOT_RUN, last_words(done.text, 1))
    if done.code != 0:
        named = list(dict.fromkeys(FAILED.findall(done.text)))
        words = f"failed: {', '.join(named[:6])}" if named else f"exit code {done.code}: {last_words(done.text)}"
        return Outcome(FAIL, words)
    passed, skipped = PASSED.search(done.text), NOT_SERVED.search(done.text)
    beside = f", {skipped[1]} skipped" if skipped else ""
    if passed and passed[1] != "0":
        return Outcome(PASS, f"{passed[1]} tests{beside}")
    if skipped:
        why = re.search(r"^(?:.*Skipped\n)(.*)$", done.text, re.M)
        return Outcome(SKIPPED, f"{skipped[1]} tests: {why[1].strip() if why else 'skipped'}")
    return Outcome(FAIL, "the program ran no test")


def judge_sanitizer(done, seconds):
    """Of compute-sanitizer around such a program."""
    # The second where it does not get along with the driver: whether the program is right, `kernels` says.
    if "Device not supported" in done.text or "terminated before first instrumented API call" in done.text:
        return Outcome(SKIPPED, "compute-sanitizer does not serve this device or machine")
    errors = re.search(r"ERROR SUMMARY: (\d+)|RACECHECK SUMMARY: (\d+) hazards?", done.text)
    found = FOUND.search(done.text)
    if (errors and (errors[1] or errors[2]) != "0") or (found and not errors):
        words = f"{errors[0]}; " if errors else ""
        return Outcome(FAIL, f"{words}first: {found[1][:300]}" if found else words.rstrip("; "))
    if done.code is None:
        return Outcome(NOT_RUN, f"stopped after {seconds:.0f} s without an error, and not done: {progress(done.text)}")
    outcome = judge_tests(done, seconds)
    if outcome.state == PASS:
        return Outcome(PASS, f"{outcome.detail}, 0 errors") if errors else Outcome(FAIL, "compute-sanitizer gave no summary")
    return outcome


def progress(text):
    """How far a GoogleTest program has come."""
    total, begun = TOTAL.search(text), BEGUN.findall(text)
    words = f"{len(ENDED.findall(text))} of {total[1] if total else 'its'} tests have ended"
    return f"{words}, the last one begun is {begun[-1]}" if begun else words


def read_records(text):
    """JSON objects, one a line; other lines are words."""
    records = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                records.append(json.loads(line))
            except ValueError:
                pass  # cut off in the middle
    return records


def judge_benchmark(done, seconds):
    """Of a program that prints a record per line as it goes: what it had printed counts."""
    records = read_records(done.text)
    if done.code == NO_GPU:
        return Outcome(NOT_RUN, last_words(done.text, 1))
    if done.code == 127 and "error" in done.text:
        return Outcome(NOT_RUN, last_words(done.text, 1))
    broken = [one for one in records if one.get("state") == "failed"]
    beside = left_out(records)
    if done.code is None:
        words = f"stopped after {seconds:.0f} s with {len(records)} records"
        if done.silent > SILENT:
            return Outcome(FAIL, f"{words}; it had said nothing for {done.silent:.0f} s", records)
        # Which cells are measured is a matter of time. Those that are there count.
        if not broken and any(one.get("state") == "measured" for one in records):
            return Outcome(PASS, f"{words}; the others are left out{beside}", records)
        return Outcome(FAIL, words, records)
    if done.code != 0:
        return Outcome(FAIL, f"exit code {done.code}: {last_words(done.text)}", records)
    if broken:
        return Outcome(FAIL, f"{len(broken)} of {len(records)} records failed, first: {broken[0]['detail']}", records)
    if not records:
        return Outcome(FAIL, "the program printed no record")
    return Outcome(PASS, f"{len(records)} records{beside}", records)


def left_out(records, most=6):
    """Words for the cells that there was no time for, or none."""
    cells = [name_of(one) for one in records if one.get("state") == NOT_RUN]
    if not cells:
        return ""
    more = f" and {len(cells) - most} more (results.json has all)" if len(cells) > most else ""
    return f"; for lack of time without {', '.join(cells[:most])}{more}"


def name_of(record):
    """A cell in words, such as: decode 1B 64 x 8192, budget 1024."""
    words = f"{record['record']} {record.get('model', '')}"
    if "batch" in record:
        words += f" {record['batch']} x {record['context']}"
    if "budget" in record:
        words += f", {'full' if record['budget'] == 0 else 'budget ' + str(record['budget'])}"
    return words


def run_all(sections, seconds, say=print):
    """[{name, kind, state, detail, seconds, limit}], and the records by section. One that breaks loses no other."""
    end = time.monotonic() + seconds
    results, records = [], {}
    for section in sections:
        start = time.monotonic()
        limit = min(section.limit, end - start)
        if limit < section.least:
            outcome = Outcome(NOT_RUN, "the time was up")
        else:
            say(f"[gpu] {section.name} (at most {limit:.0f} s)")
            try:
                outcome = section.run(limit)
            except Exception as error:  # noqa: BLE001: whatever it is, the others go on
                outcome = Outcome(FAIL, f"{type(error).__name__}: {error}"[:400])
        took = time.monotonic() - start
        say(f"[gpu] {section.name}: {outcome.state} in {took:.1f} s{'; ' + outcome.detail if outcome.detail else ''}")
        results.append({
            "name": section.name, "kind": section.kind, "state": outcome.state, "detail": outcome.detail,
            "seconds": round(took, 1), "limit": round(section.limit),
        })  # fmt: skip
        records[section.name] = outcome.records
    return results, records


def not_run(sections, why):
    """The same where nothing could be run."""
    return [
        {"name": one.name, "kind": one.kind, "state": NOT_RUN, "detail": why, "seconds": 0, "limit": round(one.limit)}
        for one in sections
    ]
