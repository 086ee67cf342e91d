#!/usr/bin/env python3
"""Compares findings of kube-score with the reviewed list: score.py SCORE.TXT FILE.SCORE...

Each file is the JSON of one run. SCORE.TXT has a line for each finding that stays, "KIND CHECK CONTAINER reason". The
comparison fails for a finding that is not in the list, and for a line that fits no finding any more.
"""

import json
import pathlib
import sys

# kube-score grades a check from 1 (critical) over 5 (warning) to 10 (fine).
FINE = 10


def findings(path):
    """(kind, check, container, what kube-score says) of each check that is not fine."""
    for found in json.loads(path.read_text()):
        for check in found["checks"] or []:
            if check["skipped"] or check["grade"] >= FINE:
                continue
            kind, name = found["type_meta"]["kind"], found["object_meta"]["name"]
            for comment in check["comments"] or [{"path": "", "summary": check["check"]["name"]}]:
                yield kind, check["check"]["id"], comment["path"] or "-", f"{name}: {comment['summary']}"


def reviewed(path):
    """The set of (kind, check, container) of the list."""
    rows = [line.split(maxsplit=3) for line in path.read_text().splitlines() if line and not line.startswith("#")]
    unexplained = [" ".join(row) for row in rows if len(row) < 4]
    if unexplained:
        sys.exit(f"{path.name} gives no reason for {', '.join(unexplained)}")
    return {tuple(row[:3]) for row in rows}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    known, seen, wrong, objects = reviewed(pathlib.Path(sys.argv[1])), set(), [], 0
    for path in map(pathlib.Path, sys.argv[2:]):
        objects += len(json.loads(path.read_text()))
        for kind, check, container, said in findings(path):
            fits = {(kind, check, container), (kind, check, "*")} & known
            seen |= fits
            if not fits:
                wrong.append(f"{path.stem}: {kind} {check} {container} {said}")
    wrong += [f"{' '.join(row)} is in {sys.argv[1]}, and kube-score finds it no more" for row in sorted(known - seen)]
    if not objects:
        wrong.append("kube-score saw no object at all")
    if wrong:
        sys.exit("\n".join(["kube-score:", *wrong]))
    print(f"{objects} objects, {len(known)} reviewed findings")


if __name__ == "__main__":
    main()
