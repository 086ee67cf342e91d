#!/usr/bin/env python3
"""Draws the dashboard with data of real daemons, without Grafana, and says which panels have none.

    $(tests/python.sh) tests/helm/dashboard.py [--seconds 60] [--out build/dashboard.png]

A manager, two workers with the reference model (FOLIO_MODEL, or the one that deploy/fetch_model.sh finds) and a gateway run on this
machine, from FOLIO_BIN (default build/bin). A Prometheus of promtool.sh asks them every second. Clients of the gateway give them work
in which something is evicted, parked, refused and left, and one worker is killed halfway and comes back. Then the expressions of
helm/folio/files/dashboard.json are asked, and each panel is drawn where Grafana has it, with the unit and the legend that it names.

The end is 1 if Prometheus refuses an expression, or if a panel has no number. Panels and targets that are 0 all the time are named
too, because nothing happened that they show. Counters begin at 0, so a panel of rare failures has numbers as well.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import matplotlib
import numpy
from monitoring import filled

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RANGE = "10s"  # in the place of $__rate_interval
CLIENTS = 8
POLICIES = ["full", "streaming_llm", "query_diff", "paged_eviction", "key_diff"]
PROSE = "Two long walls of stone lie before the harbour. In spring the boats come back with salt, rope, coal, glass and letters. "


def output(script):
    return subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@contextlib.contextmanager
def prometheus(folder, jobs):
    """The address of a Prometheus of the distribution, which asks the addresses of each job every second."""
    from node import PATIENCE, Process, wait_until

    program = output(HERE / "promtool.sh")
    targets = [{"job_name": job, "static_configs": [{"targets": addresses}]} for job, addresses in jobs.items()]
    config = folder / "prometheus.yaml"  # JSON is YAML
    config.write_text(json.dumps({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": targets}))
    arguments = [f"--config.file={config}", f"--storage.tsdb.path={folder}/series", "--web.listen-address=127.0.0.1:0"]
    process = Process(f"{program}/prometheus", arguments, folder / "prometheus.log")
    try:
        process.says('msg="Listening on"')
        address = re.search(r'msg="Listening on" address=(\S+)', process.words())[1]
        every = f"sum(up) == {sum(map(len, jobs.values()))}"
        wait_until(lambda: query(address, "query", query=every)[0], PATIENCE, "Prometheus has asked all daemons")
        yield address
    finally:
        process.stop()


def query(address, path, **parameters):
    """(series, words of the refusal): one of them is empty."""
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}") as answer:
            return json.load(answer)["data"]["result"], ""
    except urllib.error.HTTPError as error:
        return [], error.read().decode()


def leave(gateway, fields):
    """Leaves a stream that has begun."""
    connection, response = gateway.open("/v1/completions", {**fields, "stream": True})
    response.readline()
    response.close()
    connection.close()
    return "left"


def ask(gateway, number):
    """Sends one request, of a kind that depends on its number. Gives the status of the answer."""
    policy = POLICIES[number % len(POLICIES)]
    fields = {"max_tokens": 40 + 20 * (number % 4), "temperature": 0.7, "stream": number % 2 == 0}
    if policy != "full":
        fields["cache"] = {"policy": policy, "budget": 64}
    prompt = {"prompt": f"{number}. {PROSE * (1 + number % 4)}", "ignore_eos": True}
    match number % 13:
        case 3:
            return gateway.complete(prompt=7).status  # of a wrong type
        case 5:
            return gateway.chat(model="another", messages=[{"role": "user", "content": "Hello"}]).status
        case 7:
            return leave(gateway, {**fields, **prompt})
        case 9:
            return gateway.complete(prompt=[5] * 6000, max_tokens=1).status  # more than the pool has room for
        case 11:
            return gateway.get("/v1/engines").status  # such a path does not exist
        case 0 | 2 | 8:
            return gateway.chat(messages=[{"role": "user", "content": f"Say the number {number}."}], **fields).status
        case 12:
            with gateway.socket() as client:
                client.sendall(b"this is not HTTP\r\n\r\n")
                return int(client.recv(1000).split()[1])
    return gateway.complete(**fields, **prompt).status


def load(node, gateway, seconds, flags):
    """Clients ask for so many seconds, and the second worker is killed halfway. Gives the end, and the count of each status."""
    end = time.monotonic() + seconds

    def run(client):
        found = collections.Counter()
        while time.monotonic() < end:
            found[ask(gateway, client)] += 1
            client += CLIENTS
        return found

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as threads:
        clients = [threads.submit(run, client) for client in range(CLIENTS)]
        time.sleep(seconds / 2)
        lost = node.workers.pop("second")
        lost.popen.kill()
        lost.wait()
        time.sleep(min(5, seconds / 10))
        node.launch_worker("second", flags=flags)
        time.sleep(max(0, end - time.monotonic()))
        now = time.time()
    return now, sum((client.result() for client in clients), collections.Counter())


@contextlib.contextmanager
def daemons():
    """(node, gateway, flags of the second worker, addresses of each job). All daemons serve."""
    if not os.environ.get("FOLIO_MODEL"):
        os.environ["FOLIO_MODEL"] = output(ROOT / "deploy/fetch_model.sh")
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    from gateway import Gateway
    from metrics import ENDPOINT, Metrics
    from node import Node

    with Node(pool="12MiB", lease="5s", manager_flags=[*ENDPOINT, "--host_swap_bytes=8MiB"]) as node:
        flags = ["--threads=1", "--max_batch=6"]
        node.start_worker("first", flags=[*flags, *ENDPOINT])
        node.start_worker("second", flags=[*flags, *ENDPOINT])
        with Gateway(node, "first", "second", flags=[*ENDPOINT, f"--manager={node.manager_address}"]) as gateway:
            address = lambda process: Metrics(process).address  # noqa: E731
            second = address(node.workers["second"])
            workers = [address(node.workers["first"]), second]
            jobs = {"folio-manager": [address(node.manager)], "folio-worker": workers, "folio-gateway": [address(gateway.process)]}
            yield node, gateway, [*flags, f"--metrics_listen={second}"], jobs


def measured(seconds, panels):
    """The panels' series as {id of the panel: [(target, series, refusal)]}, their begin, and how many seconds they have."""
    with daemons() as (node, gateway, flags, jobs), prometheus(node.path, jobs) as address:
        begin = time.time()
        end, statuses = load(node, gateway, seconds, flags)
        print("answers: " + ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items(), key=str)))
        found = {panel["id"]: [] for panel in panels}
        for panel, target in ((panel, target) for panel in panels for target in panel["targets"]):
            now = panel["type"] in ("stat", "table")
            path, at = ("query", {"time": end}) if now else ("query_range", {"start": begin, "end": end, "step": 1})
            expression = filled(target["expr"].replace("$__rate_interval", RANGE))
            found[panel["id"]].append((target, *query(address, path, query=expression, **at)))
        return found, begin, int(end - begin) + 1


