"""Runs: what is done is not done again, one failure costs one cell, an interruption loses nothing that was written."""

import argparse
import io
import json
import threading

import pytest
from folio_eval import cli, runner
from folio_eval.asking import Outcome
from folio_eval.cells import Cell, Setting, grid, parse_budget
from folio_eval.progress import Progress
from folio_eval.store import ResultsError, Store, gather, read_lines

TASKS = ["needle_prose", "needle_4:blind"]


def cells(budgets=(64, 0.5), seeds=(0,)):
    return grid(TASKS, ["full", "paged_eviction"], budgets, [1024], seeds)


class Answers:
    """Answers every question with its prompt's number; `fails` says which cells raise."""

    def __init__(self, fails=lambda cell, index: False):
        self.asked, self.fails, self._lock = [], fails, threading.Lock()

    def __call__(self, cell, index, report):
        with self._lock:
            self.asked.append((cell, index))
        if self.fails(cell, index):
            raise RuntimeError("no room in the pool")
        return Outcome({"score": float(index % 2), "nll": float(index)}, {"prefill": 0.5}, ["09"] if report else None)


def go(path, ask, prompts=3, wanted=None, jobs=3, **more):
    store, said = Store(path), io.StringIO()
    todo = runner.plan(wanted or cells(), prompts, store)
    run = runner.Run(ask, store, Progress(100, said), jobs, **more)
    run(todo)
    return run, said.getvalue()


def without_times(path):
    """The file's lines in the order of their text, without how long each cell took."""
    return sorted(json.dumps(line | {"seconds": None}) for line in read_lines(path))


def test_every_cell_is_asked_once_and_written_down(tmp_path):
    ask, path = Answers(), tmp_path / "results.jsonl"
    go(path, ask, mapped=["needle_prose"])
    assert len(ask.asked) == len(set(ask.asked)) == 3 * len(cells())
    lines = read_lines(path)
    assert len(lines) == len(cells()) == 6
    for line in lines:
        assert line["measures"] == {"score": [0, 1, 0], "nll": [0, 1, 2]} and line["seconds"]["prefill"] == 1.5
        assert ("kept" in line) == (line["task"] == "needle_prose")


def test_what_is_done_is_not_done_again(tmp_path):
    path = tmp_path / "results.jsonl"
    go(path, Answers())
    again = Answers()
    go(path, again)
    assert again.asked == []
    more = Answers()
    go(path, more, prompts=5)
    assert {index for _, index in more.asked} == {3, 4} and len(more.asked) == 2 * len(cells())
    values = gather(read_lines(path))[cells()[0]]
    assert values["nll"] == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}


def test_a_torn_last_line_is_done_again(tmp_path):
    path = tmp_path / "results.jsonl"
    go(path, Answers(), jobs=1)
    text = path.read_text()
    lines = without_times(path)
    path.write_text(text[:-40])
    again = Answers()
    go(path, again)
    assert {cell for cell, _ in again.asked} == {cells()[-1]}
    assert without_times(path) == lines


def test_a_damaged_line_inside_is_said(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"task": \n{}\n')
    with pytest.raises(ResultsError, match="line 1"):
        Store(path)


@pytest.mark.parametrize("jobs", [1, 4])
def test_one_failing_cell_loses_only_itself(tmp_path, jobs):
    path, bad = tmp_path / "results.jsonl", cells()[1]
    run, said = go(path, Answers(lambda cell, index: cell == bad and index == 1), jobs=jobs)
    assert list(run.failed) == [bad] and "no room in the pool" in said and said.count("FAILED") == 1
    lines = read_lines(path)
    errors = [line for line in lines if "error" in line]
    assert len(lines) == 6 and len(errors) == 1 and "prompt 1" in errors[0]["error"]
    again = Answers()
    go(path, again)
    assert {cell for cell, _ in again.asked} == {bad}, "the next run tries it again, and nothing else"


def test_dead_daemons_end_the_run(tmp_path):
    def check():
        raise OSError("folio-worker ended")

    stopped = []
    with pytest.raises(OSError, match="folio-worker ended"):
        go(tmp_path / "results.jsonl", Answers(lambda *_: True), check=check, stop=lambda: stopped.append(1))
    assert stopped == [1] and not (tmp_path / "results.jsonl").exists()


def test_an_interruption_keeps_whole_cells(tmp_path):
    path = tmp_path / "results.jsonl"
    last = cells()[3]

    class Interrupted(Progress):
        def advance(self, work, words):
            if words == str(last):
                raise KeyboardInterrupt

    store = Store(path)
    run = runner.Run(Answers(), store, Interrupted(1, io.StringIO()), 1)
    with pytest.raises(KeyboardInterrupt):
        run(runner.plan(cells(), 3, store))
    assert [gather([line]).popitem()[0] for line in read_lines(path)] == cells()[:3]
    again = Answers()
    go(path, again)
    assert {cell for cell, _ in again.asked} == set(cells()[3:])


def test_what_must_run_alone_runs_alone(tmp_path):
    running, most, lock = set(), {}, threading.Lock()

    def ask(cell, index, report):
        with lock:
            running.add((cell, index))
            most[cell.task] = max(most.get(cell.task, 0), len(running))
        threading.Event().wait(0.02)
        with lock:
            running.discard((cell, index))
        return Outcome({"score": 1.0})

    go(tmp_path / "results.jsonl", ask, wanted=grid(["decode_speed", "needle_4"], ["full"], [], [1024], [0]), jobs=3)
    assert most["decode_speed"] == 1 < most["needle_4"]


def test_records_without_a_seed_belong_to_the_first(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps({"input": str(at), "outputs": ["1"]}) + "\n" for at in range(7)))
    wanted = grid([f"ruler:{path}"], ["full"], [], [1024], [5, 6])
    store = Store(tmp_path / "results.jsonl")
    assert [(cell.seed, state.count) for cell, state in runner.plan(wanted, 3, store).items()] == [(5, 6)]
    assert [(cell.seed, state.count) for cell, state in runner.plan(wanted, 9, store).items()] == [(5, 7)]


