"""results.json as tables: numbers where they belong, and plain words where there are none."""

import json
import pathlib

import pytest
from suite import merge, tables

HERE = pathlib.Path(__file__).parent
COMMITTED = sorted((HERE.parent / "bench/results/gpu").glob("*/results.json"))


@pytest.fixture(scope="module")
def page():
    return tables.render(json.loads((HERE / "canned_results.json").read_text()))


def row(page, start):
    (found,) = [line for line in page.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in found.strip("|").split("|")]


def part(page, head):
    return page.split(head)[1].split("\n## ")[0]


def test_says_what_was_measured_on(page):
    assert "NVIDIA H200, driver 580.1, cuda 13.0, SM at 345 of 1980 MHz" in page
    assert "2026-01-02 03:04 UTC, commit 0123abc" in page
    assert row(page, "| kernels |") == ["kernels", "correctness", "pass", "9.5", "71 tests"]
    assert row(page, "| vllm |")[2:4] == ["not run", ""]
    assert row(page, "| copy, read and written |")[1] == "4300 GB/s"


def test_says_which_nccl_was_taken():
    page = tables.render({"sections": [], "date": "2026-01-02", "nccl": "NCCL 2.32 of the bundle"})
    assert "2026-01-02, commit unknown, with NCCL 2.32 of the bundle" in page


def test_cells_of_the_grid(page):
    decode = part(page, "### Llama-3.2-1B").split("###")[0]
    assert row(decode, "| 64 | 8,192 |") == ["64", "8,192", "not run", "not run", "51,234 (82 %)", "not run"]
    assert row(decode, "| 128 | 32,768 |")[2] == "does not fit"
    assert row(decode, "| 1 | 1,024 |")[3] == "as full", "a budget above the context"


def test_what_was_to_be_reached(page):
    judged = part(page, "share of the limit at 64 x 8,192")
    assert row(judged, "| Llama-3.2-1B |")[1] == "82 % (reached)"
    assert row(judged, "| Llama-3.2-3B |")[1] == "not run"
    assert row(judged, "| Llama-3.1-8B |")[1] == "70 % (missed)"
    prompts = part(page, "## Prompts, computed")
    assert row(prompts, "| Llama-3.2-1B |")[1:] == ["61", "401", "51 %", "0.10 % + 1.20 % + 0.20 % (missed)"]
    costs = part(page, "## What eviction costs")
    assert row(costs, "| Llama-3.2-1B |")[1:] == ["0.12 % + 0.21 % (reached)", "0.00 % (reached)", "1.25 and 1.30"]
    alone = part(page, "## Attention alone")
    assert row(alone, "| Llama-3.2-1B | 64 |")[-3:] == ["89 % (reached)", "310", "266 (95 %)"]
    assert row(alone, "| Llama-3.2-1B | 16 |")[-3:] == ["62 % (missed)", "", "not run"], "a record without the peer"
    assert row(alone, "| Llama-3.2-1B | 128 |")[-1] == "not served"


def test_products_of_decode_steps(page):
    products = part(page, "## Products of decode steps")
    assert row(products, "| Llama-3.2-1B | 1 |")[2:] == ["740", "87 % (reached)", "1190 (54 %)"]
    assert row(products, "| Llama-3.2-1B | 16 |")[2:] == ["880", "73 %", "1210 (53 %)"]
    assert row(products, "| Llama-3.2-1B | 64 |")[2:] == ["960", "67 %", "1110 (58 %)"]
    assert row(products, "| Llama-3.1-8B | 1 |")[2:] == ["not run"] * 3
    assert "not run" in part(tables.render({"sections": [], "records": {}}), "## Products of decode steps")


def test_decode_through_sockets(page):
    served = part(page, "## Decode through sockets")
    rows = {tuple(cells[1:4]): cells[4:] for cells in (row(served, line[:40]) for line in served.splitlines() if "Llama" in line)}
    assert rows["64", "1,024", "full"] == ["24,000", "25,000", "96 %", "1.40 s", "15,556"]
    assert rows["128", "1,024", "full"] == ["35,000", "37,000", "95 % (missed)", "2.80 s", "not run"]
    assert rows["128", "2,048", "full"][2] == "97 % (reached)"
    assert rows["64", "4,096", "512"][:3] == ["25,000", "not run", "not run"], "nothing to compare it with"
    assert rows["64", "8,192", "1,024"] == ["failed", "failed", "failed", "failed", "8,347"]
    assert "not run" in part(tables.render({"sections": [], "records": {}}), "## Decode through sockets")


