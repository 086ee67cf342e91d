"""Faults under load, in short form: one of each kind, with checks after each; and proof that the checks find what is wrong."""

import os
import random
import signal
import subprocess
import sys
import types

import pytest
from folio_chaos import checks, journals
from folio_chaos.bounds import CALL_ENDS, NEXT_TOKEN
from folio_chaos.cases import make_case
from folio_chaos.clients import Answer
from folio_chaos.faults import KINDS, plan
from folio_chaos.faults.fault import Fault
from folio_chaos.merge import merge
from folio_chaos.report import markdown, save, summary
from folio_chaos.run import Place, World, run
from folio_chaos.stalls import BUSY, STALL, running, running_of, why_repeated
from node import PATIENCE, wait_until

SEED = 16
PLAIN = make_case("plain", "full", [3, 4, 5], 4)
COMPACTED = make_case("compacted", "paged_eviction", list(range(3, 100)), 4, budget=64)
REPORTED = make_case("reported", "paged_eviction", [3, 4, 5], 4, budget=64, report_evictions=True)
RIGHT = [7, 8, 9, 10]
NODE = object()
PLACE = Place(NODE, "one", "one")
ENDED = "lost; not resumed: sequence 5 is not open: it ended"
BEHIND = "lost; then: resume.received_tokens[2] is 9, the sequence has 8 there"
OTHERS = "lost; then: resume_token: is not the one that sequence 5 was opened with"


@pytest.mark.skipif(not os.environ.get("FOLIO_CHAOS"), reason="FOLIO_CHAOS is not set")
def test_one_fault_of_each_kind(tmp_path):
    world = run(SEED, plan(SEED, len(KINDS)), logs=tmp_path)
    assert not world.wrong, f"seed {SEED}, logs in {tmp_path}: " + "\n".join(one.words for one in world.wrong)
    said = summary(world, 1)
    assert set(said["faults_by_kind"]) == {kind.kind for kind in KINDS}
    assert said["answers_right"] > len(KINDS) * len(world.places) and said["pages_leaked"] == 0
    assert said["sequences_claimed"] and said["workers_started_again"] >= 5 and said["managers_started_again"] >= 8
    assert said["ended_data_loss_by_poison"] == 1
    assert f"| seed | {SEED} |" in markdown(said)


