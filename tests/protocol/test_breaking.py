"""breaking.sh finds what breaks clients of the last release, and takes what is listed with a reason."""

import pathlib
import re
import shutil
import subprocess

import pytest
from cache_folder import CACHE

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/protocol/breaking.sh"
VERSION = re.search(r"buf_version=(\S+)", SCRIPT.read_text())[1]
BUF = CACHE / "buf" / VERSION / "buf"
REMOVED = 'folio/v1/inference.proto: Previously present RPC "Score" on service "Inference" was deleted.'

pytestmark = pytest.mark.skipif(not BUF.exists(), reason="buf is not built: run tests/protocol/breaking.sh once")


@pytest.fixture
def copy(tmp_path):
    for folder in ("proto", "tests/protocol"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "tests/protocol/intended.txt").write_text("# none\n")
    return tmp_path


def change(copy, name, old, new):
    path = copy / f"proto/folio/v1/{name}.proto"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def check(copy):
    done = subprocess.run([copy / "tests/protocol/breaking.sh"], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def without_score(copy):
    text = (copy / "proto/folio/v1/inference.proto").read_text()
    call = re.search(r"  rpc Score\(.*?;\n", text)[0]
    change(copy, "inference", call, "")


def test_this_tree_breaks_no_client():
    code, said = check(ROOT)
    assert code == 0 and "compatible with" in said, said


@pytest.mark.parametrize("name, old, new, word", [
    ("inference", "bytes resume_token = 2;", "string resume_token = 2;", "changed type"),
    ("inference", "optional uint32 logprobs = 7;", "optional uint32 logprobs = 77;", "logprobs"),
    ("types", "message PageRef {", "message PageReference {", "PageRef"),
    ("admin", "rpc ListPools(", "rpc Pools(", "ListPools"),
])
def test_a_change_that_breaks_is_found(copy, name, old, new, word):
    if name == "types":  # the name is used elsewhere
        for path in (copy / "proto/folio/v1").iterdir():
            path.write_text(re.sub(r"\bPageRef\b", "PageReference", path.read_text()))
    else:
        change(copy, name, old, new)
    code, said = check(copy)
    assert code == 1 and word in said, said


def test_an_addition_breaks_nothing(copy):
    change(copy, "inference", "message Resume {", "message News {\n  string text = 1;\n}\n\nmessage Resume {")
    assert check(copy)[0] == 0


def test_a_listed_change_is_taken_while_it_is_there(copy):
    listed = copy / "tests/protocol/intended.txt"
    listed.write_text(f"{REMOVED}  # scoring is now a policy of Generate\n")
    code, said = check(copy)
    assert code == 1 and "not there" in said
    without_score(copy)
    code, said = check(copy)
    assert code == 0 and "1 intended" in said, said
    listed.write_text(f"{REMOVED}\n")
    code, said = check(copy)
    assert code == 1 and "without a reason" in said
