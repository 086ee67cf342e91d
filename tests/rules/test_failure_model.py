"""Each promise of docs/failure-model.md names tests that exist."""

import ast
import re

import pytest
from test_layout import ROOT

PAGE = ROOT / "docs/failure-model.md"
PYTHON = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
CPP = re.compile(r"(\w+): (\w+)\.(\w+)")


def promises(text):
    """(promise, names of its tests) of each row of the page's tables whose second column is "shown by"."""
    heading = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            heading = None
        elif heading is None:
            heading = cells
        elif heading[1:] == ["shown by"] and not line.startswith("|---"):
            assert len(cells) == 2, f"a row of two cells: {line}"
            yield cells[0], re.findall(r"`([^`]+)`", cells[1])


def sources(program):
    """The files of a C++ test program, as folio_test names them."""
    for cmake in [*ROOT.glob("tests/**/CMakeLists.txt"), *ROOT.glob("tests/**/*.cmake")]:
        for call in re.findall(rf"folio_test\(\s*{program}\s([^)]*)\)", cmake.read_text()):
            yield from (cmake.parent / name for name in re.findall(r"\S+\.(?:cc|cu)\b", call))


def fault(name):
    """Why a name is not that of a test, or None."""
    if match := PYTHON.fullmatch(name):
        file = ROOT / match[1]
        if not file.is_file():
            return "there is no such file"
        found = {node.name for node in ast.parse(file.read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        return None if match[2] in found and match[2].lower().startswith("test") else "the file has no such test"
    if match := CPP.fullmatch(name):
        files = list(sources(match[1]))
        if not files:
            return "no CMakeLists.txt makes that program by folio_test"
        test = re.compile(rf"^TEST(?:_[FP])?\(\s*{match[2]},\s*{match[3]}\)", re.M)
        return None if any(test.search(file.read_text()) for file in files) else "the program has no such test"
    return "write tests/FOLDER/FILE.py::TEST, or PROGRAM: SUITE.TEST"


def test_each_promise_names_tests_that_exist():
    found = list(promises(PAGE.read_text()))
    assert len(found) >= 25, "found hardly any promise: does the test still understand the page?"
    assert len({promise for promise, _ in found}) == len(found), "a promise is given twice"
    wrong = [f"{promise}: no test" for promise, names in found if not names]
    wrong += [f"{name}: {why}" for _, names in found for name in names if (why := fault(name))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name, words", [
    ("tests/e2e/test_nothing.py::test_it", "no such file"), ("tests/e2e/test_orphans.py::test_nothing", "no such test"),
    ("tests/e2e/test_orphans.py::node", "no such test"), ("no_such_test: Session.AWorkerHasOne", "makes that program"),
    ("session_test: Session.DoesNotExist", "no such test"), ("attach_test: Session.AWorkerHasOne", "no such test"),
    ("session_test", "PROGRAM: SUITE.TEST"),
])  # fmt: skip
def test_finds_names_of_no_test(name, words):
    assert words in fault(name)


def test_understands_tables():
    text = "| promise | shown by |\n|---|---|\n| a | `x`, `y` |\n| b | none |\n\n| subject | what is missing |\n|---|---|\n| c | `d` |\n"
    assert list(promises(text)) == [("a", ["x", "y"]), ("b", [])]
