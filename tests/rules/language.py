#!/usr/bin/env python3
"""Checks that prose is plain English: language.py FILES... prints "file:line: rule: sentence" for each violation.

The rules are
  opening      a header's first sentence has a subject and a verb: "X is ..." or "X does ..."
  noun-clause  no sentence opens with What, Of, Who, Whom, Whose or Where, unless it is a question
  punctuation  a sentence has at most one semicolon or colon; the label of an item ("field: ..."), the two labels of
               a message that say where ("file: field: ...") and a colon that introduces a list at the sentence's end
               are not counted
  word         no archaic or clipped word
  negation     no double negation
language.py --ratchet prints how many violations each file of the project has, as language.txt lists them.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

from prose import HEADERS, Text, texts
from verbs import has_main_verb

ROOT = pathlib.Path(__file__).resolve().parents[2]
Violation = collections.namedtuple("Violation", "line rule why sentence")

ENDS = re.compile(r"[.!?][\"')\]*_]*(?=\s+[\"'(\[*`_]*[A-Z0-9])|(?<=[a-z]{3})[.](?=\s+[a-z])")
ABBREVIATION = re.compile(r"(\b(e\.g|i\.e|etc|vs|cf|approx|resp|incl|no|al|St)|\d)\.$")
OPENER = re.compile(r"[\"'(*_]*(?:(What|Who|Whom|Whose|Whoever|Whomever|Whatever|As whom|Of whom|what|who|whom|whose)|"
                    r"(Of(?! course)|Where(?!as)))\b")

# A message may begin with ": ", because the name of a file is put before it.
LABELS = {
    "item": re.compile(r"(Code|[\w./=' -]{1,40}): "),
    "message": re.compile(r"(?:: )?(?:[\w./=:%' -]{1,40}: ){0,2}"),
}

# What to write instead stands behind each word.
WORDS = {
    r"anew": "again",
    r"who(so)?ever": "a client / a worker that ...",
    r"whom(so)?ever": "any client / any worker",
    r"but for": "except",
    r"(goes|go|going|went|gone) on(?= |\.|,|$)(?! (to|top|the)\b)": "continues",
    r"nobody": "no worker / no caller / nothing",
    r"no ?one else": "no other ...",
    r"(?<!there )(is|are|was|were|be) no(?! (longer|more|less|fewer|later|larger|smaller)\b)": "is not a ...",
    r"be it": "whether it is",
    r"wants? of": "needs",
    r"hence": "so / therefore",
    r"(?<=, )say(?=[,)])|(?<=\()say": "for example",
    r"thereof|therein|thereupon|whence|thence|whereof|wherein|whereby|whereupon|herein|hitherto": "a new sentence",
    r"lest": "so that ... not",
    r"n[ao]ught|aught": "nothing / zero",
    r"whilst": "while",
    r"amongst": "among",
    r"till": "until",
    r"henceforth|forthwith|erstwhile|withal|betwixt|unto": "a plain word",
    r"save (for|that)": "except",
    r"(none|nothing|no one|cannot|not) but": "only",
    r"ought": "should",
    r"as it were": "nothing: leave it out",
    r"in company": "in a batch with others",
    r"by and by": "gradually",
    r"for ever": "forever",
    r"so much as": "even",
    r"(to|can) be had": "available",
}
WORD = [(re.compile(rf"(?<![\w-])(?:{pattern})(?!\w)", re.I), instead) for pattern, instead in WORDS.items()]
NEGATIVE = r"not|never|no(?! longer| more| later)|nothing|none|nobody|without|cannot|\w+n't"
BOUNDARY = r"and|or|nor|if|but|because|so|else|when|where|while|than|as"
NEGATION = [
    re.compile(r"\bnot un(?!der|til|less|i(?!m|n)|pack|lock|map|link|wind|roll|do\b|pin)\w+", re.I),
    re.compile(r"\b(?:no(?! longer| later| more| less| fewer)|never|none|nothing|nobody|neither)\b"
               rf"(?:(?!\b(?:{BOUNDARY})\b)[^.,;:()]){{1,50}}\b(?:{NEGATIVE})\b", re.I),
    re.compile(r"\bnot\s+(?:without|never|no|nothing|none|nobody)\b", re.I),
]


def plain(words):
    """The words without what is quoted: code, links, quotations."""
    blank = lambda match: "Code" + "\n" * match[0].count("\n")
    words = re.sub(r"`[^`]+`", blank, words)
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words)
    words = re.sub(r"https?://\S+", "Address", words)
    words = re.sub(r'"[^"]{1,200}"', lambda match: '"' + re.sub("[;:]", " ", match[0][1:-1]) + '"', words)
    words = re.sub(r"\((\w+): ([^()]{1,20})\)", r"(\1 \2)", words)  # (unset: 7)
    return words.replace("**", "")


def sentences(text):
    """(line, sentence) of each sentence of a Text."""
    words, start = plain(text.words), 0
    for match in [*ENDS.finditer(words), None]:
        end = match.end() if match else len(words)
        if match and ABBREVIATION.search(words[start:match.start() + 1]) and not words[:end].endswith(")"):
            if not re.search(r"\d\.$", words[start:end]) or ITEM_NUMBER.fullmatch(words[start:end].strip()):
                continue
        sentence = words[start:end]
        line = text.line + words.count("\n", 0, start + len(sentence) - len(sentence.lstrip()))
        if sentence.strip():
            yield line, " ".join(sentence.split())
        start = end


ITEM_NUMBER = re.compile(r"\d+\.")


def check_sentence(text, sentence, first):
    """(rule, why) of each violation in one sentence."""
    if text.kind == "top" and first and not has_main_verb(sentence):
        yield "opening", 'begin the header with "X is ..." or "X does ..."'
    prose = text.kind not in ("heading", "cell")
    opener = OPENER.match(sentence)
    if prose and opener and not sentence.endswith("?"):
        yield "noun-clause", f'opens with "{opener[1] or opener[2]}"'
    label = LABELS[text.kind].match(sentence) if text.kind in LABELS else None
    marks = len(re.findall(r"[;:](?=\s)", sentence[label.end() if label else 0:]))
    if prose and marks > 1:
        yield "punctuation", f"has {marks} semicolons and colons"
    for pattern, instead in WORD:
        for match in pattern.finditer(sentence):
            yield "word", f'"{match[0]}": write {instead}'
    for pattern in NEGATION:
        if match := pattern.search(sentence):
            yield "negation", f'"{match[0]}"'


def violations(path):
    found, all_texts = [], texts(path)
    if path.suffix in HEADERS and not any(text.kind == "top" for text in all_texts):
        found.append(Violation(1, "opening", "a header begins with a comment", ""))
    for text in all_texts:
        for index, (line, sentence) in enumerate(sentences(text)):
            found += [Violation(line, rule, why, sentence) for rule, why in check_sentence(text, sentence, index == 0)]
    return sorted(found)


def wanted(name):
    """Whether the project's check reads a file: what people read of the product, headers and pages elsewhere."""
    top, suffix = name.split("/")[0], pathlib.PurePath(name).suffix
    if suffix == ".md":
        return True
    if top in ("services", "kernels", "proto"):
        return suffix in (".h", ".cuh", ".cc", ".cu", ".proto", ".rs", ".py", ".sh")
    if top in ("deploy", ".ci"):
        return suffix in (".sh", ".py", "")
    return top == "tests" and suffix in HEADERS


def project_files():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True,
                            text=True).stdout
    return sorted(name for name in set(listed.splitlines()) if wanted(name) and (ROOT / name).is_file())


def counts():
    return {name: count for name in project_files() if (count := len(violations(ROOT / name)))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--ratchet", action="store_true")
    arguments = parser.parse_args()
    if arguments.ratchet:
        print("\n".join(f"{name} {count}" for name, count in counts().items()))
        return 0
    found = 0
    for path in arguments.files:
        for line, rule, why, sentence in violations(path):
            print(f"{path}:{line}: {rule} ({why}): {sentence}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
