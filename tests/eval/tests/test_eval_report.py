"""The page, its plots and `compare`, on results that are made up."""

import json
import random
import re

import pytest
from folio_eval import cli, plots
from folio_eval.summary import Results, verdict

POLICIES = {"paged_eviction": 0.8, "key_diff": 0.5, "random": 0.1, "kv_crush:key_diff,share=0.25": 0.6}


def lines(prompts=24):
    rng = random.Random(0)
    hard = [rng.random() for _ in range(prompts)]

    def line(policy, budget, right, task="needle_prose", **more):
        score = [float(right > limit) for limit in hard]
        nll = [round(3 - 3 * right + limit, 4) for limit in hard]
        extra = {} if budget is None else {"budget": budget}
        measures = {"score": score, "nll": nll} if task != "perplexity" else {"nll": nll, "kl": [3 - 3 * right] * prompts}
        row = {"task": task, "length": 1024, "policy": policy, **extra, "seed": 0, "first": 0, "measures": measures}
        return {**row, "seconds": {"request": 2.0, "prefill": 1.0, "prompt_tokens": 1024}, **more}

    for task in ("needle_prose", "needle_4:blind", "perplexity"):
        yield line("full", None, 1.0, task)
        for policy, right in POLICIES.items():
            for budget in (128, 0.5):
                more = {"kept": ["0123456789" * 2] * 3} if task == "needle_prose" else {}
                yield line(policy, budget, min(1.0, right + (budget == 0.5) * 0.2), task, **more)
    for policy, budget in (("full", None), ("key_diff", 128), ("key_diff", 0.5)):
        rate = {"decode_rate": [100.0 if budget is None else 300.0 - 100 * (budget == 0.5)]}
        yield {**line(policy, budget, 1.0, "decode_speed"), "measures": rate}
    failed = line("key_diff", 999, 1.0)
    del failed["measures"]
    yield {**failed, "error": "ResourceExhausted: <no room>"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines()))
    return path


def test_the_table_has_each_setting_task_and_budget(path, capsys):
    assert cli.main(["table", str(path)]) == 0
    title, _, heads, _, *rows = capsys.readouterr().out.strip().split("\n")
    assert title == "1024 tokens, up to 24 prompts a cell"
    named = [f"`{task}` 128 | 0.5" for task in ("needle_prose", "needle_4:blind", "perplexity")]
    assert heads == f"| policy | {' | '.join(named)} | mean 128 | 0.5 |"
    assert [row.split("`")[1] for row in rows] == ["full", *(name for name in POLICIES if name != "random"), "random"]
    given = next(line for line in lines() if line["policy"] == "random")["measures"]
    right, nats = (sum(given[name]) / len(given[name]) for name in ("score", "nll"))
    cells = rows[-1].strip("| ").split(" | ")[1:]
    assert cells[0] == cells[2] == f"{100 * right:.0f} %, {nats:.2f}" and cells[4] == f"{nats:.2f}, 2.700"
    assert cells[6].startswith(f"{cells[0]} ±0.") and rows[0].split(" | ")[1] == rows[0].split(" | ")[2]


def test_a_table_of_some_tasks_and_budgets(path, capsys):
    assert cli.main(["table", str(path), "--tasks", "perplexity", "--budgets", "0.5"]) == 0
    heads = capsys.readouterr().out.split("\n")[2]
    assert heads == "| policy | `perplexity` 0.5 |"
    with open(path, "a") as file:
        for line in lines():
            if line["task"] == "needle_prose" and "measures" in line:
                wrong = {**line["measures"], "score": [0.0] * 24}
                file.write(json.dumps({**line, "task": "needle_8", "measures": wrong}) + "\n")
    assert cli.main(["table", str(path), "--tasks", "needle_prose,needle_4:blind", "--budgets", "0.5"]) == 0
    *_, full, _, _, _, last = capsys.readouterr().out.strip().split("\n")
    assert "| 100 %, " in full and all(row.split(" | ")[3].split(" %")[0] == row.split(" | ")[2].split(" %")[0] for row in (full, last))
    assert cli.main(["table", str(path), "--tasks", "decode_speed"]) == 0
    assert capsys.readouterr().out == ""


