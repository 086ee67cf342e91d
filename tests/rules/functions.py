"""Where functions begin and end, in C++, Rust and Python: enough of a parser for code that is formatted."""

import ast
import re

# What braces inside it mean nothing: comments, raw strings, strings, characters.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^\s()\\]{0,16})\(.*?\)\1"|b?"(?:\\.|[^"\\])*"|'
    r"'(?:\\.[^'\n]{0,8}|[^'\\\n])'",
    re.S,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
SCOPE = re.compile(
    r"^(?:template\s*<.*?>\s*)?(?:inline\s+|pub\s+|unsafe\s+)*"
    r"(?:namespace|class|struct|union|enum|extern|impl|mod|trait)\b",
    re.S,
)


def blank(match):
    """As many lines, nothing in them."""
    return " " + "\n" * match[0].count("\n")


def name_of(head):
    """Of a function; GoogleTest's is suite.case."""
    called, arguments = re.search(r"([^\s(]+)\s*\(([^()]*)", head).groups()
    return ".".join(arguments.replace(",", " ").split()) if called.startswith("TEST") else called


def braced(text):
    """(first line, lines, name) of each function in C++ or Rust; what is inside of one belongs to it."""
    text = DIRECTIVE.sub(blank, NOISE.sub(blank, text))
    found, stack, head_at, parens = [], [], 0, 0
    for match in re.finditer(r"[;{}()]", text):
        at, sign = match.start(), match[0]
        inside = bool(stack) and stack[-1] != "scope"
        if sign in "()":
            parens += 0 if inside else 1 if sign == "(" else -1
            continue
        if sign == "{":
            head = text[head_at:at]
            if inside or parens:  # a default argument is no body
                stack.append("inside")
            elif SCOPE.match(head.strip()):
                stack.append("scope")
            elif "(" not in head:  # data
                stack.append("inside")
            else:
                stack.append((text.count("\n", 0, at - len(head.lstrip())) + 1, name_of(head)))
        elif sign == "}" and stack:
            block = stack.pop()
            if isinstance(block, tuple):
                found.append((block[0], text.count("\n", 0, at) + 2 - block[0], block[1]))
        if not parens:
            head_at = at + 1
    assert not stack, "braces do not match"
    return found


def python(text):
    """As `braced`, for Python."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node.lineno, node.end_lineno - node.lineno + 1, node.name)
            for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


def functions(path):
    text = path.read_text()
    return python(text) if path.suffix == ".py" else braced(text)
