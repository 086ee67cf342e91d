"""tests/gpu/run.sh where there is no GPU, and its sections over programs that are scripts."""

import json
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from suite import __main__ as command
from suite import facts, places, plan, sections

HERE = pathlib.Path(__file__).parent
NO_GPU = facts.gather()["device"] is None
without_gpu = pytest.mark.skipif(not NO_GPU, reason="there is a GPU here: run tests/gpu/run.sh")


def run(*arguments, script=HERE / "run.sh"):
    return subprocess.run([script, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@without_gpu
def test_without_a_gpu_it_says_so(tmp_path):
    done = run("--out", tmp_path / "out")
    assert done.returncode == 77, done.stderr
    assert "no GPU" in done.stdout and "nothing was run" in done.stdout
    results = json.loads((tmp_path / "out/results.json").read_text())
    assert results["device"] is None and results["why"]
    assert len(results["sections"]) > 8 and {one["state"] for one in results["sections"]} == {"not run"}
    page = (tmp_path / "out/results.md").read_text()
    assert results["why"] in page and page.count("not run") > 150


@without_gpu
def test_a_bundle_runs_from_inside_itself(tmp_path):
    bundle = tmp_path / "bundle"
    shutil.copytree(HERE / "suite", bundle / "suite", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "run.sh", bundle)
    (bundle / "bundle.txt").write_text("commit abc1234\n")
    done = run("--out", tmp_path / "out", script=bundle / "run.sh")
    assert done.returncode == 77, done.stderr
    assert json.loads((tmp_path / "out/results.json").read_text())["commit"] == "abc1234"
    assert run("--bundle", bundle, f"--out={tmp_path}/other").returncode == 77


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--bundle", "/nowhere"], "/nowhere is no bundle"),
        (["--out"], "--out wants a folder"),
        pytest.param(["--only", "kernels,speeed"], "there is no section speeed", marks=without_gpu),
        pytest.param(["--model", "/nowhere.gguf"], "--model /nowhere.gguf does not exist", marks=without_gpu),
        pytest.param(["--fast"], "unrecognized arguments: --fast", marks=without_gpu),
    ],
)
def test_bad_arguments(tmp_path, arguments, words):
    done = run("--out", tmp_path, *arguments)
    assert done.returncode in {1, 2} and words in done.stderr, done.stderr


class Machine:
    """A folder of programs, and a suite over them."""

    def __init__(self, path):
        self.path, self.bin = path, path / "bin"
        self.bin.mkdir()
        (path / "logs").mkdir()
        self.suite = plan.Suite(places.Places(self.bin, environment={"PATH": "/usr/bin:/bin"}), path)

    def program(self, name, body):
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)

    def outcome(self, name, seconds=5):
        (section,) = [one for one in self.suite.sections() + self.suite.sanitizers() if one.name == name]
        return section.run(seconds)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize(
    "body, state, words",
    [
        ("echo '[  PASSED  ] 12 tests.'", "pass", "12 tests"),
        ("echo '[  PASSED  ] 0 tests.'", "fail", "ran no test"),
        ("echo '[  PASSED  ] 2 tests.'; echo '[  SKIPPED ] 3 tests, listed below:'", "pass", "2 tests, 3 skipped"),
        ("echo 'x.cc:7: Skipped'; echo 'needs 2 GPUs'; echo '[  PASSED  ] 0 tests.'; echo '[  SKIPPED ] 3 tests, l'",
         "skipped", "3 tests: needs 2 GPUs"),
        ("echo '[  FAILED  ] Rows.Wrong (3 ms)'; exit 1", "fail", "failed: Rows.Wrong"),
        ("echo no GPU here; exit 77", "not run", "no GPU here"),
        ("echo illegal memory access; exit 134", "fail", "exit code 134: illegal memory access"),
        ("echo 'p: symbol lookup error: undefined symbol: ncclX'; exit 127", "not run", "undefined symbol: ncclX"),
    ],
)
def test_what_a_test_program_says(machine, body, state, words):
    machine.program("gpu_kernels_test", body)
    outcome = machine.outcome("kernels")
    assert outcome.state == state and words in outcome.detail


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_program_that_hangs_is_stopped_with_what_it_started(machine):
    machine.program("gpu_kernels_test", f"echo begun; sleep 60 & echo $! >{machine.path}/child; wait")
    start = time.monotonic()
    outcome = machine.outcome("kernels", seconds=0.5)
    assert outcome.state == "fail" and "stopped after 0 s; last said: begun" in outcome.detail
    assert time.monotonic() - start < 5
    child = int((machine.path / "child").read_text())
    while alive(child):
        assert time.monotonic() - start < 30
        time.sleep(0.05)