def test_a_table_of_the_full_cache_names_no_budget(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    full = [line for line in lines() if line["policy"] == "full" and "budget" not in line and line["task"] != "decode_speed"]
    path.write_text("".join(json.dumps(line) + "\n" for line in full))
    assert cli.main(["table", str(path)]) == 0
    assert capsys.readouterr().out.split("\n")[2] == "| policy | `needle_prose` | `needle_4:blind` | `perplexity` | mean |"


def test_the_report_is_one_page_with_its_plots(tmp_path, path):
    out = tmp_path / "report"
    assert cli.main(["report", str(path), "--out", str(out)]) == 0
    page = (out / "report.html").read_text()
    pictures = {file.name for file in out.glob("*.png")}
    assert pictures == {
        "score-1024.png", "nll-1024.png", "kl-1024.png", "pareto-1024.png", "kept-needle_prose-1024-128.png",
        "kept-needle_prose-1024-0.5.png",
    }  # fmt: skip
    assert all((out / name).read_bytes()[:4] == b"\x89PNG" for name in pictures)
    assert page.count('src="data:image/png;base64,') == len(pictures)
    assert not re.search(r'(src|href)="(?!data:|#)', page), "the page needs nothing but itself"
    assert "&lt;no room&gt;" in page and "<no room>" not in page
    for policy in ("full", *POLICIES):
        assert f"<td>{policy}</td>" in page


def test_estimates_and_differences(path):
    results = Results([path])
    setting = results.setting
    full, paged, rand = setting("full", 128), setting("paged_eviction", 128), setting("random", 128)
    assert results.estimate("needle_prose", 1024, full, "score").mean == 1.0
    better = results.mean_difference(1024, paged, rand, "score")
    assert better.sure and better.mean > 0.4 and verdict(better, "score") == "better"
    assert verdict(results.mean_difference(1024, paged, rand, "nll"), "nll") == "better", "fewer nats"
    assert verdict(results.mean_difference(1024, rand, paged, "score"), "score") == "worse"
    assert verdict(results.mean_difference(1024, paged, paged, "score"), "score") == ""
    assert results.mean(1024, paged, "score").count == 48, "perplexity has no right or wrong"
    assert [line["budget"] for line in results.failed] == [999]


def test_compare_says_who_is_better(path, capsys):
    assert cli.main(["compare", "random", "paged_eviction@128", str(path)]) == 0
    said = capsys.readouterr().out
    assert "random @ 128 minus paged_eviction @ 128" in said and "@ 0.5" not in said
    assert re.search(r"mean of the tasks +score +-0\.\d+ .* WORSE", said)
    assert cli.main(["compare", "full", "key_diff", str(path)]) == 0
    assert "full @ None minus key_diff @ 128" in capsys.readouterr().out
    assert cli.main(["compare", "snap_kv", "full", str(path)]) == 1
    assert "nothing to compare" in capsys.readouterr().err


def test_compare_takes_a_compaction(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    rows = [row for row in lines() if row["policy"] == "key_diff" and row["task"] != "decode_speed" and "error" not in row]
    with open(path, "w") as file:
        for compaction, worse in (("whole", 0), ("streamed", 1), ("streamed:128", 2)):
            for row in rows:
                nll = [value + worse for value in row["measures"]["nll"]]
                file.write(json.dumps({**row, "compaction": compaction, "measures": {**row["measures"], "nll": nll}}) + "\n")
    assert cli.main(["compare", "key_diff/streamed:128", "key_diff/whole", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.count(" minus ") == 2 and "key_diff, streamed:128 @ 128 minus key_diff, whole @ 128" in said
    assert re.search(r"needle_prose +nll +\+2\.000 .* WORSE", said)
    assert cli.main(["compare", "key_diff", "key_diff", str(path)]) == 1, "of equal compaction there is one"
    assert "nothing to compare" in capsys.readouterr().err
    assert cli.main(["compare", "key_diff/partly", "key_diff", str(path)]) == 1
    assert "'partly' must be whole, streamed" in capsys.readouterr().err


def test_compare_takes_other_settings(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    rows = [row for row in lines() if row["policy"] == "key_diff" and row["task"] != "decode_speed" and "error" not in row]
    with open(path, "w") as file:
        for others, worse in (({}, 0), ({"layers": "shared"}, 1), ({"layers": "shared", "prompt_share": 0.25}, 2)):
            for row in rows:
                nll = [value + worse for value in row["measures"]["nll"]]
                file.write(json.dumps({**row, **others, "measures": {**row["measures"], "nll": nll}}) + "\n")
    assert cli.main(["compare", "key_diff+layers=shared+prompt_share=0.25", "key_diff+layers=none", str(path)]) == 0
    said = capsys.readouterr().out
    assert "key_diff, layers shared, prompt share 0.25 @ 128 minus key_diff @ 128" in said and said.count(" minus ") == 2
    assert re.search(r"needle_prose +nll +\+2\.000 .* WORSE", said)
    assert cli.main(["compare", "key_diff+layer=shared", "key_diff", str(path)]) == 1
    assert "+layer=shared must be +FIELD=VALUE with one of sink, recent" in capsys.readouterr().err


def test_named_parts_are_told_apart(tmp_path, capsys):
    path, out = tmp_path / "results.jsonl", tmp_path / "report"
    with open(path, "w") as file:
        for policy, early, late in (("key_diff", 1.0, 0.0), ("random", 0.0, 1.0)):
            values = {"score": [0.5] * 8, "score.early": [early] * 8, "score.late": [late] * 8, "nll.early": [early] * 8}
            line = {"task": "three_facts", "length": 256, "policy": policy, "budget": 128, "seed": 0, "first": 0}
            file.write(json.dumps({**line, "measures": values}) + "\n")
    assert cli.main(["compare", "key_diff", "random", str(path)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"three_facts, early +score +\+1\.000 .* better", said)
    assert re.search(r"three_facts, late +score +-1\.000 .* WORSE", said)
    assert re.search(r"three_facts, early +nll +\+1\.000 .* WORSE", said)
    assert cli.main(["report", str(path), "--out", str(out)]) == 0
    assert {file.name for file in out.glob("*parts*.png")} == {"score-parts-256.png", "nll-parts-256.png"}
    assert "<th>three_facts, early</th><th>three_facts, late</th>" in (out / "report.html").read_text()


def test_the_exchange_between_prompt_and_answer_is_drawn(tmp_path):
    def line(policy, share, right, budget=512):
        extra = {"budget": budget} | ({"prompt_share": share} if share else {}) if budget else {}
        measures = {f"score.{name}": [value] * 4 for name, value in right.items()} | {"score": [0.5] * 4}
        return {"task": "three_facts", "length": 256, "policy": policy, **extra, "seed": 0, "first": 0, "measures": measures}

    path, out = tmp_path / "exchange.jsonl", tmp_path / "report"
    rows = [line("full", None, {"prompt": 1.0, "early": 1.0}, None), line("random", None, {"prompt": 0.0, "early": 0.2})]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = Results([path])
    assert plots.exchange(results, "three_facts", 256, 512) is None, "one share is no exchange"
    rows.append(line("random", 0.5, {"prompt": 1.0, "early": 0.1}))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli.main(["report", str(path), "--out", str(out)]) == 0
    assert (out / "exchange-three_facts-256-512.png").read_bytes()[:4] == b"\x89PNG"


def test_results_may_be_packed(tmp_path, path):
    import gzip

    packed = tmp_path / "results.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert Results([packed]).tasks() == Results([path]).tasks()


def test_results_that_are_none(tmp_path, capsys):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert cli.main(["report", str(empty), "--out", str(tmp_path / "out")]) == 1
    assert "no results" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "out")]) == 1
