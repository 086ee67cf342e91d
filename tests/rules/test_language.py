"""Prose is plain English: no file has more violations of tests/rules/language.py than language.txt allows."""

import pathlib
import subprocess
import sys

import pytest
from language import ROOT, counts, sentences, violations, wanted
from prose import Text, texts
from verbs import has_main_verb

# How many violations files had when the check came in. Only shrinks.
RATCHET = ROOT / "tests/rules/language.txt"


def limits():
    rows = [line.split() for line in RATCHET.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return {name: int(count) for name, count in rows}


def test_prose_is_plain():
    allowed, wrong, loose = limits(), [], []
    found = counts()
    for name, count in found.items():
        if count > allowed.get(name, 0):
            wrong.append(f"{name} has {count} violations, {allowed.get(name, 0)} are allowed:")
            wrong += [f"{name}:{line}: {rule} ({why}): {said}" for line, rule, why, said in violations(ROOT / name)]
    assert not wrong, "\n".join(wrong)
    for name, count in allowed.items():
        if found.get(name, 0) < count:
            loose.append(f"{name} {found.get(name, 0)}")
    assert not loose, f"fewer violations than {RATCHET.name} allows: run tighten.py\n" + "\n".join(loose)


def test_finds_the_files_of_the_project():
    assert all(wanted(name) for name in ("README.md", "services/a/b.h", "kernels/c.cu", "proto/d.proto", ".ci/lint",
                                         "deploy/e.sh", "tests/f/g.h", "tests/f/README.md"))
    assert not any(wanted(name) for name in ("tests/f/g.cc", "services/a/CMakeLists.txt", "CMakeLists.txt"))


def found_in(path, text):
    path.write_text(text)
    return [(found.line, found.rule) for found in violations(path)]


SENTENCES = """\
A Cache is an interface that maps keys to values.
Slice is a simple structure containing a pointer into some external storage and a size.
A Status encapsulates the result of an operation.
A database can be configured with a custom FilterPolicy object.
TableBuilder provides the interface used to build a Table.
Sampling turns logits into a token.
A page that is held has an owner.
The classes here read GGUF files.
Views borrow memory and own nothing.
The files in this folder hold the kernels.
gRPC refuses a message that holds invalid UTF-8.
ReplyInbox keeps the replies of a link until the step loop takes them.
PagedEviction (arXiv 2509.04377) evicts whole pages.
The CPU quota is what the cgroup that this process is in allows.
""".splitlines()
PHRASES = """\
An eviction policy: a pure function from scores to a decision.
The one place where pages change hands: page states, block tables, sequences.
Strong types for ids and counts, so that a page id cannot be passed where a layer is wanted.
The worker's life with managers: attach, serve, and attach again.
What goes into the coordinator and comes out of it.
How many pages of one layer a sequence is given.
The device that runs steps.
The CPU quota of the cgroup this process is in.
The operations a transformer needs on a CPU.
Numbers as they are stored and as they are computed with.
Stands for CUDA's header of this name.
Memory of one set of activations, aligned as kernels want it.
From logits to a token.
""".splitlines()


@pytest.mark.parametrize("sentence", SENTENCES)
def test_takes_a_sentence(sentence):
    assert has_main_verb(sentence)


@pytest.mark.parametrize("phrase", PHRASES)
def test_refuses_a_noun_phrase(phrase):
    assert not has_main_verb(phrase)


def test_a_header_begins_with_a_sentence(tmp_path):
    header = tmp_path / "a.h"
    assert found_in(header, "// A page is a block. The end of it.\n//\n// No verb here.\nint x;  // in bytes\n") == []
    assert found_in(header, "// The page: a block.\nint x;\n") == [(1, "opening")]
    assert found_in(header, "#pragma once\n// A page is a block.\n") == [(1, "opening")]
    assert found_in(tmp_path / "a.cc", "// The page.\n") == []


@pytest.mark.parametrize("sentence, rules", [
    ("What the manager decides is final.", ["noun-clause"]),
    ("Of the three, one is taken.", ["noun-clause"]),
    ("As whom it attaches.", ["noun-clause"]),
    ("What is a page? Of course it is memory. Whereas this is fine.", []),
    ("One: two. Three; four.", []),
    ("One: two; three.", ["punctuation"]),
    ("One (unset: 7): two.", []),
    ("- One: two; three.", []),
    ("- One: two; three; four.", ["punctuation"]),
    ('A `a: b; c` and "d: e; f", std::string x at 10:30; see these:', []),
    ("It starts anew; whoever asks goes on.", ["word"] * 3),
    ("The value is no number. There is no driver. It is no longer there.", ["word"]),
    ("A hung worker, say, or (say) two. They say that it runs.", ["word"] * 2),
    ("It goes on the wire, to be read there.", []),
    ("It is not unusual.", ["negation"]),
    ("No page is not counted.", ["negation"]),
    ("It is never given no page. It is not under it.", ["negation"]),
    ("No page is free, and the pool is not full. Nothing is lost if it does not come.", []),
    ("The folder wire. services/wire is a room. See e.g. one: two, i.e. three.", []),
])
def test_finds_violations(tmp_path, sentence, rules):
    for name, text in (("a.md", sentence), ("a.cc", f"// {sentence}"), ("a.sh", f"# {sentence}")):
        assert [rule for _, rule in found_in(tmp_path / name, text + "\n")] == rules, name


CPP = '''\
// First, of
// two lines.
//
// - item one
//   goes further
//   and ends.
//     picture;  of: this
int a;  // one aside
        // that has two lines
const char* url = "http://a b c";  // NOLINT
/* no prose */
Status Bad(int n) { return Error(absl::StrCat("ranks: ", n, " are too"
    " many for this")); }
LOG(INFO) << "this is a " << n << " line";
const char* key = "a_key";
'''


def test_reads_cpp(tmp_path):
    path = tmp_path / "a.cc"
    path.write_text(CPP)
    assert [(text.line, text.kind, text.words) for text in texts(path)] == [
        (1, "comment", "First, of\ntwo lines."),
        (4, "item", "item one\ngoes further\nand ends.\npicture;  of: this"),
        (8, "aside", "one aside\nthat has two lines"),
        (10, "message", "http://a b c"),
        (12, "message", "ranks: X are too many for this"),
        (14, "message", "this is a X line"),
    ]


MARKDOWN = """\
# What it is
One paragraph
of two lines.

- an item; with: a colon
  and more
- another

| file | what; is: in it |
|---|---|
```
code; code: code
```
"""


def test_reads_markdown(tmp_path):
    path = tmp_path / "a.md"
    path.write_text(MARKDOWN)
    assert [(text.line, text.kind, text.words) for text in texts(path)] == [
        (1, "heading", "What it is"), (2, "paragraph", "One paragraph\nof two lines."),
        (5, "item", "an item; with: a colon\nand more"), (7, "item", "another"), (9, "cell", "file"), (9, "cell", "what; is: in it")]
    assert [(found.line, found.rule) for found in violations(path)] == [(5, "punctuation")]


def test_reads_python(tmp_path):
    path = tmp_path / "a.py"
    path.write_text('"""A page; of: two."""\n# It starts anew.\nraise ValueError("None is, hence, a message")\n')
    assert found_in(path, path.read_text()) == [(1, "punctuation"), (2, "word"), (3, "word")]


def test_tells_the_line_of_a_sentence():
    text = Text(7, "comment", "One sentence that is\nlong. Another\none. A\nthird.")
    assert list(sentences(text)) == [(7, "One sentence that is long."), (8, "Another one."), (9, "A third.")]


def test_command_line_lists_violations(tmp_path):
    (tmp_path / "a.md").write_text("Fine.\n\nIt starts anew.\n")
    tool = pathlib.Path(__file__).with_name("language.py")
    done = subprocess.run([sys.executable, tool, tmp_path / "a.md"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout == f'{tmp_path}/a.md:3: word ("anew": write again): It starts anew.\n'
