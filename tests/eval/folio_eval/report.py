"""`report`: one HTML page that needs nothing else, and its plots as PNG files beside it."""

import base64
import html
import pathlib

from folio_eval import measures, plots, tables
from folio_eval.look import LABELS
from folio_eval.summary import Results

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #24292f; max-width: 1180px; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: 0.2rem; } h2 { margin-top: 2.4rem; border-bottom: 1px solid #d8dee4; }
h3 { margin-bottom: 0.3rem; } p { max-width: 62rem; }
img { max-width: 100%; display: block; margin: 0.6rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; margin: 0.6rem 0 1.2rem; }
th, td { padding: 3px 9px; border-bottom: 1px solid #d8dee4; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: white; }
thead th { border-bottom: 2px solid #8c959f; } td small { color: #57606a; }
.better { background: #dafbe1; } .worse { background: #ffebe9; } .error { color: #cf222e; }
details > summary { cursor: pointer; color: #0969da; margin: 0.4rem 0; }
nav a { margin-right: 1rem; }
"""
MEANING = {
    "score": "Share of answers that the model itself would have given, token by token (published metric for files). "
    "High is good.",
    "nll": "Nats per token of the true answer. Low is good.",
    "kl": "Mean KL divergence from the full cache over the 256 positions behind the prompt, a lower bound (see "
    "README.md). Low is good.",
}


class Page:
    def __init__(self, folder, title):
        self._folder, self._title = folder, title
        self._body, self._links = [], []

    def section(self, name):
        mark = name.lower().replace(" ", "-").replace(",", "")
        self._links.append(f'<a href="#{mark}">{html.escape(name)}</a>')
        self._body.append(f'<h2 id="{mark}">{html.escape(name)}</h2>')

    def words(self, text):
        self._body.append(f"<p>{html.escape(text)}</p>")

    def add(self, markup):
        self._body.append(markup)

    def picture(self, name, data, what):
        """Into the page and into a file; nothing where there is no picture."""
        if data:
            (self._folder / f"{name}.png").write_bytes(data)
            code = base64.b64encode(data).decode()
            self._body.append(f'<img alt="{html.escape(what)}" src="data:image/png;base64,{code}">')
        return bool(data)

    def folded(self, summary, markup, opened=False):
        if markup:
            self.add(f"<details{' open' if opened else ''}><summary>{html.escape(summary)}</summary>{markup}</details>")

    def write(self):
        title = html.escape(self._title)
        (self._folder / "report.html").write_text(
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
            f'</head><body><h1>{title}</h1><nav>{"".join(self._links)}</nav>{"".join(self._body)}</body></html>\n'
        )


def _overview(page, results):
    page.words(
        f"{len(results.tasks())} tasks, {len(results.series())} policies, up to {results.most_prompts()} prompts a cell. Intervals hold "
        "the mean in 95 % of bootstrap draws over the prompts. All settings see the same prompts."
    )
    if results.failed:
        items = "".join(
            f'<li class="error">{html.escape(str(tables.named(line)))}: {html.escape(line["error"])}</li>'
            for line in results.failed
        )
        page.add(f"<p class=error><b>{len(results.failed)} cells failed and are missing below:</b></p><ul>{items}</ul>")


def _measures(page, results, length):
    for measure in ("score", "nll", "kl"):
        if length not in results.lengths(measure):
            continue
        page.add(f"<h3>{html.escape(LABELS[measure])}</h3>")
        page.words(MEANING[measure])
        page.picture(f"{measure}-{length}", plots.against_budget(results, length, measure), f"{measure} against budget")
        for at, budget in enumerate(results.budgets() or [None]):
            page.folded(f"Table: budget {budget}", tables.by_task(results, length, budget, measure), at == 0)
    shown = {"score", "nll", "kl", "exact", plots.PARETO}
    for measure in sorted(one for one in results.measures() - shown if not measures.split(one)[1]):
        page.picture(f"{measure}-{length}", plots.against_budget(results, length, measure), f"{measure} against budget")


def _parts(page, results, length):
    """Answers whose parts have names: each part by itself."""
    for measure in ("score", "nll"):
        picture = plots.parts_against_budget(results, length, measure)
        if picture is None:
            continue
        page.add(f"<h3>{html.escape(LABELS[measure])}, part by part</h3>")
        page.picture(f"{measure}-parts-{length}", picture, f"{measure} of each part against budget")
        for at, budget in enumerate(results.budgets() or [None]):
            page.folded(f"Table: budget {budget}", tables.by_part(results, length, budget, measure), at == 0)
    for task in dict.fromkeys(task for task, _ in results.parts("score")):
        for budget in results.budgets():
            picture = plots.exchange(results, task, length, budget)
            if page.picture(f"exchange-{task}-{length}-{budget}", picture, "the prompt's fact against the answer's"):
                page.words("Each point is a share of the budget that belongs to the prompt (`prompt_share`).")


def _sections(page, results):
    for length in results.lengths():
        page.section(f"{length} tokens")
        _measures(page, results, length)
        _parts(page, results, length)
        page.add("<h3>Against each other</h3>")
        page.words(
            "Difference from the policy named above the column, prompt by prompt, as mean over the tasks. Green: better "
            "by more than the interval; red: worse."
        )
        for at, budget in enumerate(results.budgets()):
            page.folded(f"Table: budget {budget}", tables.differences(results, length, budget), at == 0)
        if plots.PARETO in results.measures():
            page.add("<h3>Speed and accuracy</h3>")
            page.picture(f"pareto-{length}", plots.pareto(results, length), "decode speed against accuracy")
            page.folded("Table: decode speed", tables.speeds(results, length))
        for measure in ("score", "nll"):
            picture = plots.protected(results, length, measure)
            page.picture(f"protected-{measure}-{length}", picture, "sink and recent tokens")


def _maps(page, results):
    found = {(one["task"], one["length"], one.get("budget")) for one in results.maps}
    if not found:
        return
    found = sorted(found, key=lambda one: (*one[:2], results.budgets().index(one[2])))
    page.section("What was kept")
    page.words(
        "Of one prompt: which positions were in the cache when the last token of the answer was predicted, layer by "
        "layer."
    )
    for task, length, budget in found:
        data = plots.maps(results, task, length, budget)
        page.add(f"<h3>{html.escape(f'{task}, {length} tokens, budget {budget}')}</h3>")
        page.picture(f"kept-{task.replace(':', '-')}-{length}-{budget}", data, "positions kept")


def main(options):
    results = Results(options.results)
    if not results.settings() and not results.failed:
        raise ValueError(f"{', '.join(options.results)}: no results")
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    page = Page(folder, options.title)
    _overview(page, results)
    _sections(page, results)
    _maps(page, results)
    page.section("Where the time went")
    page.add(tables.times(results))
    page.write()
    print(folder / "report.html")
    return 0
