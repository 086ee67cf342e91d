"""`table`: results as Markdown, for pages such as study.md. Settings down, tasks and budgets across."""

from folio_eval.cells import FULL
from folio_eval.summary import HIGH_IS_GOOD, Results


def _number(estimate, measure):
    return f"{100 * estimate.mean:.0f} %" if measure == "score" else f"{estimate.mean:.{3 if measure == 'kl' else 2}f}"


def _cell(results, place, setting):
    """Right answers and nats; of prose that follows, nats and divergence; empty where nothing was asked."""
    task, length = place
    estimates = {measure: results.estimate(task, length, setting, measure) for measure in HIGH_IS_GOOD if setting}
    return ", ".join(_number(estimate, measure) for measure, estimate in estimates.items() if estimate)


def _mean(results, length, setting, tasks):
    """Over those of the tasks that have right and wrong answers. The interval is of the nats."""
    score, nll = (setting and results.mean(length, setting, measure, tuple(tasks)) for measure in ("score", "nll"))
    return f"{100 * score.mean:.0f} %, {nll.mean:.2f} ±{(nll.high - nll.low) / 2:.2f}" if score and nll else ""


def _columns(results, length, tasks, budgets):
    """(what the column is of, budget, what gives the cell of a series)"""
    for task in tasks:
        for budget in budgets:
            yield f"`{task}`", budget, lambda series, task=task, budget=budget: _cell(
                results, (task, length), results.setting(series, budget)
            )
    judged = [task for task in tasks if any(results.estimate(task, length, one, "score") for one in results.settings())]
    if len(judged) > 1:
        for budget in budgets:
            yield "mean", budget, lambda series, budget=budget: _mean(results, length, results.setting(series, budget), judged)


def _row(cells):
    return f"| {' | '.join(cells)} |"


def table(results, length, tasks, budgets):
    """The lines of one table. Rows and columns without any number are left out."""
    columns = list(_columns(results, length, tasks, budgets))
    rows = {series: [cell(series) for *_, cell in columns] for series in results.series()}
    rows = {series: cells for series, cells in rows.items() if any(cells)}
    evicting = [cells for series, cells in rows.items() if series != FULL] or list(rows.values())
    used = [at for at in range(len(columns)) if any(cells[at] for cells in evicting)]
    heads, named = ["policy"], set()
    for name, budget, _ in (columns[at] for at in used):
        # The first column of a task names it.
        heads.append(" ".join(str(part) for part in (name if name not in named else None, budget) if part is not None))
        named.add(name)
    yield _row(heads)
    yield f"|{'---|' * (len(used) + 1)}"
    for series, cells in rows.items():
        yield _row([f"`{series}`", *(cells[at] for at in used)])


def main(options):
    results = Results(options.results)
    for length in results.lengths():
        lines = list(table(results, length, options.tasks or results.tasks(), options.budgets or results.budgets() or [None]))
        if len(lines) > 2:  # more than the heading
            print(f"{length} tokens, up to {results.most_prompts()} prompts a cell\n")
            print("\n".join([*lines, ""]))
    return 0