def line(series, begin, length):
    """The numbers of a series for each second since `begin`, with NaN where it has none and Grafana leaves a gap."""
    found = numpy.full(length, math.nan)
    for when, value in series["values"]:
        found[round(when - begin)] = float(value)
    return found


def numbers(series):
    """All numbers of some series."""
    values = [float(value) for one in series for _, value in one.get("values") or [one["value"]]]
    return [value for value in values if math.isfinite(value)]


def scaled(value, unit):
    """A number as Grafana shows it in that unit."""
    steps = {
        "s": [(1e-6, 1e-9, " ns"), (1e-3, 1e-6, " µs"), (1, 1e-3, " ms"), (60, 1, " s"), (3600, 60, " min"), (math.inf, 3600, " h")],
        "bytes": [(1024, 1, " B"), (1 << 20, 1 << 10, " KiB"), (1 << 30, 1 << 20, " MiB"), (math.inf, 1 << 30, " GiB")],
        "percentunit": [(math.inf, 0.01, "%")],
    }  # fmt: skip
    words = {"none": "", "reqps": " req/s", "cps": " c/s"}.get(unit, " " + unit.removeprefix("count:"))
    for below, divisor, suffix in steps.get(unit, [(math.inf, 1, words)]):
        if abs(value) < below and value:
            return f"{value / divisor:.4g}{suffix}"
    return "0"


def legend(target, labels):
    words = re.sub(r"{{\s*(\w+)\s*}}", lambda match: labels.get(match[1], ""), target["legendFormat"])
    return " ".join(words.split()) or "(without a name)"


