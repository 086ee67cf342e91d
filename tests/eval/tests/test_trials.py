"""What is tried in NumPy decides as the real processes do, where these have the same policy."""

import os

import numpy as np
import pytest
from folio_eval import kept
from folio_eval.asking import Place
from folio_eval.cells import Setting
from folio_eval.node import Node
from folio_eval.runner import Questions
from folio_eval.subject import Subject
from folio_trials.asking import Asked, Logits
from folio_trials.cache import LAYERS, Twin
from folio_trials.trial import Trial, TrialError, by_mass, chosen, likeness

MODEL = os.environ.get("FOLIO_MODEL")
PAIRS = {"query_diff": "window:0.25|residents~8", "paged_eviction": "norm_ratio"}
JUDGES = {"query_diff": "@20-25", "paged_eviction": ""}


def test_a_name_of_no_score_is_refused():
    with pytest.raises(TrialError, match="no score 'windows'"):
        Trial("windows:0.5|difference", Setting("x", 64))


def test_judges_are_some_of_the_layers():
    rows = [np.full(64, at) for at in range(LAYERS)]
    assert Trial("difference@20-25", Setting("x", 64)).weigh(rows).nonzero()[0].tolist() == [20, 21, 22, 23, 24]
    for text in ("25-20", "20-31", "some"):
        with pytest.raises(TrialError, match=f"no layers '{text}'"):
            Trial(f"difference@{text}", Setting("x", 64))


def test_a_layer_that_judges_neighbours_alike_counts_more():
    rng = np.random.default_rng(5)
    words = rng.standard_normal((LAYERS, 512))
    words[7] = np.repeat(rng.standard_normal(32), 16)
    assert likeness(list(words)).argmax() == 7


def test_the_parts_before_the_last_take_their_shares_in_turn():
    trial = Trial("window:0.5|newest:0.25|difference~8", Setting("x", 64))
    assert [share for _, share in trial.first] == [0.5, 0.25]
    assert [term.shapes for term in trial.rest[0].terms] == [["~8"]]


def test_stretches_keep_their_share_and_the_rest_goes_to_the_highest():
    merit = np.arange(64, dtype=np.float32)
    assert list(chosen(merit, 16, [])) == list(range(48, 64))
    # Three quarters of 16 in four stretches are three each, and the last four go to the highest that are left.
    assert list(chosen(merit, 16, [(end, 0.25) for end in (16, 32, 48, 64)])) == [13, 14, 15, 29, 30, 31, 45, 46, 47, *range(57, 64)]


def test_stretches_by_attention_are_short_where_it_is_high():
    mass = np.full(512, 0.0001)
    mass[128:256] = 0.01
    stretches = by_mass(mass)
    ends = [end for end, _ in stretches]
    assert ends[-1] == 512 and sum(part for _, part in stretches) == pytest.approx(1)
    assert sum(128 < end <= 256 for end in ends) > 2 * sum(end <= 128 for end in ends)


@pytest.fixture(scope="module")
def asked():
    """(client, item, Asked) of one question, which both are asked under each policy."""
    if not MODEL:
        pytest.skip("FOLIO_MODEL is not set: this test needs the reference model")
    place = Place("long_generation_prompt", 384, 0, 0)
    with Node(MODEL) as node:
        item = Questions(Subject(node.client))(place)
        item = type(item)(item.prompt, item.forced[:100], item.answer, item.parts)
        twin = Twin(MODEL)
        yield node.client, item, Asked(twin, Logits(twin), place.task, item)


def both_say(asked, policy, name, layers=None):
    """The share of tokens that are the same in each layer, and the nats of the answer that the processes and the trials give."""
    client, item, trials = asked
    real, tried = (Setting(one, 256, layers=layers, prompt_share=0.5) for one in (policy, name))
    result = client.score(
        tokens=item.prompt, continuation_tokens=item.forced + item.answer, report_evictions=True, **real.arguments(0)
    )
    fed = len(item.forced) + len(item.answer) - 1
    tables = kept.resident(result.evictions, len(item.prompt), fed, LAYERS, 16)
    outcome, cache = trials.run(tried)
    same = [len(set(own) & set(theirs)) / len(own) for own, theirs in zip(cache.positions, tables, strict=True)]
    return same, -sum(result.logprobs[len(item.forced) :]) / len(item.answer), outcome.measures["nll"]


@pytest.mark.parametrize("layers", [None, "shared"])
@pytest.mark.parametrize("policy", PAIRS)
def test_trials_keep_what_the_processes_keep(asked, policy, layers):
    same, _, _ = both_say(asked, policy, PAIRS[policy] + (JUDGES[policy] if layers else ""), layers)
    # The processes compute in bfloat16, which decides close cases otherwise. Chance would agree about a half.
    assert np.mean(same) > 0.85, f"shares of the layers' tokens: {np.round(same, 2)}"


def test_trials_answer_as_the_processes_do(asked):
    # Positions have no close cases. With scores, one token more or less can be worth a nat of the answer.
    same, nats, tried = both_say(asked, "streaming_llm", "newest")
    assert min(same) == 1 and tried == pytest.approx(nats, abs=0.05)
