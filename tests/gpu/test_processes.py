"""What run.sh does with real programs, as far as it can be done without a GPU."""

import json
import os
import pathlib
import subprocess

import pytest
from suite import failover, load, node, places, prompts, serve, shape_model, tensor_parallel

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("FOLIO_BIN") or ROOT / "build/bin").resolve()
MODEL = os.environ.get("FOLIO_MODEL")


@pytest.mark.skipif(not MODEL, reason="FOLIO_MODEL is not set")
def test_another_worker_goes_on(tmp_path):
    outcome = failover.run(places.Places(BIN), MODEL, tmp_path / "log", 300, device="cpu", pool="512MiB", tokens=120)
    assert outcome.state == "pass", f"{outcome.detail}\n{(tmp_path / 'log').read_text()}"
    assert outcome.detail.count("120 tokens the same") == 2


@pytest.fixture
def emulated(tmp_path):
    """Programs on an emulated GPU and a model: see tests/e2e/test_gpu_worker.py for what stands for the GPU."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("folio-manager", "folioctl"):
        (programs / name).symlink_to(BIN / name)
    (programs / "folio-worker").symlink_to(BIN / "emulated_gpu_worker")
    subprocess.run([BIN / "write_tiny_model", tmp_path / "tiny"], check=True)
    fakes = BIN.parent / "tests/manager/fake_gpu"
    return places.Places(programs, [fakes / "cuda", fakes / "nvml"]), tmp_path / "tiny"


def test_another_worker_goes_on_on_an_emulated_gpu(emulated, tmp_path):
    """The section as it is, down to its flags."""
    outcome = failover.run(*emulated, tmp_path / "log", 300, pool="8MiB", tokens=72)
    assert outcome.state == "pass", f"{outcome.detail}\n{(tmp_path / 'log').read_text()}"
    assert outcome.detail.count("72 tokens the same") == 2


@pytest.mark.long
def test_two_ranks_on_one_emulated_gpu(emulated, tmp_path):
    """As above; the ranks share the first GPU."""
    devices = tensor_parallel.two_devices(1)
    outcome = tensor_parallel.run(*emulated, tmp_path / "log", 300, devices, pool="8MiB", tokens=72)
    assert outcome.state == "pass", f"{outcome.detail}\n{(tmp_path / 'log').read_text()}"
    assert outcome.detail.count("as with one rank") == 2 and "a rank killed after" in outcome.detail


TINY_RIG = ["--pool_mib=2", "--copy_mib=1", "--product_side=32", "--max_rows=40", "--steps=4", "--warm_up=1"]
PEER = """import os, sys
assert os.environ["PYTHONPATH"].endswith("/site") and sys.argv[1:5] == ["--groups", "tiny", "--cells", "3x64,2x96"]
print("words")
print('{"group": "tiny", "batch": 3, "context": 64, "decode_tok_s": 77.5}')
print('{"group": "tiny", "batch": 2, "context": 96, "error": "no memory"}')
"""


@pytest.mark.long
def test_serving_is_measured_beside_one_process_and_a_peer(emulated, tmp_path):
    programs, _ = emulated
    (programs.programs / "gpu_speed_bench").symlink_to(BIN / "emulated_speed_bench")
    (tmp_path / "peer").mkdir()
    (tmp_path / "peer/bench.py").write_text(PEER)
    outcome = serve.run(programs, tmp_path, 300, "tiny", ["3x64", "2x96/48"], pool="16MiB", vllm_folder=tmp_path / "peer",
                        rig_flags=TINY_RIG, worker_flags=["--prefill_chunk=64", "--prefill_chunk_beside_decodes=32"])  # fmt: skip
    logs = "".join((tmp_path / name).read_text() for name in ("serve.log", "serve_rig.log", "serve_vllm.log"))
    assert outcome.state == "pass", f"{outcome.detail}\n{logs}"
    full, evicting = outcome.records
    assert (full["batch"], full["context"], full["budget"]) == (3, 64, 0) and full["prompt"] == 32 and full["output"] == 64
    assert (evicting["budget"], evicting["prompt"], evicting["output"]) == (48, 96, 1 + serve.WINDOW)
    for one in outcome.records:
        assert 0 < one["itl_ms_p50"] <= one["itl_ms_max"] and one["tokens_s"] > 0 and one["seconds"] > 0
        assert one["share"] == pytest.approx(one["tokens_s"] / one["in_process_tokens_s"], abs=1e-3)
        assert one["device"] == "cuda:0 emulated", one
    assert full["vllm_tokens_s"] == 77.5 and "vllm_tokens_s" not in evicting
    assert outcome.detail.count("of one process") == 2


def test_without_its_peer_serving_is_measured_all_the_same(tmp_path):
    (tmp_path / "unpack.sh").write_text("echo no space left >&2; exit 3")
    assert load.ask_vllm(tmp_path, ["1b"], [], 10, tmp_path / "log", tmp_path)[1][0].startswith("vLLM: ")
    (tmp_path / "unpack.sh").unlink()
    (tmp_path / "bench.py").write_text("raise SystemExit('no torch')")
    assert load.ask_vllm(tmp_path, ["1b"], [], 10, tmp_path / "log", tmp_path) == ({}, ["vLLM gave no rate: see log"])
    assert load.ask_vllm(None, ["1b"], [], 10, tmp_path / "log", tmp_path) == ({}, [])


PROMPTS_PEER = """import sys
assert sys.argv[1:5] == ["--groups", "tiny", "--cells", "64x1024,1x8192"]
print('{"group": "tiny", "batch": 64, "context": 24, "decode_tok_s": 7.5, "prefill_tok_s": 3.5}')
"""


@pytest.mark.long
def test_prompts_are_measured_alone_and_beside_streams(emulated, tmp_path, monkeypatch):
    programs, _ = emulated
    for name, few in {"REPEATS": 1, "STREAMS": 2, "STREAM_TOKENS": 32, "STREAM_SECONDS": 6, "ARRIVALS": 2}.items():
        monkeypatch.setattr(prompts, name, few)
    (tmp_path / "peer").mkdir()
    (tmp_path / "peer/bench.py").write_text(PROMPTS_PEER)
    outcome = prompts.run(programs, tmp_path, 300, ["tiny"], pool="16MiB", vllm_folder=tmp_path / "peer", long=48)
    assert outcome.state == "pass", f"{outcome.detail}\n{(tmp_path / 'prompts.log').read_text()}"
    together, alone, beside = outcome.records
    assert (together["record"], together["batch"], together["context"]) == ("prompts", 64, 24)
    assert (alone["record"], alone["batch"], alone["context"]) == ("prompts", 1, 48)
    assert (beside["record"], beside["batch"], beside["context"]) == ("beside", 2, 48)
    for one in (together, alone):
        assert one["tokens_s"] == pytest.approx(1e3 * one["batch"] * one["context"] / one["ttft_ms_max"], rel=1e-3)
    assert 0 < beside["itl_ms_p50"] <= beside["itl_ms_p99"] <= beside["itl_ms_max"]
    assert (together["vllm_tokens_s"], together["vllm_decode_tokens_s"]) == (3.5, 7.5) and "vllm_tokens_s" not in alone
    assert "vLLM 4/s" in outcome.detail and "between tokens" in outcome.detail


def test_prompts_that_fail_are_told(tmp_path):
    outcome = prompts.run(places.Places(BIN), tmp_path, 60, ["tiny"], device="cuda:7")
    assert outcome.state == "fail" and "manager ended before it served" in outcome.detail and not outcome.records


def test_serving_tells_which_cell_fails(tmp_path):
    outcome = serve.run(places.Places(BIN), tmp_path, 120, "tiny", ["2x64/40"], device="cpu", pool="64MiB")
    (record,) = outcome.records
    assert outcome.state == "fail" and record["state"] == "failed"
    assert "INVALID_ARGUMENT" in record["detail"] and "multiple" in outcome.detail
    outcome = serve.run(places.Places(BIN), tmp_path, 60, "tiny", ["2x64"], device="cuda:7")
    assert outcome.state == "fail" and "manager ended before it served" in outcome.detail and not outcome.records


@pytest.mark.parametrize("streams", [1, 7, 8, 56, 64, 128])
def test_all_streams_have_places(streams):
    batch = serve.places_for([serve.Cell(streams, 64, 0)])
    assert batch - batch // 8 >= streams > batch - 1 - (batch - 1) // 8


def test_a_manager_that_does_not_start_is_told(tmp_path):
    outcome = failover.run(places.Places(BIN), "model.gguf", tmp_path / "log", 30, device="cuda:7")
    assert outcome.state == "fail" and "manager ended before it served" in outcome.detail


def test_tokens_may_differ_where_two_are_as_good():
    assert "a tie" in node.compare("full", [1, 2, 3], [5, 0.1, 5], [1, 9, 9])
    with pytest.raises(node.Broken, match="token 1 differs"):
        node.compare("full", [1, 2, 3], [5, 0.4, 5], [1, 9, 9])
    with pytest.raises(node.Broken, match="2 tokens instead of 3"):
        node.compare("full", [1, 2, 3], [5, 5, 5], [1, 2])


FLAGS = {
    "models": "tiny", "seconds": 240, "batches": "2,1", "contexts": "64,32", "budgets": "48,0", "steps": 4, "warm_up": 1,
    "prompt": 64, "budget": 48, "paper_input": 32, "paper_output": 48, "paper_sequences": 2, "paper_budgets": "0,48,32",
    "max_rows": 40, "pool_mib": 2, "copy_mib": 1, "product_side": 32, "product_rows": "1,8,16,24",
}  # fmt: skip


def measure(**changed):
    flags = {**FLAGS, **changed}
    done = subprocess.run([BIN / "emulated_speed_bench", *(f"--{key}={value}" for key, value in flags.items())],
                          capture_output=True, text=True, timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_benchmark_runs_emulated():
    records = measure()
    kinds = {}
    for one in records:
        kinds.setdefault(one["record"], []).append(one)
    assert kinds["device"][0]["name"] == "emulated" and kinds["device"][0]["copy_gb_s"] > 0
    assert len(kinds["prefill"]) == 2 and len(kinds["costs"]) == 1 and len(kinds["paper"]) == 3
    assert len(kinds["peer"]) == 4 and len(kinds["decode"]) == 8
    assert [one["rows"] for one in kinds["products"]] == [1, 8, 16, 24]
    assert all(one["us"] > 0 and one["cublaslt_us"] > 0 for one in kinds["products"]), kinds["products"]
    states = [one.get("state") for kind in ("prefill", "costs", "paper", "peer", "decode") for one in kinds[kind]]
    assert states.count("as full") == 2, "the smaller context is below the budget"
    assert states.count("measured") == len(states) - 2, records
    by_cell = {(one["batch"], one["context"], one["budget"]): one for one in kinds["decode"]}
    assert 64 < by_cell[2, 64, 0]["resident_tokens"] < 90
    assert by_cell[2, 64, 48]["resident_tokens"] == 48 + 8, "what stays of it and half a page"
    assert all(one["published_tokens_s"] == (2200 if one["budget"] == 0 else None) for one in kinds["paper"])
    evicting = kinds["prefill"][1]
    assert evicting["budget"] == 48 and evicting["compacting_share"] > 0 and evicting["deciding_share"] > 0


def test_the_benchmark_measures_both_types_of_weights():
    records = measure(cells="2x32", computes="bfloat16,fp8", prompt_beside_cells="true")[1:]
    assert [(one["record"], one.get("compute"), one["state"]) for one in records] == [
        ("prefill", None, "measured"), ("decode", None, "measured"),
        ("prefill", "fp8", "measured"), ("decode", "fp8", "measured"),
    ]  # fmt: skip


@pytest.mark.long
def test_a_cell_measures_the_steps_that_it_is_asked_for():
    """Tokens count when the worker sends them, so none may be held back until a character is whole."""
    records = measure(batches="10,16", contexts="64", budgets="0", paper_budgets="48", pool_mib=8)
    cells = [one for one in records if one["record"] == "decode"]
    assert [one["state"] for one in cells] == ["measured"] * 2, cells
    for cell in cells:
        assert abs(cell["steps"] - FLAGS["steps"]) <= 1, "the counts of steps are one apart where the loop is just in between"
        assert cell["resident_tokens"] < 64 + 8, "no sequence is far ahead of the others"


def test_what_does_not_fit_or_has_no_time_says_so():
    records = measure(contexts="1024", batches="2", budgets="0", pool_mib=1, prompt=32, seconds=0)
    assert {one["state"] for one in records if one["record"] != "device"} == {"not run"}
    records = measure(contexts="4096", batches="2", budgets="0", pool_mib=1, prompt=32, budget=32, paper_budgets="32")
    (cell,) = [one for one in records if one["record"] == "decode"]
    assert cell["state"] == "does not fit" and "MiB of pages" in cell["detail"]
