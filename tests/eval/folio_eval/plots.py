"""The report's pictures, as PNG. Each function gives None where the results have nothing for it."""

import dataclasses

from folio_eval import look, measures
from folio_eval.cells import FULL, Setting

PARETO = "decode_rate"


def tokens_of(budget, length):
    """A share in tokens of the prompt."""
    return budget * length if isinstance(budget, float) else budget


def _curve(results, series, length, estimate):
    """[(x, Estimate)] over the budgets."""
    points = []
    for budget in results.budgets():
        setting = results.setting(series, budget)
        found = estimate(setting) if setting else None
        if found:
            points.append((tokens_of(budget, length), found))
    return sorted(points, key=lambda point: point[0])


def _draw_series(axes, results, series, length, estimate):
    points = _curve(results, series, length, estimate)
    if not points:
        return
    looks = look.style(series, results.series())
    if series == FULL:
        axes.axhline(points[0][1].mean, label=series, **looks)
        return
    x = [point[0] for point in points]
    axes.plot(x, [one.mean for _, one in points], label=series, **looks)
    axes.fill_between(x, [one.low for _, one in points], [one.high for _, one in points], color=looks["color"], alpha=0.10)


def _draw_band(axes, results, base, names, length, estimate, at):
    """From the worst to the best of a base's KVCrush variants."""
    curves = [dict(_curve(results, name, length, estimate)) for name in names]
    x = sorted(set.intersection(*(set(curve) for curve in curves)) if curves else ())
    if x:
        low = [min(curve[one].mean for curve in curves) for one in x]
        high = [max(curve[one].mean for curve in curves) for one in x]
        colour = look.COLOURS[-1 - at]
        label = f"kv_crush:{base}, {len(names)} variants"
        axes.fill_between(x, low, high, facecolor=colour, alpha=0.25, edgecolor=colour, label=label)


def _panel(axes, results, length, estimate):
    bands, lines = look.crush_bands(results.series())
    for at, (base, names) in enumerate(bands.items()):
        _draw_band(axes, results, base, names, length, estimate, at)
    for series in lines:
        _draw_series(axes, results, series, length, estimate)
    ticks = sorted({tokens_of(budget, length) for budget in results.budgets()})
    if ticks:
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()


def against_budget(results, length, measure):
    """A panel for each task, and one for their mean where there are several."""
    tasks = [
        task for task in results.tasks(measure)
        if any(results.values(task, length, one, measure) for one in results.settings())
    ]  # fmt: skip
    if not tasks:
        return None
    judged = [task for task in tasks if task in results.tasks("score")]
    names = [*tasks, *(["mean of the tasks"] if len(judged) > 1 and measure in ("score", "nll") else [])]
    figure, axes = look.panels(len(names))
    for one, name in zip(axes, names):
        if name in tasks:
            _panel(one, results, length, lambda setting: results.estimate(name, length, setting, measure))
        else:
            _panel(one, results, length, lambda setting: results.mean(length, setting, measure))
        _label(one, name, measure)
    look.legend_below(figure, axes)
    return look.png(figure)


def _label(axes, title, measure):
    axes.set_title(title)
    if measure == "score":
        axes.set_ylim(-0.03, 1.03)
    elif measure == "kl" or (measure == "nll" and not title.endswith("perplexity")):
        axes.set_ylim(bottom=0)  # nats of prose hardly move, far above 0
    axes.set_xlabel("budget, tokens per layer")
    axes.set_ylabel(look.LABELS.get(measure, measure))


def parts_against_budget(results, length, measure):
    """A panel for each named part of the answers."""
    parts = [
        (task, part) for task, part in results.parts(measure)
        if any(results.values(task, length, one, part) for one in results.settings())
    ]  # fmt: skip
    if not parts:
        return None
    figure, axes = look.panels(len(parts))
    for one, (task, part) in zip(axes, parts):
        _panel(one, results, length, lambda setting: results.estimate(task, length, setting, part))
        _label(one, f"{task}, {measures.split(part)[1]}", measure)
    look.legend_below(figure, axes)
    return look.png(figure)


