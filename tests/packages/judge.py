"""Judges the parts of folioctl by several tables of licences, for test_sbom.py. Runs in the environment of deploy/sbom.

judge.py BUILD reads a JSON list of texts like licences.txt, and writes a list of problems for each. The parts are found once.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "deploy/sbom"))
import contents
import licences

PARTS = sorted(contents.program_parts(pathlib.Path(sys.argv[1]), "bin/folioctl"))


def judge(text):
    try:
        table = licences.Licences(text)
    except SystemExit as refused:
        return [str(refused)]
    return [problem for part in PARTS if (problem := table.problem(part))]


print(json.dumps([judge(text) for text in json.load(sys.stdin)]))
