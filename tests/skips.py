#!/usr/bin/env python3
"""Lists the tests that were skipped, and fails if one of them is not on the list of allowed skips.

    tests/skips.py [--allowed FILE]... REPORT.xml...

The reports are JUnit's, as ctest and pytest write them. ctest reports a skipped test as a passed one unless it is told
how to see the skip, so what the programs print is searched too. FILE is by default tests/allowed_skips.txt. With several
of them a skip may be in any, and with /dev/null alone nothing may be skipped. The lines of a file are

    TEST: REASON  # why that skip is all right

in which * stands for any text.
"""

import argparse
import collections
import pathlib
import re
import sys
import xml.etree.ElementTree

ALLOWED = pathlib.Path(__file__).with_name("allowed_skips.txt")
# A line of GoogleTest: the place of the skip, the reason, and later the test's result.
PRINTED = re.compile(r": Skipped\n(?P<why>.*)\n(?:.*\n)*?\[  SKIPPED \] (?P<test>\S+) \(\d+ ms\)")


class Refused(Exception):
    """The list or a report cannot be used."""


def allowed_skips(path):
    """[(line, pattern, compiled pattern, why)]"""
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, _, why = (part.strip() for part in line.partition("  # "))
        if not why or ": " not in pattern:
            raise Refused(f"{path}:{number}: write `TEST: REASON  # why that skip is all right`")
        rows.append((pattern, re.compile(".*".join(map(re.escape, pattern.split("*")))), why))
    return rows


def of_case(case):
    """(test, reason) of what a test case of a report skipped: itself, or tests inside its program."""
    name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
    if case.get("classname") == case.get("name"):  # ctest's
        name = case.get("name")
    printed = [(found["test"], found["why"].strip()) for found in PRINTED.finditer(case.findtext("system-out") or "")]
    marked = case.find("skipped")
    if printed:
        alone = marked is not None and len(printed) == 1
        return [(name if alone else f"{name}/{test}", why) for test, why in printed]
    if marked is not None:
        # GoogleTest's own report begins with the place.
        why = re.sub(r"^\S+:\d+\n", "", marked.get("message") or "")
        return [(name, why.strip() or "no reason is given")]
    return [(name, "it is disabled")] if case.get("status") == "disabled" else []


def skips(report):
    try:
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        raise Refused(f"{report}: not a report of tests: {error}") from None
    if not cases:
        raise Refused(f"{report}: holds no tests")
    return [skip for case in cases for skip in of_case(case)]


def sorted_by_row(found, allowed):
    """Row of an allowed skip, or None -> the skips that it allows."""
    by_row = collections.defaultdict(list)
    for test, reason in found:
        matching = (row for row in allowed if row[1].fullmatch(f"{test}: {reason}"))
        by_row[next(matching, None)].append((test, reason))
    return by_row


def refused(found, allowed):
    """The skips that no row allows."""
    return sorted_by_row(found, allowed).get(None, [])


def show(tests):
    """One line for each test; its cases are counted."""
    names = collections.Counter(re.sub(r"\[.*\]$", "", test, flags=re.S) for test, _ in tests)
    for name, count in sorted(names.items()):
        print(f"    {name}" + (f" ({count} cases)" if count > 1 else ""))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allowed", type=pathlib.Path, action="append")
    parser.add_argument("reports", nargs="+", metavar="REPORT.xml")
    options = parser.parse_args(arguments)
    lists = options.allowed or [ALLOWED]
    try:
        allowed = [row for path in lists for row in allowed_skips(path)]
        found = [skip for report in options.reports for skip in skips(report)]
    except Refused as refusal:
        print(f"skips: {refusal}", file=sys.stderr)
        return 2
    by_row = sorted_by_row(found, allowed)
    others = by_row.pop(None, [])
    print(f"skips: {len(found)} tests were skipped, {len(others)} of them are not in {' or '.join(path.name for path in lists)}")
    for (pattern, _, why), tests in by_row.items():
        print(f"  {pattern}\n  allowed because {why}")
        show(tests)
    for test, reason in others:
        print(f"  NOT ALLOWED {test}: {reason}")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
