"""tests/skips.py lists every skip of ctest and pytest, and fails on those that are not allowed with a reason."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """[ RUN      ] Models.Given
/source/a_test.cc:44: Skipped
no model is given

[  SKIPPED ] Models.Given (0 ms)
[ RUN      ] Models.Tiny
[       OK ] Models.Tiny (2 ms)
[ RUN      ] Models.Large/half
/source/a_test.cc:51: Skipped
on a GPU only

[  SKIPPED ] Models.Large/half (0 ms)
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] Models.Given
[  SKIPPED ] Models.Large/half
"""
ALONE = PROGRAM[: PROGRAM.index("[ RUN      ] Models.Tiny")]
# ctest's report of them, as a program for one test and as a program of several, of which ctest does not know.
CTEST = f"""<testsuite name="Linux"><properties/>
<testcase name="Cache.Holds" classname="Cache.Holds" status="run"><system-out>fine</system-out></testcase>
<testcase name="Models.Given" classname="Models.Given" status="notrun">
<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>{ALONE}</system-out></testcase>
<testcase name="models" classname="models" status="run"><system-out>{PROGRAM}</system-out></testcase>
<testcase name="Cache.DISABLED_Frees" classname="Cache.DISABLED_Frees" status="disabled"/>
<testcase name="script" classname="script" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase></testsuite>"""
# GoogleTest's.
GTEST = """<testsuites><testsuite name="Models"><testcase name="Given" classname="Models" status="run" result="skipped">
<skipped message="../tests/a_test.cc:44&#x0A;no model is given"/></testcase></testsuite></testsuites>"""


def check(tmp_path, allowed, *reports):
    files = []
    for number, text in enumerate([allowed, *reports]):
        files.append(tmp_path / f"{number}")
        files[-1].write_text(text)
    done = subprocess.run([ROOT / "tests/skips.py", "--allowed", *files], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_each_skip_of_ctest_is_seen(tmp_path):
    code, said = check(tmp_path, "# none\n", CTEST)
    assert code == 1 and "5 tests were skipped, 5 of them are not in" in said
    for line in ("Models.Given: no model is given", "models/Models.Given: no model is given",
                 "models/Models.Large/half: on a GPU only", "Cache.DISABLED_Frees: it is disabled",
                 "script: SKIP_RETURN_CODE=77"):
        assert f"NOT ALLOWED {line}\n" in said, said
    assert "Cache.Holds" not in said and "Tiny" not in said


def test_a_skip_of_googletest_is_known_without_its_place(tmp_path):
    assert check(tmp_path, "Models.Given: no model*  # a machine may lack models\n", GTEST)[0] == 0
    assert check(tmp_path, "# none\n", GTEST)[0] == 1


def test_what_is_allowed_is_listed_with_its_reason(tmp_path):
    allowed = "*Models.*: *  # a machine may lack models\nCache.*: it is disabled  # so far\nscript: *=77  # no GPU\n"
    code, said = check(tmp_path, allowed, CTEST)
    assert code == 0 and "0 of them are not in" in said
    assert "allowed because a machine may lack models\n    Models.Given\n    models/Models.Given\n" in said


@pytest.mark.parametrize("allowed, code", [
    ("Models.Given: no model is given", 1),  # of another test
    ("script: it was removed", 1),  # for another reason
    ("scrip: SKIP_RETURN_CODE=77", 1),
    ("script: SKIP_RETURN_CODE=77", 0),
    ("script: SKIP_RETURN_CODE=7*", 0),
    ("script: SKIP.RETURN.CODE=77", 1),  # only * is special
])  # fmt: skip
def test_a_pattern_fits_the_test_and_the_reason(tmp_path, allowed, code):
    report = CTEST[: CTEST.index("<testcase")] + CTEST[CTEST.index('<testcase name="script"') :]
    assert check(tmp_path, f"{allowed}  # for a test\n", report)[0] == code


def test_several_lists_count_together_and_an_empty_one_allows_nothing(tmp_path):
    first, second, report = (tmp_path / name for name in ("first", "second", "report.xml"))
    first.write_text("*Models.*: *  # a machine may lack models\nCache.*: it is disabled  # so far\n")
    second.write_text("script: *=77  # no GPU\n")
    report.write_text(CTEST)

    def run(*lists):
        options = [option for one in lists for option in ("--allowed", one)]
        command = [ROOT / "tests/skips.py", *options, report]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    both = run(first, second)
    assert both.returncode == 0 and "0 of them are not in first or second" in both.stdout
    assert run(first).returncode == 1
    assert "5 of them are not in null" in run("/dev/null").stdout


@pytest.mark.parametrize("file", ["allowed_skips.txt", "allowed_skips_without_model.txt"])
def test_our_lists_are_read(tmp_path, file):
    report = tmp_path / "report.xml"
    report.write_text(CTEST)
    command = [ROOT / "tests/skips.py", "--allowed", ROOT / "tests" / file, report]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 1


@pytest.mark.parametrize("allowed, report, word", [
    ("script: *\n", CTEST, "TEST: REASON  # why"),  # no reason why
    ("script  # no reason of the test\n", CTEST, "TEST: REASON  # why"),
    ("", "<testsuite/>", "holds no tests"),
    ("", "<testsuite", "not a report of tests"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused(tmp_path, allowed, report, word):
    code, said = check(tmp_path, allowed, report)
    assert code == 2 and word in said, said


def test_skips_of_pytest_are_seen_as_it_reports_them(tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('name', 'ab')\n"
        "@pytest.mark.skipif(True, reason='no cluster: start one')\n"
        "def test_pods(name): pass\n"
        "@pytest.mark.xfail(reason='not yet')\n"
        "def test_later(): assert False\n"
        "def test_now(): pass\n"
    )
    (folder / "test_whole.py").write_text("import pytest\npytest.skip('no module', allow_module_level=True)\n")
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml", "tests"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    allowed = "tests.test_some.test_pods[*]: no cluster:*  # none here\n"
    code, said = check(tmp_path, allowed, (tmp_path / "report.xml").read_text())
    assert code == 1 and "4 tests were skipped, 2 of them are not in" in said, said
    assert "allowed because none here\n    tests.test_some.test_pods (2 cases)\n" in said
    assert "NOT ALLOWED tests.test_some.test_later: not yet\n" in said
    assert "NOT ALLOWED tests.test_whole: " in said, said
