"""python3 -m suite.merge OUT RESULTS.json...: one results.json and results.md of runs that did a part each.

A run is made in parts where one would pass its time, or where a section needs another setting than the rest. When a section
is in several runs, the last run that did not skip it counts. Those of `run.sh --sanitizers` come last. The runs must be of one
commit and one kind of device.
"""

import json
import pathlib
import sys

from .places import Places
from .plan import Suite
from .sections import NOT_RUN, SKIPPED, not_run
from .tables import render


def order():
    """The sections as a whole run has them."""
    return Suite(Places("."), ".").sections()


def merge(runs):
    if len({(run["commit"], run["device"]["name"]) for run in runs}) != 1:
        raise ValueError("the runs are of different commits or devices")
    done, records = {}, {}
    for run in runs:
        for section in run["sections"]:
            name = section["name"]
            if name in done and section["state"] in (NOT_RUN, SKIPPED):
                continue
            done[name] = section
            records[name] = run["records"].get(name, [])
    dates = list(dict.fromkeys(run["date"] for run in runs))
    missing = {one["name"]: one for one in not_run(order(), "it is in none of the runs")}
    return {
        **runs[0],
        "date": ", ".join(dates),
        "device_after": runs[-1].get("device_after"),
        "sections": [done.pop(name, missing[name]) for name in missing] + list(done.values()),
        "records": records,
    }


def main():
    out, *paths = map(pathlib.Path, sys.argv[1:])
    results = merge([json.loads(path.read_text()) for path in paths])
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (out / "results.md").write_text(render(results))


if __name__ == "__main__":
    main()
