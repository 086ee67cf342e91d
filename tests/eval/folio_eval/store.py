"""Results as JSON lines: appended while a run goes on, read by the next run and by the report.

A line is what one cell gave for prompts `first` and after, each measure a list with one number (or null) per prompt:

    {"task": "needle_prose", "length": 1024, "policy": "key_diff", "budget": 256, "seed": 0, "first": 0,
     "measures": {"score": [1.0, 0.0], "nll": [0.02, 1.3]}, "seconds": {...}, "kept": [...]}

A cell that failed has "error" in the place of measures, and is tried again by the next run.
"""

import dataclasses
import gzip
import json
import pathlib

from folio_eval.cells import Cell, Setting

SETTING = tuple(field.name for field in dataclasses.fields(Setting))


class ResultsError(Exception):
    """A file of results that cannot be used."""


def header(cell, first):
    """The part of a line that says which prompts of which cell it is."""
    setting = {name: value for name, value in dataclasses.asdict(cell.setting).items() if value is not None}
    return {"task": cell.task, "length": cell.length, **setting, "seed": cell.seed, "first": first}


def measured(rows):
    """The "measures" of a line, of the measures of each prompt in order. A file's records may differ in kind."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [round(float(row[name]), 5) if name in row else None for row in rows] for name in names}


def cell_of(line):
    return Cell(line["task"], line["length"], Setting(*(line.get(name) for name in SETTING)), line["seed"])


def prompts(line):
    return len(next(iter(line["measures"].values())))


def read_lines(path):
    """All lines of a file (.gz too). A last line that was cut off while it was written is left out."""
    path = pathlib.Path(path)
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as file:
        rows = file.read().split("\n")
    lines = []
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        try:
            lines.append(json.loads(row))
        except json.JSONDecodeError as error:
            if number < len(rows):  # the last one ends without a line feed
                raise ResultsError(f"{path}, line {number}: {error}") from error
    return lines


class Store:
    """One file, for one run at a time. Not thread-safe."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        lines = read_lines(self.path) if self.path.exists() else []
        self.done = {}
        for line in lines:
            if "measures" in line:
                cell = cell_of(line)
                self.done[cell] = max(self.done.get(cell, 0), line["first"] + prompts(line))
        self._cut_torn_line()

    def _cut_torn_line(self):
        if self.path.exists():
            text = self.path.read_bytes()
            whole = text[: text.rfind(b"\n") + 1]
            if whole != text:
                self.path.write_bytes(whole)

    def append(self, line):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def gather(lines):
    """{Cell: {measure: {prompt: value}}} of all lines that hold measures; a prompt's later line wins."""
    cells = {}
    for line in lines:
        if "measures" in line:
            measures = cells.setdefault(cell_of(line), {})
            for name, values in line["measures"].items():
                known = {at: value for at, value in enumerate(values, line["first"]) if value is not None}
                measures.setdefault(name, {}).update(known)
    return cells