def test_prompts_of_a_cell_may_measure_different_things(tmp_path):
    path, wanted = tmp_path / "results.jsonl", cells()[:1]
    go(path, lambda cell, index, report: Outcome({"score": 1.0, "acc_norm": 0.5} if index else {"score": 0.0}), wanted=wanted)
    assert read_lines(path)[0]["measures"] == {"score": [0.0, 1.0, 1.0], "acc_norm": [None, 0.5, 0.5]}
    assert gather(read_lines(path))[wanted[0]]["acc_norm"] == {1: 0.5, 2: 0.5}


def test_the_grid():
    full = [cell for cell in cells() if cell.setting.policy == "full"]
    assert len(full) == 2 and {cell.setting for cell in full} == {Setting("full")}
    assert {cell.setting.budget for cell in cells()} == {None, 64, 0.5}
    assert grid(["a"], ["kv_crush:paged_eviction", "kv_crush"], [64], [1024], [0]) == [
        Cell("a", 1024, Setting("kv_crush:paged_eviction", 64), 0)
    ]
    with pytest.raises(ValueError, match="needs a budget"):
        grid(["a"], ["random"], [], [1024], [0])


def test_compactions_are_settings(tmp_path):
    wanted = grid(["a"], ["full", "key_diff"], [64], [1024], [0], compaction=["whole", "streamed", "streamed:128"])
    settings = [cell.setting for cell in wanted]
    assert [one.series for one in settings] == ["full", "key_diff, whole", "key_diff, streamed", "key_diff, streamed:128"]
    asked = [(one.arguments(0)["compaction"], one.arguments(0)["compaction_stride"]) for one in settings]
    assert asked == [(None, None), ("whole", None), ("streamed", None), ("streamed", 128)]
    assert all({"compaction", "compaction_stride"} <= set(one.arguments(0)) for one in settings)
    wanted = grid(["needle_4"], ["key_diff"], [64], [1024], [0], compaction=["whole", "streamed:128"])
    go(tmp_path / "results.jsonl", Answers(), wanted=wanted)
    assert set(gather(read_lines(tmp_path / "results.jsonl"))) == set(wanted), "the file tells them apart"


def test_random_draws_anew_for_each_prompt():
    setting = Setting("random", 64)
    assert setting.arguments(1)["policy"] != setting.arguments(2)["policy"]
    assert Setting("random:seed=5", 64).arguments(1) == Setting("random:seed=5", 64).arguments(2)


def test_the_command_line_reads_lists():
    options = cli.parser().parse_args(
        "run --tasks needle_4,needle_4:blind --policies full,kv_crush:snap_kv,window=32,share=0.5,random --budgets "
        "256,0.25 --seeds 100-102 --out x --recent 16,64".split()
    )
    assert options.tasks == ["needle_4", "needle_4:blind"]
    assert options.policies == ["full", "kv_crush:snap_kv,window=32,share=0.5", "random"]
    assert options.budgets == [256, 0.25] and options.seeds == [100, 101, 102] and options.recent == [16, 64]
    assert options.compaction == [None] and cli.compactions("whole,streamed:96") == ["whole", "streamed:96"]
    assert cli.seeds("3") == [0, 1, 2]
    for wrong in ("0", "1.5", "-3", "x"):
        with pytest.raises(ValueError, match="budget"):
            parse_budget(wrong)


def test_a_parameter_belongs_to_the_policy_before_it():
    text = "query_diff:share=0.5,window=16,pool=31,snap_kv:window=64,pool=7,query_diff,kv_crush:snap_kv,pool=3,share=0.5"
    assert cli.policies(text) == [
        "query_diff:share=0.5,window=16,pool=31", "snap_kv:window=64,pool=7", "query_diff", "kv_crush:snap_kv,pool=3,share=0.5"
    ]  # fmt: skip
    with pytest.raises(argparse.ArgumentTypeError, match="pool must be odd"):
        cli.policies("query_diff:pool=30")


@pytest.mark.parametrize("flag, value", [("--policies", "fulll"), ("--budgets", "many"), ("--seeds", "a-b"), ("--compaction", "streamed:0")])
def test_the_command_line_refuses_by_name(capsys, flag, value):
    with pytest.raises(SystemExit):
        cli.parser().parse_args(["run", "--tasks", "needle_4", "--policies", "full", "--out", "x", flag, value])
    assert flag in capsys.readouterr().err


def test_time_left_is_said_now_and_then():
    now, said = [0.0], io.StringIO()
    progress = Progress(1000, said, clock=lambda: now[0])
    for _ in range(500):
        now[0] += 1
        progress.advance(1, "cell")
    lines = said.getvalue().splitlines()
    assert 10 <= len(lines) <= 17, "every 30 s of 500"
    assert "50%" in progress._line("") and "500 s" not in lines[-1] and "8 min left" in progress._line("")


def test_results_are_plain_json(tmp_path):
    path = tmp_path / "results.jsonl"
    go(path, Answers())
    line = json.loads(path.read_text().splitlines()[0])
    assert list(line)[:3] == ["task", "length", "policy"] and "sink" not in line
