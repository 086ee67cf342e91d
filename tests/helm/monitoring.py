#!/usr/bin/env python3
"""Checks dashboard and alerts against the list of metrics: monitoring.py MONITORING.MD DASHBOARD.JSON RULES.YAML OUT

MONITORING.MD has a table row for each metric, "| `name` | kind | labels | meaning |". Every metric of the dashboard and of the
rules must be in it, and the list must be that of the daemons' sources. OUT gets the expressions of the dashboard as recording rules, which promtool can then parse.
"""

import json
import pathlib
import re
import sys

METRIC = re.compile(r"\b(folio:[a-z0-9_]+|process_[a-z0-9_]+)\b")
ROW = re.compile(r"^\| `((?:folio:|process_)\w+)` \| (gauge|counter|histogram) \|", re.M)
SERVICES = pathlib.Path(__file__).resolve().parents[2] / "services"
DEFINED = re.compile(r'"(folio:\w+)"|(?:gauge|Family)\(\s*"(process_\w+)"')
# Parts of an expression that Grafana fills in.
VARIABLES = {"$__rate_interval": "5m", "$job": ".*", "$model_name": ".*"}
ROWS = ["Requests", "Latency", "Gateway", "Cache", "Eviction", "Failures", "Processes"]
CHOICES = ["datasource", "job", "model_name"]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def listed(page):
    """The series that the page names. A histogram has three."""
    found = set()
    for name, kind in ROW.findall(page):
        found |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return found


def faults_of_list(page):
    documented = {name for name, _ in ROW.findall(page)}
    defined = {"".join(found) for path in SERVICES.rglob("*.cc") for found in DEFINED.findall(path.read_text())}
    yield from (f"the daemons have {name}, and the page does not list it" for name in defined - documented)
    yield from (f"the page lists {name}, and the daemons do not have it" for name in documented - defined)


def filled(expression):
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def faults_of_panels(dashboard):
    panels = dashboard["panels"]
    if [panel["title"] for panel in panels if panel["type"] == "row"] != ROWS:
        yield f"the rows are not {', '.join(ROWS)}"
    if [variable["name"] for variable in dashboard["templating"]["list"]] != CHOICES:
        yield f"the variables are not {', '.join(CHOICES)}"
    if len({panel["id"] for panel in panels}) != len(panels):
        yield "two panels have one id"
    places = set()
    for panel in panels:
        at, title = panel["gridPos"], panel["title"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        if cells & places or at["x"] + at["w"] > 24:
            yield f"{title} lies on another panel or outside"
        places |= cells
        if panel["type"] == "row":
            continue
        if not panel.get("description", "").endswith("."):
            yield f"{title} has no description"
        if panel["datasource"] != SOURCE or any(target["datasource"] != SOURCE for target in panel["targets"]):
            yield f"{title} has a data source of its own"


def expressions(dashboard):
    """(title, expression) of each target, and of each variable that asks Prometheus."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], filled(target["expr"])
    for variable in dashboard["templating"]["list"]:
        if match := re.fullmatch(r"label_values\((.*), \w+\)", variable.get("definition", "")):
            yield f"the variable {variable['name']}", filled(match[1])


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    page, dashboard, rules = (pathlib.Path(path).read_text() for path in sys.argv[1:4])
    known, dashboard = listed(page), json.loads(dashboard)
    wrong = [*faults_of_list(page), *faults_of_panels(dashboard)]
    asked = list(expressions(dashboard))
    for title, expression in asked:
        wrong += [f"{title}: {sys.argv[1]} does not list {name}" for name in METRIC.findall(expression) if name not in known]
        wrong += [f"{title}: {left} is not a variable of the dashboard" for left in re.findall(r"\$\w+", expression)]
    for name in METRIC.findall("\n".join(re.findall(r"expr: (.*)", rules))):
        if name not in known:
            wrong.append(f"an alert asks for {name}, which {sys.argv[1]} does not list")
    if len(known) < 40 or len(asked) < 40:
        wrong.append(f"only {len(known)} series and {len(asked)} expressions were found: does monitoring.py still understand them?")
    if wrong:
        sys.exit("\n".join(["monitoring.py:", *sorted(set(wrong))]))
    recorded = [{"record": f"dashboard:expression:{index}", "expr": expression} for index, (_, expression) in enumerate(asked)]
    pathlib.Path(sys.argv[4]).write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    print(f"{len(asked)} expressions of the dashboard ask for metrics that are listed")


if __name__ == "__main__":
    main()
