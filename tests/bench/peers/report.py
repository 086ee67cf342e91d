"""Results side by side: report.py FOLIO.json PEER.json..."""

import json
import sys


def main():
    runs = [json.load(open(path, encoding="utf-8")) for path in sys.argv[1:]]
    names = list(dict.fromkeys(name for run in runs for name in run["results"]))
    widths = [max(len(run["peer"]), 9) for run in runs]
    print("tokens/s, all sequences together")
    print(f"{'':24}" + "  ".join(f"{run['peer']:>{w}}" for run, w in zip(runs, widths)))
    for name in names:
        cells = []
        for run, width in zip(runs, widths):
            value = run["results"].get(name)
            cells.append(f"{value:>{width},.0f}" if value is not None else f"{'-':>{width}}")
        print(f"{name:24}" + "  ".join(cells))
    folio = runs[0]["results"]
    for run in runs[1:]:
        shared = [n for n in names if n in folio and n in run["results"]]
        print(f"Folio / {run['peer']}: " +
              ", ".join(f"{n} {folio[n] / run['results'][n]:.2f}" for n in shared))


if __name__ == "__main__":
    main()
