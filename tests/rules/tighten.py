#!/usr/bin/env python3
"""Brings the lists of tests/rules (*.txt) down to what the tree needs: $(tests/python.sh) tests/rules/tighten.py

Entries are lowered or deleted, never raised or added, so running it cannot hide that a file got worse.
"""

import test_classes
import test_functions
import test_language
import test_layout
import test_readmes


def rewrite(path, needed):
    """Keeps the comments and, of the entries, those that `needed` (entry without its number -> number) has."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            lines.append(line)
            continue
        *key, number = line.split()
        if number.isdigit():
            now = min(int(number), needed.get(tuple(key), 0))
            lines += [" ".join([*key, str(now)])] if now else []
        elif (*key, number) in needed:
            lines.append(line)
    path.write_text("\n".join(lines) + "\n")


def longer(path, limit):
    lines = len(path.read_text().splitlines()) if path.exists() else 0
    return lines if lines > limit(path) else 0


def long_functions():
    found = {}
    for file, name in test_functions.limits():
        path = test_layout.ROOT / file
        lengths = [lines for _, lines, called in test_functions.functions(path) if called == name] if path.exists() else []
        found[file, name] = max((length for length in lengths if length > test_functions.FUNCTION_LINES), default=0)
    return found


def main():
    rewrite(test_language.RATCHET, {(name,): count for name, count in test_language.counts().items()})
    rewrite(test_layout.RATCHET, {(name,): longer(test_layout.ROOT / name, test_layout.rule_for)
                                  for name in test_layout.limits()})
    rewrite(test_layout.LAYERING, test_layout.broken())
    rewrite(test_functions.RATCHET, long_functions())
    rewrite(test_classes.RATCHET, {key: count for key, count in test_classes.counts().items()
                                   if count > test_classes.PUBLIC_METHODS})
    rewrite(test_readmes.RATCHET, {*test_readmes.unwritten(), *test_readmes.unknown(), *test_readmes.unnamed()})


if __name__ == "__main__":
    main()