def test_what_is_lacking_is_named(machine):
    assert "gpu_kernels_test was not built" in machine.outcome("kernels").detail
    machine.program("gpu_oracle_test", "echo '[  PASSED  ] 3 tests.'")
    outcome = machine.outcome("oracle")
    assert outcome.state == "skipped" and "give --model=FILE" in outcome.detail
    words = places.Places.explain("folio-worker", ["libcublasLt.so.13", "libnccl.so.2", "libother.so.1"])
    assert words == ("folio-worker wants libcublasLt.so.13 (CUDA's cuBLAS), libnccl.so.2 (NCCL), libother.so.1: "
                     "install it, or name its folder in LD_LIBRARY_PATH")  # fmt: skip


def test_the_pinned_tool_is_the_last_choice(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    environment = {"CUDA_HOME": str(tmp_path / "cuda"), "FOLIO_CUDA_TOOLS": str(tmp_path / "pinned")}
    for root in ("pinned", "cuda"):
        tool = tmp_path / root / "compute-sanitizer/some-tool"
        tool.parent.mkdir(parents=True)
        tool.touch(mode=0o755)
        assert places.find_tool("some-tool", environment) == str(tool)
    assert places.find_tool("some-tool", {}) is None


def test_missing_libraries_are_found_where_cuda_has_them(machine, monkeypatch):
    """ldd is a script that misses a library until its folder is in LD_LIBRARY_PATH."""
    folder = machine.path / "cuda/lib64"
    folder.mkdir(parents=True)
    machine.program("tool", "true")
    machine.program("ldd", f'case ":$LD_LIBRARY_PATH:" in *:{folder}:*) ;; *) echo "  libcublasLt.so.13 => not found" ;; esac')
    monkeypatch.setenv("PATH", str(machine.bin), prepend=":")
    found = places.Places(machine.bin, environment={"CUDA_HOME": str(machine.path / "cuda")})
    assert "libcublasLt.so.13 (CUDA's cuBLAS)" in found.why_not("tool")
    (folder / "libcublasLt.so.13").touch()
    assert found.why_not("tool") is None
    assert found.environment()["LD_LIBRARY_PATH"] == str(folder)


@pytest.mark.parametrize(
    "body, state, words",
    [
        ("echo '========= ERROR SUMMARY: 0 errors'; echo '[  PASSED  ] 2 tests.'", "pass", "2 tests, 0 errors"),
        ("echo '========= ERROR SUMMARY: 3 errors'; echo '[  PASSED  ] 2 tests.'; exit 99", "fail", "ERROR SUMMARY: 3"),
        ("echo '========= Warning: Race reported in x.cuh:73'; echo '[  PASSED  ] 2 tests.'; "
         "echo '========= RACECHECK SUMMARY: 4 hazards displayed (0 errors, 4 warnings)'", "fail",
         "RACECHECK SUMMARY: 4 hazards; first: Warning: Race reported in x.cuh:73"),
        ("echo '[  PASSED  ] 2 tests.'", "fail", "gave no summary"),
        ("echo '========= COMPUTE-SANITIZER'; echo '[==========] Running 83 tests from 9 test suites.'; "
         "echo '[ RUN      ] A.B'; echo '[       OK ] A.B (7 ms)'; echo '[ RUN      ] A.C'; sleep 30", "not run",
         "without an error, and not done: 1 of 83 tests have ended, the last one begun is A.C"),
        ("echo '========= COMPUTE-SANITIZER'; echo '========= Invalid __global__ read of size 4 bytes'; sleep 30", "fail",
         "first: Invalid __global__ read"),
        ("echo 'Device not supported'; exit 1", "skipped", "does not serve"),
        ("echo 'Error: Target application terminated before first instrumented API call'; exit 255", "skipped", "not serve"),
    ],
)
def test_what_the_sanitizer_says(machine, monkeypatch, body, state, words):
    machine.program("gpu_kernels_test", "true")
    monkeypatch.setattr(plan, "find_tool", lambda *_: None)
    assert machine.outcome("memcheck").state == "skipped"
    machine.program("compute-sanitizer", body)
    monkeypatch.setattr(plan, "find_tool", lambda name, _: str(machine.bin / name))
    outcome = machine.outcome("memcheck", seconds=1)
    assert outcome.state == state and words in outcome.detail


def test_each_tool_has_all_kernels_and_a_time_of_its_own(machine, monkeypatch):
    tools = machine.suite.sanitizers()
    seconds = command.arguments(["--bin", ".", "--out", "."]).seconds
    assert sum(one.limit for one in tools) <= seconds, "one could take another's time"
    assert {one.name.split("_")[0] for one in tools} == {"memcheck", "racecheck", "synccheck", "initcheck"}
    monkeypatch.setattr(plan, "find_tool", lambda name, _: str(machine.bin / name))
    machine.program("compute-sanitizer", f'echo "$@" >>{machine.path}/said')
    for one in tools:
        machine.program("gpu_kernels_test", "true")
        machine.program("gpu_executor_test", "true")
        one.run(5)
    said = (machine.path / "said").read_text().splitlines()
    assert len(said) == len(tools) and "--leak-check full" in said[-1]
    excluded = plan.OUR_KERNELS.lstrip("-").replace("*", "").split(":")
    assert all(plan.OUR_KERNELS in line for line in said[:-1])
    left_out = {path.name for path in HERE.glob("*_test.cc") if any(one in path.read_text() for one in excluded)}
    assert left_out == {"attention_test.cc", "gemm_test.cc", "fp8_gemm_test.cc"}, "kernels of other libraries"


def test_records_of_a_benchmark_that_breaks_are_kept(machine):
    machine.program("gpu_speed_bench", """echo '{"record": "device"}'; echo '{"record": "decode", "state": "meas'; exit 1""")
    outcome = machine.outcome("speed", seconds=40)
    assert outcome.state == "fail" and outcome.records == [{"record": "device"}]
    machine.program("gpu_speed_bench", """echo '{"record": "decode", "state": "failed", "detail": "why"}'""")
    assert "first: why" in machine.outcome("speed", seconds=40).detail


CELL = '{{"record": "{}", "model": "1B", "batch": 64, "context": 8192, "budget": {}, "state": "{}"}}'


def test_cells_without_time_are_named_and_are_no_failure(machine):
    said = [CELL.format("decode", 0, "measured"), CELL.format("decode", 1024, "not run")]
    machine.program("gpu_speed_bench", "\n".join(f"echo '{line}'" for line in said))
    outcome = machine.outcome("speed", seconds=40)
    assert outcome.state == "pass"
    assert outcome.detail == "2 records; for lack of time without decode 1B 64 x 8192, budget 1024"
    many = sections.left_out([json.loads(CELL.format("peer", 0, "not run"))] * 9)
    assert many.count("peer 1B 64 x 8192, full") == 6 and many.endswith("and 3 more (results.json has all)")
    machine.program("gpu_speed_bench", f"echo '{said[0]}'; sleep 30")
    outcome = machine.outcome("speed", seconds=1)
    assert outcome.state == "pass" and "stopped after 1 s with 1 records; the others are left out" in outcome.detail
    assert len(outcome.records) == 1


def test_a_benchmark_that_hangs_fails(machine, monkeypatch):
    machine.program("gpu_speed_bench", f"echo '{CELL.format('decode', 0, 'measured')}'; sleep 30")
    monkeypatch.setattr(sections, "SILENT", 0.5)
    outcome = machine.outcome("speed", seconds=1)
    silent = re.search("it had said nothing for ([0-9]+) s", outcome.detail)
    # It was stopped after a second, long before it would have ended by itself.
    assert outcome.state == "fail" and silent and 1 <= int(silent[1]) < 30, outcome.detail
    machine.program("gpu_speed_bench", "sleep 30")
    assert machine.outcome("speed", seconds=0.2).state == "fail", "nothing was measured"


def test_a_section_that_breaks_loses_no_other():
    def broken(_):
        raise OSError("the disk is full")

    some = [
        sections.Section("one", "correctness", 9, broken),
        sections.Section("two", "correctness", 9, lambda seconds: sections.Outcome("pass", f"{seconds:.0f}")),
        sections.Section("three", "speed", 900, lambda seconds: sections.Outcome("pass"), least=100),
    ]
    results, _ = sections.run_all(some, 20, say=lambda _: None)
    assert [one["state"] for one in results] == ["fail", "pass", "not run"]
    assert "the disk is full" in results[0]["detail"] and results[2]["detail"] == "the time was up"
    assert command.exit_code(results) == 1
    assert command.exit_code(results[1:]) == 0
    assert command.exit_code(sections.not_run(some, "no GPU")) == 3


def test_committed_results_are_of_these_sections(machine):
    committed = sorted((HERE.parent / "bench/results/gpu").glob("*/results.json"))
    assert committed
    for path in committed:
        results = json.loads(path.read_text())
        assert [one["name"] for one in results["sections"]] == [one.name for one in machine.suite.sections()], path


def test_all_of_it_fits_into_eight_minutes():
    assert command.arguments(["--bin", ".", "--out", "."]).seconds < 480
