"""How plots look, and which lines are drawn: what is common to all of them."""

import io

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from folio_eval.cells import FULL  # noqa: E402

INK, FAINT = "#24292f", "#d8dee4"
COLOURS = ("#0969da", "#cf222e", "#1a7f37", "#8250df", "#bc4c00", "#0a7ea4", "#bf3989", "#7d6608", "#3b434b", "#57ab5a")
MARKERS = "osD^vP*X"
LABELS = {"score": "share right", "nll": "nats per answer token", "kl": "KL to full cache, nats",
          "acc_norm": "acc_norm", "rougeL": "ROUGE-L"}  # fmt: skip
CRUSH = "kv_crush"
MOST_CRUSH = 3  # variants of KVCrush that get a line each; more become a band per base

plt.rcParams.update({
    "font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold", "axes.edgecolor": "#8c959f",
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": FAINT,
    "text.color": INK, "axes.labelcolor": INK, "legend.frameon": False, "figure.dpi": 110, "savefig.dpi": 110,
})  # fmt: skip


def style(series, all_series):
    """Of a line: the same for one series in every plot."""
    if series == FULL:
        return {"color": INK, "linestyle": "--", "linewidth": 1.4}
    if series.startswith("random"):
        return {"color": "#8c959f", "linestyle": ":", "linewidth": 1.8, "marker": "x", "markersize": 5}
    others = [name for name in all_series if name != FULL and not name.startswith("random")]
    at = others.index(series)
    return {
        "color": COLOURS[at % len(COLOURS)],
        "marker": MARKERS[at % len(MARKERS)],
        "linestyle": "-" if at < len(COLOURS) else "-.",
        "linewidth": 1.5,
        "markersize": 4.5,
    }


def crush_bands(all_series):
    """({base: its KVCrush variants}, the other series): too many variants to draw become one band per base."""
    crushed = [name for name in all_series if name.startswith(CRUSH)]
    if len(crushed) <= MOST_CRUSH:
        return {}, list(all_series)
    bands = {}
    for name in crushed:
        base = name.partition(":")[2].partition(",")[0]
        bands.setdefault(base if base and "=" not in base else "paged_eviction", []).append(name)
    return bands, [name for name in all_series if name not in crushed]


def panels(count, columns=3, width=3.7, height=2.7, **more):
    """A figure with that many axes, in rows."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False, **more)
    flat = list(axes.flat)
    for unused in flat[count:]:
        unused.remove()
    return figure, flat[:count]


def legend_below(figure, axes):
    """One legend for all panels, under them."""
    found = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels()):
            found.setdefault(label, handle)
    columns = 4 if max(map(len, found), default=0) < 28 else 2
    figure.tight_layout()
    figure.legend(
        found.values(), found.keys(), loc="upper center", bbox_to_anchor=(0.5, -0.02), ncol=columns,
        borderaxespad=0.0, labelspacing=0.3,
    )  # fmt: skip


def png(figure):
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight", facecolor="white")
    plt.close(figure)
    return out.getvalue()
