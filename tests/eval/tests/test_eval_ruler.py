"""RULER's files: what generate.py makes of a record of the harness, and its own arguments. The generators need an environment of their
own, which `ruler.sh` makes, and are not run here."""

import importlib.util
import json
import pathlib

import pytest

PATH = pathlib.Path(__file__).resolve().parents[1] / "ruler" / "generate.py"


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RECORD = {"index": 3, "input": "Where? ", "outputs": ["here"], "length": 9, "max_length": 16, "gen_prefix": "It is"}


def test_records_have_the_fields_of_ruler(generate, tmp_path):
    generate.write(tmp_path / "16" / "vt.jsonl", [RECORD, {**RECORD, "input_example": "An example."}])
    first, second = map(json.loads, (tmp_path / "16" / "vt.jsonl").read_text().splitlines())
    assert first == {"index": 3, "input": "Where?", "outputs": ["here"], "length": 9, "answer_prefix": "It is"}
    assert second["input"] == "An example.\nWhere?"


def test_sentences_end_behind_their_marks(generate):
    assert generate.sentences("Call me Ishmael. Some years ago? Never mind! No, 3.5 of") == (
        "Call me Ishmael.", "Some years ago?", "Never mind!", "No, 3.5 of")  # fmt: skip


@pytest.mark.parametrize(
    "given, said",
    [
        (["--tasks", "vt,qa"], "--tasks: qa is not one of niah_single_1"),
        (["--records", "0"], "--records: must be from 1 to 500"),
        (["--lengths", "4k"], "--lengths: must be whole numbers"),
    ],
)
def test_arguments_are_refused_by_name(generate, capsys, given, said):
    with pytest.raises(SystemExit):
        generate.arguments(["--tokenizer", "a", "--novel", "b", "--out", "c", *given])
    assert said in capsys.readouterr().err
