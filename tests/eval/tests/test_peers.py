"""Others' presses are asked and judged as Folio's policies are."""

import os
import types

import pytest
from folio_eval.asking import Place
from folio_eval.cells import FULL, Setting
from folio_eval.items import Item
from folio_eval.node import Node
from folio_eval.runner import Questions
from folio_eval.store import gather, read_lines
from folio_eval.subject import Subject
from folio_eval.together import Prompt
from folio_peers import __main__ as peers

MODEL, DIRECTORY = os.environ.get("FOLIO_MODEL"), os.environ.get("FOLIO_MODEL_HF")
PYTHON = peers.parser().get_default("python")


def asked(task, item, *settings):
    return Prompt(tuple((types.SimpleNamespace(setting=one), None) for one in settings), 0, task, item)


def answer(best, logprobs, tops=()):
    return {"best": best, "logprobs": logprobs, "tops": [list(top) for top in tops]}


def test_an_answer_is_right_if_the_model_would_have_given_it():
    question = asked("needle_prose", Item((1, 2), (3,), (4, 5, 6), ((0, 1), (1, 3))), Setting("KnormPress", 64))
    full = answer([4, 5, 6], [-0.1, -0.1, -0.1])
    (row,) = peers.measured(question, [full, answer([4, 5, 7], [-0.5, -1.0, -2.0])])
    assert row == {"score": 0.5, "exact": 0.0, "nll": pytest.approx(3.5 / 3)}


def test_prose_is_judged_by_its_divergence_from_the_full_cache():
    question = asked("perplexity", Item((1,), (), (2, 3), ((0, 2),)), Setting(FULL), Setting("KnormPress", 64))
    full = answer([2, 3], [-0.1, -0.2], [[(2, -0.1), (9, -3.0)], [(3, -0.2), (9, -3.0)]])
    less = answer([2, 9], [-0.3, -2.0], [[(2, -0.3), (9, -2.0)], [(3, -2.0), (9, -0.2)]])
    same, other = peers.measured(question, [full, full, less])
    assert same["kl"] == 0 and other["kl"] > 0.1 and other["nll"] > same["nll"]


def test_a_process_that_ends_is_an_error():
    item = Item((1, 2), (3,), (4,), ((0, 1),))
    with peers.Presses("true", "nowhere", 1) as ask, pytest.raises(peers.PeerError, match="ended with status 0"):
        ask(asked("needle_prose", item, Setting(FULL)))


@pytest.mark.skipif(not (MODEL and DIRECTORY and PYTHON.exists()), reason="needs kvpress' environment: NO PEER WAS ASKED")
def test_the_full_cache_answers_as_a_worker_does(tmp_path, monkeypatch):
    out = tmp_path / "peers.jsonl"
    flags = "--tasks needle_prose --lengths 256 --prompts 1 --budgets 64 --presses full,KVzipPress,CompactorPress"
    monkeypatch.setattr("sys.argv", ["folio_peers", *flags.split(), "--directory", DIRECTORY, "--out", str(out)])
    peers.main()
    nats = {cell.setting: measures["nll"][0] for cell, measures in gather(read_lines(out)).items()}
    assert len(nats) == 3 and nats[Setting("CompactorPress", 64)] > nats[Setting(FULL)]
    with Node(MODEL) as node:
        item = Questions(Subject(node.client))(Place("needle_prose", 256, 0, 0))
        result = node.client.score(tokens=item.prompt, continuation_tokens=item.forced + item.answer)
    own = -sum(result.logprobs[len(item.forced) :]) / len(item.answer)
    assert nats[Setting(FULL)] == pytest.approx(own, abs=0.05)