class SilentKill(Fault):
    """SIGKILL of a worker of which the checks know nothing."""

    kind = "silent kill"

    def inject(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.popen.wait(60)


def test_the_checks_find_a_lost_worker_and_wrong_answers(monkeypatch):
    make_clients = World.make_clients

    # Every request has one, because few answers fit into a short fault and nobody knows which requests they belong to.
    def with_wrong_answers(world):
        for answers in world.expected.values():
            for tokens in answers.values():
                tokens[-1] += 1
        return make_clients(world)

    monkeypatch.setattr(World, "make_clients", with_wrong_answers)
    world = run(SEED, [(SilentKill, random.Random(SEED))])
    wrong = "\n".join(one.words for one in world.wrong)
    assert "differs from the calm answer's" in wrong
    assert "ended with -9" in wrong and "were fenced, which nothing explains" in wrong


def fault(**changed):
    given = {"node": NODE, "worker": "one"}
    flags = {name: False for name in ("loses_sessions", "awaits_reports", "loses_sequences", "damages_journal", "cuts_clients")}
    return types.SimpleNamespace(**{**given, **flags, **changed})


def judged(case=PLAIN, tokens=RIGHT, status="OK", words="", during=None, **times):
    answer = Answer("a client", case, status, words, list(tokens), **times)
    return checks.judge(answer, RIGHT, during or fault(), PLACE)


def test_a_right_answer_is_right():
    assert judged() == (None, None)


@pytest.mark.parametrize(
    "given, words, grave",
    [
        ({"tokens": [7, 8, 1, 10]}, "token 2 of 4 differs", True),
        ({"tokens": [*RIGHT, 11]}, "token 4 of 4 differs", True),
        ({"tokens": RIGHT[:3]}, "ended after 3 tokens of 4", True),
        ({"tokens": [1], "status": "UNAVAILABLE", "words": ENDED, "during": fault(loses_sessions=True)}, "differs", True),
        ({"tokens": [], "status": "DATA_LOSS"}, "DATA_LOSS", True),
        ({"seconds": CALL_ENDS + 1}, "the call took", False),
        ({"longest_wait": NEXT_TOKEN + 1}, "for a token", False),
        ({"tokens": [], "status": "UNAVAILABLE", "words": ENDED}, "UNAVAILABLE after 0 tokens", False),
        ({"tokens": [], "status": "DEADLINE_EXCEEDED", "during": fault(loses_sessions=True)}, "DEADLINE_EXCEEDED", False),
        ({"tokens": [], "status": "INVALID_ARGUMENT", "words": BEHIND, "during": fault(damages_journal=True)}, "INVALID_ARGUMENT", True),
        ({"tokens": [], "status": "PERMISSION_DENIED", "words": OTHERS, "during": fault(damages_journal=True)}, "PERMISSION_DENIED", True),
    ],
)
def test_a_wrong_answer_is_found(given, words, grave):
    reason, wrong = judged(**given)
    assert reason is None and words in wrong.words and wrong.grave == grave


@pytest.mark.parametrize(
    "given, allowed",
    [
        ({"case": REPORTED, "during": fault(loses_sessions=True)}, checks.REPORTS),
        ({"case": REPORTED, "during": fault(loses_sessions=True, node=None)}, None),
        ({"case": COMPACTED, "during": fault(loses_sessions=True)}, None),
        ({"case": PLAIN, "during": fault(loses_sessions=True)}, None),
        ({"case": REPORTED, "during": fault(loses_sessions=True, awaits_reports=True)}, None),
        ({"case": PLAIN, "during": fault(loses_sequences=True)}, checks.MANAGER),
        ({"case": PLAIN, "during": fault(loses_sequences=True), "words": "no worker is there"}, None),
        ({"case": PLAIN, "during": fault(loses_sequences=True, node=None)}, None),
        ({"case": PLAIN, "during": fault(loses_sequences=True), "status": "PERMISSION_DENIED", "words": OTHERS}, checks.MANAGER),
        ({"case": PLAIN, "during": fault(damages_journal=True)}, checks.DAMAGED),
        ({"case": PLAIN, "during": fault(damages_journal=True), "words": OTHERS}, None),
        ({"case": PLAIN, "during": fault(damages_journal=True, node=None)}, None),
        ({"case": PLAIN, "during": fault(cuts_clients=True)}, checks.CUT),
        ({"case": PLAIN, "during": fault(cuts_clients=True, worker="two")}, None),
    ],
)
def test_ends_without_an_answer(given, allowed):
    reason, wrong = judged(**{"status": "UNAVAILABLE", "words": ENDED, "tokens": [], **given})
    assert reason == allowed and (wrong is None) == (allowed is not None)


def test_a_machine_that_is_busy_is_seen():
    assert why_repeated(STALL / 2, BUSY / 2) is None
    assert "stood still" in why_repeated(2 * STALL, 0) and "others had" in why_repeated(0, 2 * BUSY)
    spin = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    with subprocess.Popen(spin, stdout=subprocess.PIPE, start_new_session=True) as busy:
        try:
            busy.stdout.readline()
            wait_until(lambda: running_of(busy.pid) == 1 and running() >= 1, PATIENCE, "the process is seen to run")
        finally:
            busy.kill()


def record(seed, **changed):
    """What a run of two faults would say."""
    kinds = {"kill manager": {"count": 1, "answers": 40, "ended_early": 1, "longest_seconds": 3.5},
             f"only in {seed}": {"count": 1, "answers": 20, "ended_early": 0, "longest_seconds": 2.0}}  # fmt: skip
    nodes = [{"name": "one", "workers": 1, "ranks_of_each": 1, "clients": 8, "pool": "4MiB", "swap": None}]
    numbers = ("answers_wrong_or_late", "ended_data_loss_by_poison", "sequences_claimed", "sequences_parked", "of_them_swapped_out",
               "and_swapped_in", "managers_started_again", "workers_started_again", "pages_leaked")  # fmt: skip
    given = {"date": "2026-11-28", "machine": "AMD EPYC, 2 cores", "commit": "abc", "seed": seed, "nodes": nodes, "faults": 2,
             "faults_by_kind": kinds, "seconds": 70, "rounds_repeated_because_the_machine_stood_still": 0, "answers_right": 60,
             "tokens_compared": 1000, "ended_early": {checks.REPORTS: 1}, "longest_wait_for_a_token_seconds": 1.5 + seed,
             "bound_of_that_wait_seconds": 60, "longest_quarantine_seconds": 4.0, "bound_of_quarantine_seconds": 8,
             "wrong": []}  # fmt: skip
    return {**dict.fromkeys(numbers, 3), **given, **changed}


def test_records_become_one(tmp_path):
    said = merge([record(1), record(2, date="2026-11-29", commit="def"), record(3, wrong=["a page"])])
    assert (said["records"], said["faults"], said["answers_right"], said["seconds"], said["pages_leaked"]) == (3, 6, 180, 210, 9)
    assert said["faults_by_kind"]["kill manager"] == {"count": 3, "answers": 120, "ended_early": 3, "longest_seconds": 3.5}
    assert said["faults_by_kind"]["only in 2"]["count"] == 1 and said["ended_early"] == {checks.REPORTS: 3}
    assert (said["commit"], said["seed"], said["date"]) == ("abc; def", "1, 2, 3", "2026-11-29")
    assert said["longest_wait_for_a_token_seconds"] == 4.5 and said["wrong"] == ["a page"]
    assert "of 3 records" in markdown(said) and "| faults | 6 |" in markdown(said)
    assert save(said, tmp_path).with_suffix(".md").exists() and save(record(7), tmp_path).name.endswith("-seed-7")


@pytest.mark.parametrize("second, words", [(record(1), "one seed"), (record(2, bound_of_quarantine_seconds=9), "bound_of_quarantine")])
def test_records_that_are_no_parts_of_one(second, words):
    with pytest.raises(SystemExit, match=words):
        merge([record(1), second])


def frame(entry):
    return len(entry).to_bytes(4, "little") + bytes(8) + entry


@pytest.mark.parametrize("seed", range(20))
def test_a_journal_is_damaged_at_its_end(tmp_path, seed):
    path, chance = tmp_path / "journal-1", random.Random(seed)
    parts = [frame(b"header"), frame(b"first entry"), frame(journals.WHOLE), frame(b"the last one")]
    whole = b"".join(parts)

    def after(damage):
        path.write_bytes(whole)
        damage(path, chance)
        return path.read_bytes()

    torn = after(journals.tear)
    assert torn.startswith(whole) and 0 < len(torn) - len(whole) < len(parts[-1]), f"seed {seed}"
    short = after(journals.cut)
    assert whole.startswith(short) and len(whole) - len(parts[-1]) < len(short) < len(whole), f"seed {seed}"
    flipped = after(journals.flip)
    assert [bin(one ^ other).count("1") for one, other in zip(flipped, whole, strict=True) if one != other] == [1], f"seed {seed}"
    assert flipped.startswith(parts[0]), f"seed {seed}"


def test_a_journal_is_whole_when_it_says_so(tmp_path):
    path = tmp_path / "journal-1"
    path.write_bytes(frame(b"header") + frame(journals.WHOLE)[:-1])
    assert not journals.is_whole(path)
    path.write_bytes(frame(b"header") + frame(journals.WHOLE) + b"torn")
    assert journals.is_whole(path)