def draw_lines(axes, panel, found, begin, length):
    defaults, seconds = panel["fieldConfig"]["defaults"], numpy.arange(length)
    lines = [(legend(target, one["metric"]), line(one, begin, length)) for target, series, _ in found for one in series]
    below = numpy.zeros(length)
    for name, values in lines:
        if defaults["custom"]["stacking"]["mode"] == "normal":
            top = below + numpy.nan_to_num(values)
            axes.fill_between(seconds, below, top, label=name, alpha=0.6)
            below = top
        else:
            axes.plot(seconds, values, label=name, linewidth=1.2)
    axes.set_xlim(0, length - 1)
    axes.xaxis.set_major_formatter(lambda second, _: f"{second:.0f} s")
    axes.set_ylim(defaults.get("min"), defaults.get("max") or (None if any(numpy.nansum(values) for _, values in lines) else 1))
    axes.yaxis.set_major_formatter(lambda value, _: scaled(value, defaults["unit"]))
    axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5))
    axes.grid(alpha=0.3)
    if lines:
        columns = 3 if sum(len(name) for name, _ in lines) / len(lines) < 25 else 2
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=columns, fontsize=6.5, frameon=False)


def draw_table(axes, panel, found):
    hidden = panel["transformations"][0]["options"]["excludeByName"]
    rows = [{key: value for key, value in one["metric"].items() if not hidden.get(key)} for _, series, _ in found for one in series]
    if rows:
        names = sorted({key for row in rows for key in row})
        table = axes.table([[row.get(name, "")[:24] for name in names] for row in rows], colLabels=names, loc="center", cellLoc="left")
        table.auto_set_font_size(False)
        table.set_fontsize(7)


def draw(dashboard, found, begin, length, out):
    """All panels in one picture, each at its place."""
    panels = dashboard["panels"]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = pyplot.figure(figsize=(20, 0.36 * height), dpi=80)
    for panel in panels:
        at = panel["gridPos"]
        left, top, row = at["x"] / 24, 1 - at["y"] / height, 1 / height
        if panel["type"] == "row":
            figure.text(0.005, top - 0.7 * row, panel["title"], fontsize=15, weight="bold")
            continue
        low = 2.3 if panel["type"] == "timeseries" else 0.3
        axes = figure.add_axes((left + 0.04, top - (at["h"] - low) * row, at["w"] / 24 - 0.05, (at["h"] - low - 0.9) * row))
        axes.set_title(panel["title"], fontsize=10, loc="left")
        axes.tick_params(labelsize=7)
        if panel["type"] == "timeseries":
            draw_lines(axes, panel, found[panel["id"]], begin, length)
        else:
            axes.axis("off")
        if panel["type"] == "table":
            draw_table(axes, panel, found[panel["id"]])
        values = numbers([one for _, series, _ in found[panel["id"]] for one in series])
        if panel["type"] == "stat" or not values:
            words = scaled(values[-1], panel["fieldConfig"]["defaults"]["unit"]) if values else "No data"
            axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", fontsize=22)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def judged(panels, found):
    """Says what is missing. Gives how many faults there are."""
    faults, still = [], []
    for panel in panels:
        targets, title = found[panel["id"]], panel["title"]
        faults += [f"{title}: Prometheus refuses {target['expr']}: {refusal}" for target, _, refusal in targets if refusal]
        values = [numbers(series) for _, series, _ in targets]
        faults += [] if any(values) else [f"{title}: no number"]
        still += [f"{title} ({target['legendFormat']}): {'no number' if not one else 'always 0'}"
                  for (target, _, _), one in zip(targets, values, strict=True) if not any(one)]  # fmt: skip
    print("targets without anything:", *(still or ["none"]), *(["FAULTS:", *faults] if faults else ["each panel has numbers"]), sep="\n")
    return len(faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long the clients ask")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/dashboard.png", help="the picture")
    parser.add_argument("--dashboard", type=pathlib.Path, default=ROOT / "helm/folio/files/dashboard.json")
    arguments = parser.parse_args()
    dashboard = json.loads(arguments.dashboard.read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    found, begin, length = measured(arguments.seconds, panels)
    draw(dashboard, found, begin, length, arguments.out)
    print(f"the picture is {arguments.out}")
    return 1 if judged(panels, found) else 0


if __name__ == "__main__":
    sys.exit(main())
