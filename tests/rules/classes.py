"""Which public methods the classes of a C++ header have: enough of a parser for code that is formatted."""

import re

from functions import DIRECTIVE, NOISE, blank

# What has parentheses and is no function: annotations, attributes, alignment.
MACRO = re.compile(r"\b(?:ABSL|FOLIO)_[A-Z_]+\b(?:\s*\((?:[^()]|\([^()]*\))*\))?|\[\[.*?\]\]|\balignas\s*\([^()]*\)", re.S)
TEMPLATE = re.compile(r"<[^<>]*>")
TYPE = re.compile(r"^(?:template\s*)?(class|struct|union)\s+(?P<name>[\w:]+)", re.S)
ACCESS = re.compile(r"^\s*(public|protected|private)\s*:(?!:)")
NO_METHOD = re.compile(r"^(?:template\s*)?(using|typedef|friend|static_assert|enum|namespace|extern|requires)\b")


def simple(head):
    """A declaration without what confuses: annotations and template arguments, so that `f(` is a function's."""
    head = MACRO.sub("", head)
    while (shorter := TEMPLATE.sub("", head)) != head:
        head = shorter
    return " ".join(head.split())


def method(head, owner):
    """The name of the method that a member's declaration declares, or None."""
    if "operator" in head or NO_METHOD.match(head) or re.search(r"=\s*delete$", head):
        return None
    name = re.match(r"[^=(]*?(~?\w+)\s*\((?!\s*\*)", head)  # no pointer to a function
    return None if name is None or name[1] == owner or name[1].startswith("~") else name[1]


def end_of_block(text, at):
    """The place behind the brace that closes the one at `at`."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    raise AssertionError("braces do not match")


def members(text, start, stop):
    """(declaration, where its block begins or None, where that ends) of what lies between two places."""
    at, head_at, block, parens = start, start, None, 0
    while at < stop:
        sign = text[at]
        parens += (sign == "(") - (sign == ")")
        if access := ACCESS.match(text[head_at:stop]) if at == head_at else None:
            yield access[1], None, None
            head_at = at = head_at + access.end()
            continue
        if sign == "{" and not parens:
            end = end_of_block(text, at)
            block = block or (at, end)
            # An initialiser, or a type whose `;` is still to come; a function's body and a namespace end here.
            rest = re.match(r"\s*[,{;]", text[end:stop])
            at = end
            if not rest:
                yield text[head_at:block[0]], *block
                head_at, block = at, None
            continue
        if sign == ";" and not parens:
            yield text[head_at:block[0] if block else at], *(block or (None, None))
            head_at, block = at + 1, None
        at += 1


def walk(text, start, stop, outer):
    """(class, method) of all classes between two places; a class without public methods has the method None."""
    access, owner = ("public", None) if not outer else outer
    for head, begin, end in members(text, start, stop):
        if head in ("public", "protected", "private"):
            access = head
            continue
        plain = simple(head)
        named = TYPE.match(plain)
        if begin is not None and named and "(" not in plain:
            name = f"{owner}::{named['name']}" if owner else named["name"]
            yield name, None
            yield from walk(text, begin + 1, end - 1, ("private" if named[1] == "class" else "public", name))
        elif begin is not None and re.match(r"(inline )?namespace\b|extern\b", plain):
            yield from walk(text, begin + 1, end - 1, None)
        elif owner and access == "public" and (found := method(plain, owner.rpartition("::")[2])):
            yield owner, found


def public_methods(text):
    """Class -> its public methods, an overloaded one as often as it is declared. Structs are classes."""
    text = DIRECTIVE.sub(blank, NOISE.sub(blank, text))
    found = {}
    for name, called in walk(text, 0, len(text), None):
        found.setdefault(name, [])
        if called:
            found[name].append(called)
    return found
