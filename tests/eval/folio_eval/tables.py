"""The report's tables, as HTML."""

import html

from folio_eval import measures
from folio_eval.cells import FULL
from folio_eval.summary import verdict

BASELINES = (FULL, "paged_eviction", "random")


def named(line):
    """What cell a line of results is, for people."""
    return ", ".join(f"{name} {line[name]}" for name in ("task", "length", "policy", "budget", "seed") if name in line)


def _table(columns, rows):
    head = "".join(f"<th>{html.escape(str(column))}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>' if rows else ""


def _label(text):
    return f"<td>{html.escape(text)}</td>"


def _cell(estimate, sign="", kind="", digits=2):
    if estimate is None:
        return "<td>–</td>"
    form = f"{sign}.{digits}f"
    interval = f"<small>[{estimate.low:{form}}, {estimate.high:{form}}]</small>"
    return f'<td class="{kind}" title="{estimate.count} prompts">{estimate.mean:{form}} {interval}</td>'


def by_task(results, length, budget, measure):
    """Policies down, tasks across."""
    tasks = [
        task for task in results.tasks(measure)
        if any(results.values(task, length, one, measure) for one in results.settings())
    ]  # fmt: skip
    judged = [task for task in tasks if task in results.tasks("score")]
    with_mean = len(judged) > 1
    rows = []
    for series in results.series():
        setting = results.setting(series, budget)
        estimates = [results.estimate(task, length, setting, measure) if setting else None for task in tasks]
        if any(estimates):
            cells = [_cell(estimate, digits=2 if measure == "score" else 3) for estimate in estimates]
            rows.append([_label(series), *cells, *([_cell(results.mean(length, setting, measure))] if with_mean else [])])
    return _table(["policy", *tasks, *(["mean of the tasks"] if with_mean else [])], rows)


def by_part(results, length, budget, measure):
    """Policies down, the named parts of the answers across."""
    parts = results.parts(measure)
    rows = []
    for series in results.series():
        setting = results.setting(series, budget)
        estimates = [results.estimate(task, length, setting, part) if setting else None for task, part in parts]
        if any(estimates):
            rows.append([_label(series), *(_cell(estimate, digits=2 if measure == "score" else 3) for estimate in estimates)])
    return _table(["policy", *(f"{task}, {measures.split(part)[1]}" for task, part in parts)], rows)


def differences(results, length, budget):
    """Each policy minus full, paged_eviction and random of the same budget, over all tasks."""
    bases = [name for name in BASELINES if results.setting(name, budget)]
    rows = []
    for series in results.series():
        setting = results.setting(series, budget)
        cells = []
        for measure in ("score", "nll"):
            for base in bases:
                other = results.setting(base, budget)
                same = series == base or setting is None
                estimate = None if same else results.mean_difference(length, setting, other, measure)
                cells.append(_cell(estimate, "+", verdict(estimate, measure), 2 if measure == "score" else 3))
        if any("<small>" in cell for cell in cells):
            rows.append([_label(series), *cells])
    names = {"score": "right", "nll": "nats"}
    return _table(["policy", *(f"{names[measure]} − {base}" for measure in names for base in bases)], rows)


def speeds(results, length):
    rows = []
    (task,) = results.tasks("decode_rate")[:1]
    for series in results.series("decode_rate"):
        for budget in results.budgets() if series != FULL else [None]:
            setting = results.setting(series, budget)
            estimate = results.estimate(task, length, setting, "decode_rate") if setting else None
            if estimate:
                rows.append([_label(series), f"<td>{budget or ''}</td>", _cell(estimate, digits=0)])
    return _table(["policy", "budget", "tokens/s of four streams"], rows)


def times(results):
    """Seconds of all requests, by task and length. Requests run side by side, so that they add up to more than the
    run took."""
    sums = {}
    for line in results.seconds:
        row = sums.setdefault((line["task"], line["length"]), {})
        for name, value in line["seconds"].items():
            row[name] = row.get(name, 0) + value
    columns = ("request", "queue", "prefill", "decode", "prompt_tokens", "decoded_tokens")
    rows = [
        [_label(task), f"<td>{length}</td>", *(f"<td>{row.get(name, 0):,.0f}</td>" for name in columns)]
        for (task, length), row in sums.items()
    ]
    heads = ("requests, s", "queued, s", "prefill, s", "decode, s", "prompt tokens", "decoded tokens")
    return _table(["task", "length", *heads], rows)
