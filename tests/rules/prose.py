"""Finds the prose in a file: comments, Markdown, and the texts of messages.

A Text has the line it begins on, its kind and its words, with the line breaks of the file. The kinds are
  top        the comment that opens a header
  comment    any other comment that stands on lines of its own
  aside      a comment behind code
  paragraph  a paragraph of Markdown
  item       an item of a list, in a comment or in Markdown
  heading, cell   of Markdown
  message    the string literals of one log line, error or flag help, with X for the values between them
"""

import ast
import collections
import io
import re
import tokenize

Text = collections.namedtuple("Text", "line kind words")

HEADERS = (".h", ".cuh")
C_LIKE = (*HEADERS, ".cc", ".cu", ".proto", ".rs")
# Strings come first in the alternation, so that the // of an address opens no comment.
TOKEN = re.compile(
    r'(?P<raw>R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)"|r#".*?"#)|(?P<string>"(?:\\.|[^"\\\n])*")|'
    r"'(?:\\.[^'\n]{0,8}|[^'\\\n])'|(?P<line>//[^\n]*)|/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^\W*(NOLINT|clang-format|namespace\b|FOLIO_\w+$|IWYU|SPDX|\w+ *=$)")
ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+")
CALL = re.compile(r"StrCat\(|StrFormat\(|Error\(|Refuse\(|InvalidArgument\(|StrAppend\(")


def is_prose(words):
    """True for a literal that a person reads, as opposed to a key or a format."""
    return len(re.findall(r"(?<![\w{])[A-Za-z][a-z']*(?![\w}=(])", words)) >= 3 and "</" not in words \
        and not words.startswith("{")


def paragraphs(lines):
    """Joins the lines of a comment to paragraphs: (line, whether it is an item, words). Indented pictures and code are left out."""
    block, start, item = [], 0, False
    for number, words in [*lines, (0, "")]:
        picture = re.match(r"\s{2,}\S", words) and not ITEM.match(words) and not item
        ends = not words.strip() or picture or DIRECTIVE.match(words)
        if block and (ends or ITEM.match(words)):
            yield start, item, "\n".join(block)
            block, item = [], False
        if ends:
            continue
        if not block:
            start, item = number, bool(ITEM.match(words))
        block.append(words.strip() if block else ITEM.sub("", words).strip())


def grouped(comments):
    """Groups (line, column, alone, words) of comments that continue each other."""
    group = []
    for comment in comments:
        last = group[-1] if group else None
        if last and not (comment[2] and comment[0] == last[0] + 1 and comment[1] == last[1]):
            yield group
            group = []
        group.append(comment)
    if group:
        yield group


def comments(found, header):
    """The Texts of comments; `header` says that the first one on line 1 is a header's top."""
    for group in grouped(found):
        kind = "comment" if group[0][2] else "aside"
        for index, (line, item, words) in enumerate(paragraphs([(line, words) for line, _, _, words in group])):
            top = header and group[0][0] == 1 and index == 0
            yield Text(line, "top" if top else "item" if item else kind, words)


def messages(text, literals):
    """Joins the literals of one message; `literals` holds (start, end, words)."""
    parts = []  # of the message so far

    def done():
        words = "".join(part[2] for part in parts)
        words = re.sub(r"\\[nt]", " ", words).replace('\\"', '"')
        return [Text(text.count("\n", 0, parts[0][0]) + 1, "message", words)] if is_prose(words) else []

    for start, end, words in literals:
        gap = text[parts[-1][1]:start] if parts else ""
        statement = text[max(text.rfind(sign, 0, start) for sign in ";{}") + 1:start]
        values = re.fullmatch(r"\s*<<[^;{}]{0,160}<<\s*", gap) or (
            CALL.search(statement) and re.fullmatch(r"\s*,[^;{}]{0,160},\s*", gap))
        if parts and (values or not gap.strip()):
            parts.append((start, end, ("X" if values else "") + words))
            continue
        if parts:
            yield from done()
        # A literal that opens with a space continues a value.
        parts = [(start, end, "X" + words if words.startswith(" ") else words)]
    if parts:
        yield from done()


def c_like(text, suffix):
    found, literals = [], []
    for match in TOKEN.finditer(text):
        if match["line"]:
            line, at = text.count("\n", 0, match.start()) + 1, text.rfind("\n", 0, match.start()) + 1
            before = text[at:match.start()]
            if not before.lstrip().startswith("#"):
                found.append((line, len(before), not before.strip(), re.sub("^//[/!]?[ ]?", "", match["line"])))
        elif match["string"]:
            before = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
            if not before.lstrip().startswith(("#", "import")):
                literals.append((match.start(), match.end(), match["string"][1:-1]))
    yield from comments(found, suffix in HEADERS)
    if suffix != ".proto":
        yield from messages(text, literals)


def python(text):
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            line, column = token.start
            found.append((line, column, not token.line[:column].strip(), token.string.lstrip("#").removeprefix(" ")))
    yield from comments(found, False)
    tree, docs = ast.parse(text), set()
    for node in ast.walk(tree):
        scope = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if scope and ast.get_docstring(node):
            doc = node.body[0].value
            docs.add(doc)
            indent = " " * doc.col_offset
            lines = [(doc.lineno + index, line.removeprefix(indent)) for index, line in enumerate(doc.value.split("\n"))]
            yield from (Text(line, "item" if item else "comment", words) for line, item, words in paragraphs(lines))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs and is_prose(node.value):
            yield Text(node.lineno, "message", node.value)


def shell(text):
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if match := re.match(r"^(\s*|.*\s{2,})#(?!!)\s?(.*)$", line):
            found.append((number, len(match[1]), not match[1].strip(), match[2]))
        elif (match := re.search(r'\becho "([^"]*)"', line)) and is_prose(match[1]):
            yield Text(number, "message", match[1])
    yield from comments(found, False)


def markdown(text):
    block, start, item, fenced = [], 0, False, False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
            line = ""
        elif fenced:
            continue
        kind = "cell" if line.startswith("|") else "heading" if line.startswith("#") else None
        if block and (not line.strip() or kind or ITEM.match(line)):
            yield Text(start, "item" if item else "paragraph", "\n".join(block))
            block = []
        if kind == "cell":
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield from (Text(number, kind, cell.strip()) for cell in cells if re.search("[A-Za-z]", cell))
        elif kind == "heading":
            yield Text(number, kind, line.lstrip("# "))
        elif line.strip() and not line.lstrip().startswith("<!--"):
            if not block:
                start, item = number, bool(ITEM.match(line))
            block.append(line.strip(" >") if block else ITEM.sub("", line).strip(" >"))


def texts(path):
    """All Texts of a file, in the order of its lines except in Python."""
    text = path.read_text()
    if path.suffix in C_LIKE:
        return list(c_like(text, path.suffix))
    if path.suffix == ".md":
        return list(markdown(text))
    if path.suffix == ".py":
        # Python's None is code.
        return [found._replace(words=re.sub(r"\bNone\b", "`None`", found.words)) for found in python(text)]
    return list(shell(text))
