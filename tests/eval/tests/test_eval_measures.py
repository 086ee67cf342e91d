"""What is measured, checked against numbers worked out by hand."""

import collections
import math
import types

import pytest
from folio_eval import kept, measures, published, stats
from folio_eval.items import Item

Candidate = collections.namedtuple("Candidate", "token logprob")
Layer = types.SimpleNamespace


def tops(*tokens):
    return [(Candidate(token, -0.1),) for token in tokens]


def test_an_answer_is_judged_part_by_part():
    # Fed: 9 (forced), then 1 2 5 3; the parts are "1 2" and "3", 5 stands between them.
    item = Item((0,), (9,), (1, 2, 5, 3), ((0, 2), (3, 4)))
    logprobs = [-9.0, -0.5, -1.0, -9.0, -0.3]
    got = measures.judge(item, logprobs, tops(7, 1, 2, 7, 3))
    assert got == {"score": 1.0, "exact": 1.0, "nll": pytest.approx(1.8 / 3)}
    got = measures.judge(item, logprobs, tops(9, 1, 7, 5, 3))
    assert (got["score"], got["exact"]) == (0.5, 0.0), "one wrong token spoils its part, not the other"


def test_a_part_with_a_name_is_also_reported_alone():
    item = Item((0,), (9,), (1, 2, 5, 3), ((0, 2), (3, 4)), ("early", "late"))
    got = measures.judge(item, [-9.0, -0.5, -1.0, -9.0, -0.3], tops(9, 1, 7, 5, 3))
    assert got == {
        "score": 0.5, "exact": 0.0, "nll": pytest.approx(0.6), "score.early": 0.0, "nll.early": pytest.approx(0.75),
        "score.late": 1.0, "nll.late": pytest.approx(0.3),
    }  # fmt: skip
    assert measures.split("nll.early") == ("nll", "early") and measures.split("nll") == ("nll", "")


def test_divergence_of_distributions_that_are_known_whole():
    p = {1: math.log(0.5), 2: math.log(0.5)}
    q = {1: math.log(0.25), 2: math.log(0.75)}
    assert measures.divergence(p, q) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3), abs=1e-6)
    assert measures.divergence(p, p) == 0
    assert measures.mean_divergence([p, p], [p, q]) == pytest.approx(measures.divergence(p, q) / 2)


def test_divergence_of_parts_is_a_lower_bound_and_uses_the_rest():
    whole_p, whole_q = [0.6, 0.3, 0.1], [0.2, 0.3, 0.5]
    true = sum(p * math.log(p / q) for p, q in zip(whole_p, whole_q))
    p = {0: math.log(0.6), 1: math.log(0.3)}
    q = {0: math.log(0.2), 2: math.log(0.5)}  # shares only token 0
    assert measures.divergence(p, q) == pytest.approx(0.6 * math.log(3) + 0.4 * math.log(0.5))
    assert 0 < measures.divergence(p, q) < true


def test_the_fed_token_is_known_too():
    assert measures.known([Candidate(4, -0.1)], 7, -3.0) == {4: -0.1, 7: -3.0}


def test_positions_are_followed_through_compaction_and_dropped_pages():
    # Pages of 2. The prompt of 6 is compacted to 4 tokens; two decoded tokens fill a page, and block 1 goes.
    events = [
        Layer(step=-1, layers=[Layer(kept=(0, 1, 4, 5), dropped_block=None), Layer(kept=(0, 2, 3, 5), dropped_block=None)]),
        Layer(step=2, layers=[Layer(kept=(), dropped_block=1), Layer(kept=(), dropped_block=None)]),
    ]
    assert kept.resident(events, 6, 3, 2, 2) == [[0, 1, 6, 7, 8], [0, 2, 3, 5, 6, 7, 8]]


def test_a_map_says_how_much_of_each_stretch_was_kept():
    tables = [list(range(128)), [0, 1, 127], []]
    rows = kept.shade(tables, 128)  # 64 bins of 2
    assert rows == ["9" * 64, "9" + "0" * 62 + "4", "0" * 64]
    assert kept.shade([[0, 2]], 3) == ["909"]


def test_bootstrap_repeats_and_covers():
    values = [0.0] * 30 + [1.0] * 10
    one = stats.mean(values)
    assert one == stats.mean(values) and one.mean == 0.25 and one.count == 40
    # The normal interval of 10 in 40 is 0.25 +- 1.96 * 0.0685.
    assert one.low == pytest.approx(0.116, abs=0.03) and one.high == pytest.approx(0.384, abs=0.03)
    assert stats.mean([0.5] * 9).low == stats.mean([0.5] * 9).high == 0.5


def test_the_mean_over_tasks_weighs_tasks_not_prompts():
    both = stats.mean([1.0] * 90, [0.0] * 10)
    assert both.mean == 0.5 and both.count == 100 and (both.low, both.high) == (0.5, 0.5)


def test_pairs_are_of_the_same_prompt():
    assert stats.paired({(0, 0): 1.0, (0, 1): 0.0, (1, 0): 1.0}, {(0, 1): 0.5, (0, 0): 0.25}) == [0.75, -0.5]
    # What differs between prompts more than between policies cancels out.
    easy_and_hard = {(0, at): float(at % 2) for at in range(40)}
    better = {prompt: value + 0.1 for prompt, value in easy_and_hard.items()}
    assert stats.mean(stats.paired(better, easy_and_hard)).sure
    assert stats.mean(list(better.values())).low < stats.mean(list(easy_and_hard.values())).high


@pytest.mark.parametrize(
    "dataset, prediction, answers, classes, expected",
    [
        # said {red, fox}, meant {quick, red, fox}: 2 common, precision 1, recall 2/3
        ("hotpotqa", "The red fox!", ["a quick red fox", "nobody"], [], 0.8),
        ("hotpotqa", "none", ["fox"], [], 0.0),
        ("triviaqa", "\nfox\nsomething else", ["fox"], [], 1.0),
        ("trec", "Number of something", ["Number"], ["Number", "Date"], 1.0),
        ("trec", "Number or Date", ["Number"], ["Number", "Date"], 0.5),
        ("passage_retrieval_en", "Paragraph 7, not 3", ["Paragraph 7"], [], 0.5),
        ("passage_count", "There are 12.", ["12"], [], 1.0),
        ("lcc", "# why\nreturn x", ["return x"], [], 1.0),
        ("gov_report", "the cat sat", ["the cat sat"], [], 1.0),
        ("gov_report", "", ["the cat sat"], [], 0.0),
    ],
)  # fmt: skip
def test_longbench_metrics(dataset, prediction, answers, classes, expected):
    assert published.longbench(dataset, prediction, answers, classes) == pytest.approx(expected)


def test_ruler_metrics():
    assert published.ruler("It is 12 and 34.", ["12", "34", "56"], any_of=False) == pytest.approx(2 / 3)
    assert published.ruler("In PARIS.", ["Paris", "Lutetia"], any_of=True) == 1.0
    assert published.ruler("Rome", ["Paris", "Lutetia"], any_of=True) == 0.0


def test_rouge_score():
    # Longest common subsequence "the cat": precision 2/3, recall 2/2.
    assert published.rouge_score_l("the black cat", "the cat") == pytest.approx(0.8)