def test_prompts_through_sockets(page):
    prompts = part(page, "## Prompts through sockets")
    assert row(prompts, "| Llama-3.2-1B | 64 |")[3:] == ["250,000", "262 ms", "240,000", "1.04 (reached)", "15,556"]
    assert row(prompts, "| Llama-3.2-1B | 1 |")[3:] == ["180,000", "46 ms", "181,500", "0.99 (missed)", "414"]
    assert row(prompts, "| Llama-3.1-8B | 1 |")[3:] == ["failed", "failed", "not run", "not run", "not run"]
    streams = part(page, "## Streams beside long prompts")
    assert row(streams, "| Llama-3.2-1B |")[3:] == ["1.70 ms", "4.08 ms", "30.10 ms", "2.40 (reached)", "70 ms"]
    assert row(streams, "| Llama-3.1-8B |")[6] == "2.70 (missed)"
    empty = tables.render({"sections": [], "records": {}})
    for head in ("## Prompts through sockets", "## Streams beside long prompts"):
        assert "not run" in part(empty, head)


def test_fp8_beside_bf16(page):
    fp8 = part(page, "## Weights in FP8 beside bf16")
    assert row(fp8, "| Llama-3.1-8B | decode 64 x 1,024 |")[2:] == ["6,000", "7,500", "1.25"]
    assert row(fp8, "| Llama-3.1-8B | prompt of 8,192 |")[2:] == ["30,000", "failed", "not run"]
    assert row(fp8, "| Llama-3.2-1B | decode 1 x 1,024 |")[2:] == ["not run"] * 3


def test_paper_and_peer(page):
    paper = part(page, "## The paper's setting")
    assert row(paper, "| 1,024 |") == ["1,024", "50,412", "56,714", "32", "3,020"]
    assert row(paper, "| full |") == ["full", "not run", "not run", "not run", "2,200"]
    peer = part(page, "## Peer")
    assert row(peer, "| Llama-3.2-1B | 64 | 8,192 |")[-2:] == ["12,346", "not run"]


def test_a_rate_over_no_step_is_no_result():
    cell = {"record": "decode", "model": "Llama-3.2-1B", "batch": 128, "context": 8192, "budget": 0, "state": "measured",
            "steps": 0, "tokens_s": 19671876.5, "share_of_limit": 0.0}  # fmt: skip
    page = tables.render({"sections": [], "records": {"speed": [cell]}})
    decode = part(page, "### Llama-3.2-1B").split("###")[0]
    assert row(decode, "| 128 | 8,192 |")[2] == "no step was measured"
    assert row(part(page, "## Peer"), "| Llama-3.2-1B | 128 | 8,192 |")[-1] == "no step was measured"


def test_there_are_committed_results():
    assert COMMITTED


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.parent.name)
def test_the_committed_page_is_of_the_committed_numbers(path):
    assert path.with_suffix(".md").read_text() == tables.render(json.loads(path.read_text()))


def a_run(date, **states):
    sections = [{"name": name, "kind": "correctness", "state": state, "detail": date, "seconds": 1, "limit": 9}
                for name, state in states.items()]  # fmt: skip
    records = {name: [{"record": "decode", "of": date}] for name in states}
    return {"commit": "abc", "date": date, "device": {"name": "GPU"}, "sections": sections, "records": records}


def test_runs_of_parts_are_merged():
    first = a_run("morning", kernels="pass", nccl="skipped", oracle="pass")
    second = a_run("evening", nccl="fail", oracle="not run")
    merged = merge.merge([first, second])
    assert merged["date"] == "morning, evening"
    found = {one["name"]: (one["state"], one["detail"]) for one in merged["sections"]}
    assert list(found) == [one.name for one in merge.order()], "the order of a whole run"
    assert found["kernels"] == found["oracle"] == ("pass", "morning"), "a section that was not run says nothing"
    assert found["nccl"] == ("fail", "evening")
    assert found["speed"] == ("not run", "it is in none of the runs")
    assert {name: one[0]["of"] for name, one in merged["records"].items()} == {
        "kernels": "morning", "oracle": "morning", "nccl": "evening"}  # fmt: skip
    assert tables.render(merged)
    merged = merge.merge([first, a_run("night", racecheck_all="pass")])
    assert merged["sections"][-1]["name"] == "racecheck_all", "the second command's sections come last"
    with pytest.raises(ValueError, match="different commits"):
        merge.merge([first, {**second, "commit": "def"}])
