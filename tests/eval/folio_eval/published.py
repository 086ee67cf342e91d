"""Metrics as the benchmarks define them, each from 0 to 1 for one prediction. Libraries do what libraries exist for."""

import collections
import functools
import re
import string


def _words(text):
    """SQuAD's normal form: no case, punctuation or articles."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def qa_f1(prediction, truth, _classes):
    said, meant = _words(prediction), _words(truth)
    same = sum((collections.Counter(said) & collections.Counter(meant)).values())
    return 2 * same / (len(said) + len(meant)) if same else 0.0


def rouge_l(prediction, truth, _classes):
    """As LongBench: F of the package `rouge`."""
    from rouge import Rouge

    try:
        return Rouge().get_scores([prediction], [truth], avg=True)["rouge-l"]["f"]
    except (ValueError, RecursionError):  # nothing but punctuation in one of them
        return 0.0


@functools.cache
def _scorer():
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=False)


def rouge_score_l(prediction, truth):
    """As lm-evaluation-harness: F of Google's `rouge-score`."""
    return _scorer().score(truth, prediction)["rougeL"].fmeasure


def code_similarity(prediction, truth, _classes):
    """Of the first line that is code, by edit distance (`rapidfuzz` for LongBench's `fuzzywuzzy`, unrounded)."""
    from rapidfuzz import fuzz

    lines = prediction.lstrip("\n").split("\n")
    line = next((line for line in lines if not any(mark in line for mark in ("`", "#", "//"))), "")
    return fuzz.ratio(line, truth) / 100


def classification(prediction, truth, classes):
    named = [name for name in classes if name in prediction]
    named = [name for name in named if name == truth or name not in truth]
    return 1 / len(named) if truth in named else 0.0


def _share_of_numbers(prediction, number):
    found = re.findall(r"\d+", prediction)
    return sum(one == number for one in found) / len(found) if found else 0.0


def retrieval(prediction, truth, _classes):
    return _share_of_numbers(prediction, re.findall(r"Paragraph (\d+)", truth)[0])


def count(prediction, truth, _classes):
    return _share_of_numbers(prediction, truth)


# LongBench's English and code data sets: (metric, most new tokens, first line only, few-shot or code: no chat turn).
LONGBENCH = {
    "narrativeqa": (qa_f1, 128, False, False),
    "qasper": (qa_f1, 128, False, False),
    "multifieldqa_en": (qa_f1, 64, False, False),
    "hotpotqa": (qa_f1, 32, False, False),
    "2wikimqa": (qa_f1, 32, False, False),
    "musique": (qa_f1, 32, False, False),
    "gov_report": (rouge_l, 512, False, False),
    "qmsum": (rouge_l, 512, False, False),
    "multi_news": (rouge_l, 512, False, False),
    "trec": (classification, 64, True, True),
    "triviaqa": (qa_f1, 32, True, True),
    "samsum": (rouge_l, 128, True, True),
    "passage_count": (count, 32, False, False),
    "passage_retrieval_en": (retrieval, 32, False, False),
    "lcc": (code_similarity, 64, False, True),
    "repobench-p": (code_similarity, 64, False, True),
}


def longbench(dataset, prediction, answers, classes):
    """The best over the answers."""
    metric, _, first_line, _ = LONGBENCH[dataset]
    if first_line:
        prediction = prediction.lstrip("\n").split("\n")[0]
    return max(metric(prediction, answer, classes) for answer in answers)


def ruler(prediction, outputs, any_of):
    """RULER's string_match_all, or string_match_part where one of several answers is enough (its QA tasks)."""
    found = [output.lower() in prediction.lower() for output in outputs]
    return float(any(found)) if any_of else sum(found) / len(found)
