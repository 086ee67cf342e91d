"""The commands that pages show: the lines of fenced blocks of "sh", and code spans that begin with a program.

A command of a block is whole. A span may also be the bare name of a program, and may be a flag alone, such as
`--budget`. Spans of other things are not commands, and no rule can know that a span was meant to be one.
"""

import collections
import posixpath
import re
import shlex

# `words` begin with the program: what stands before it (sudo, VARIABLE=value) is left out. `block` is the number of
# the fenced block that the command stands in, or 0 for a span. `folder` is where a `cd` before it has gone.
Command = collections.namedtuple("Command", "page line words text block folder")

FENCE = re.compile(r"^(`{3,}|~{3,})(\w*)")
SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
INSTEAD = "SUBSTITUTION"  # of what $(...) gives
SEPARATORS = {"&&", "||", "|", ";", "&", ";;"}
REDIRECTIONS = {">", ">>", "<", "<<<", ">&", "&>"}
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class NotUnderstood(ValueError):
    """A line that is shell, and more than this reads."""


def tokens(line):
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError as wrong:
        raise NotUnderstood(f"{wrong}: {line}") from None


def parts(line):
    """The words of each command of a line, with the commands in $(...) before the one that takes what they say."""
    inside = iter([list(parts(inner)) for inner in SUBSTITUTION.findall(line)])
    words, skip = [], False
    for token in [*tokens(SUBSTITUTION.sub(INSTEAD, line)), ";"]:
        for _ in range(token.count(INSTEAD)):
            yield from next(inside)
        if token in SEPARATORS:
            if bare := without_prefix(words):
                yield bare
            words = []
        elif token in REDIRECTIONS:
            skip = True
            if words[-1:] in (["1"], ["2"]):
                words.pop()  # of 2>file
        elif re.fullmatch("[();<>|&]+", token):
            raise NotUnderstood(f"{token} in {line}")
        elif skip:
            skip = False
        else:
            words.append(token)


def without_prefix(words):
    """Without sudo and its like, and without variables for this command alone."""
    words = list(words)
    while words and (words[0] in ("sudo", "exec", "time") or ASSIGNMENT.match(words[0])):
        words.pop(0)
    return words


def blocks(text):
    """(number, line, language, lines) of each fenced block; the line is that of its first line."""
    fence, number = None, 0
    for index, line in enumerate(text.split("\n"), 1):
        found = FENCE.match(line)
        if fence is None and found:
            fence, number = found[1], number + 1
            start, language, inside = index + 1, found[2], []
        elif fence is not None and line.startswith(fence):
            yield number, start, language, inside
            fence = None
        elif fence is not None:
            inside.append(line)


def logical(start, lines):
    """(line, text) with the lines joined that end in a backslash."""
    held, first = "", start
    for number, line in enumerate(lines, start):
        first = first if held else number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        yield first, held + line
        held = ""
    if held:
        raise NotUnderstood(f"the block ends in a backslash: {held}")


def spans(text):
    """(line, words as they stand) of the code spans outside fenced blocks. A span may go over the end of a line."""
    kept, fence = [], None
    for line in text.split("\n"):
        found = FENCE.match(line)
        if fence is None and found:
            fence = found[1]
        elif fence is not None and line.startswith(fence):
            fence = None
            line = ""
        kept.append("" if fence is not None else line)
    outside = "\n".join(kept)
    for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", outside):
        if "\n\n" not in match[1]:
            yield outside.count("\n", 0, match.start()) + 1, " ".join(match[1].split())


def together(page, block, lines):
    """The commands of lines that one shell runs."""
    folder = ""
    for line, words in lines:
        for part in parts(words):
            if part[0].startswith("../"):
                part[0] = posixpath.normpath(posixpath.join(folder, part[0]))
            yield Command(page, line, part, words.strip(), block, folder)
            if part[0] == "cd":
                folder = posixpath.normpath(posixpath.join(folder, part[1]))


def commands(page, text, is_program):
    """All commands of a page. `is_program` says whether a span that begins with these words is one."""
    for number, start, language, lines in blocks(text):
        if language == "sh":
            yield from together(page, number, logical(start, lines))
    for line, span in spans(text):
        if is_program(without_prefix(span.split())):
            yield from together(page, 0, [(line, span)])


def flags(page, text):
    """(line, flag) of the spans that are flags alone."""
    for line, span in spans(text):
        if span.startswith("--") and len(span) > 2:
            yield from ((line, word) for word in span.split() if word.startswith("--"))