def pareto(results, length):
    """Decode speed of four streams against the mean accuracy: up and to the right is better."""
    tasks = results.tasks(PARETO)
    figure, (axes,) = look.panels(1, width=6.5, height=4)
    drawn = False
    for series in results.series(PARETO):
        points = []
        for budget in results.budgets() if series != FULL else [None]:
            setting = results.setting(series, budget)
            right = results.mean(length, setting, "score") if setting else None
            speed = results.estimate(tasks[0], length, setting, PARETO) if setting else None
            if right and speed:
                points.append((speed.mean, right.mean, budget))
        if points:
            drawn = True
            looks = {"marker": "*", **look.style(series, results.series())} | ({"markersize": 11} if series == FULL else {})
            axes.plot([x for x, _, _ in points], [y for _, y, _ in points], label=series, **looks)
            for x, y, budget in points:
                if budget is not None:
                    axes.annotate(f"{budget}", (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
    if not drawn:
        look.plt.close(figure)
        return None
    axes.set_xlabel("decode, tokens/s of four streams together")
    axes.set_ylabel("mean share right")
    axes.set_ylim(-0.03, 1.03)
    look.legend_below(figure, [axes])
    return look.png(figure)


def protected(results, length, measure):
    """What sink_tokens and recent_tokens do: a panel for each policy and budget that was run with several."""
    groups = {}
    for setting in results.settings():
        if setting.recent is not None or setting.sink is not None:
            groups.setdefault((setting.policy, setting.budget), []).append(setting)
    groups = {key: found for key, found in groups.items() if len(found) > 1}
    if not groups:
        return None
    figure, axes = look.panels(len(groups))
    for one, ((policy, budget), settings) in zip(axes, sorted(groups.items(), key=str)):
        for at, sink in enumerate(sorted({setting.sink for setting in settings}, key=str)):
            row = sorted((s for s in settings if s.sink == sink), key=lambda s: s.recent or 0)
            points = [(s.recent or 0, results.mean(length, s, measure)) for s in row]
            points = [(x, found) for x, found in points if found]
            if points:
                x, colour = [x for x, _ in points], look.COLOURS[at]
                label = "default sink" if sink is None else f"sink {sink}"
                one.plot(x, [f.mean for _, f in points], color=colour, marker=look.MARKERS[at % 8], label=label)
                one.fill_between(x, [f.low for _, f in points], [f.high for _, f in points], color=colour, alpha=0.1)
        one.set_title(f"{policy} @ {budget}")
        one.set_xlabel("recent tokens")
        one.set_ylabel(look.LABELS.get(measure, measure))
    look.legend_below(figure, axes)
    return look.png(figure)


PROMPT = "prompt"  # the part of an answer that the prompt told


def _exchange_points(results, task, length, settings, others):
    """[(prompt's part right, mean of the other parts right, prompt_share)]"""
    points = []
    for setting in sorted(settings, key=lambda one: one.prompt_share or 0):
        prompt = results.estimate(task, length, setting, measures.part_of("score", PROMPT))
        parts = [results.estimate(task, length, setting, part) for part in others]
        if prompt and all(parts):
            points.append((prompt.mean, sum(part.mean for part in parts) / len(parts), setting.prompt_share or 0))
    return points


def exchange(results, task, length, budget):
    """What a larger share for the prompt keeps of the prompt's fact, and gives up of the answer's: a line for each policy
    that was run with several shares."""
    own = measures.part_of("score", PROMPT)
    parts = [part for one, part in results.parts("score") if one == task]
    others = [part for part in parts if part != own]
    groups = {}
    for setting in results.settings():
        if setting.budget == budget:
            groups.setdefault(dataclasses.replace(setting, prompt_share=None).series, []).append(setting)
    if own not in parts or not any(len(settings) > 1 for settings in groups.values()):
        return None
    figure, (axes,) = look.panels(1, width=6.5, height=4.5)
    for series, settings in groups.items():
        points = _exchange_points(results, task, length, settings, others)
        if not points:
            continue
        axes.plot([x for x, _, _ in points], [y for _, y, _ in points], label=series, **look.style(series, list(groups)))
        for x, y, share in points if len(points) > 1 else []:
            axes.annotate(f"{share:g}", (x, y), textcoords="offset points", xytext=(5, 4), fontsize=7)
    full = _exchange_points(results, task, length, [Setting(FULL)], others)
    for x, y, _ in full:
        axes.plot(x, y, marker="*", markersize=11, color=look.INK, linestyle="", label=FULL)
    axes.set_xlabel("share right of the prompt's number")
    axes.set_ylabel("share right of the answer's numbers")
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    look.legend_below(figure, [axes])
    return look.png(figure)


def maps(results, task, length, budget):
    """Which positions each policy kept: layers from top to bottom, positions from left to right. Of many variants of
    KVCrush, one for each base."""
    seen = {}
    for line in results.maps:
        if (line["task"], line["length"], line.get("budget")) == (task, length, budget):
            seen.setdefault(line["policy"], line["kept"])
    if not seen:
        return None
    bands, lines = look.crush_bands(list(seen))
    seen = {policy: seen[policy] for policy in [*lines, *(names[0] for names in bands.values())]}
    figure, axes = look.panels(len(seen), columns=3, width=3.7, height=2.3)
    for one, (policy, rows) in zip(axes, seen.items()):
        shades = [[int(digit) / 9 for digit in row] for row in rows]
        image = one.imshow(shades, aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest",
                           extent=(0, 100, len(rows) - 0.5, -0.5))  # fmt: skip
        one.set_title(policy, fontsize=8)
        one.grid(False)
        one.set_ylabel("layer")
        one.set_xlabel("position, % of the text")
    figure.tight_layout()
    figure.colorbar(image, ax=axes, label="share kept", shrink=0.7 if len(axes) > 3 else 1.0, pad=0.02)
    return look.png(figure)
