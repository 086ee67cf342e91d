"""The licences of parts, and whether they may be shipped: licences.txt."""

import fnmatch
import pathlib

import license_expression
from contents import COMPILED

TABLE = pathlib.Path(__file__).with_name("licences.txt")
LICENSING = license_expression.get_spdx_licensing()


class Licences:
    def __init__(self, text):
        self.lines = {"allow": [], "allow-linked": [], "source": [], "headers": [], "wheel": []}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split("#")[0].split(maxsplit=1)
            if not words:
                continue
            if words[0] not in self.lines or len(words) < 2:
                raise SystemExit(f"sbom: licences.txt:{number}: not understood: {line}")
            self.lines[words[0]].append(words[1].strip())

    def of(self, part):
        """Its SPDX expression, or None if no line names the part."""
        if part.licence:
            return " ".join(part.licence.split())
        kinds = {"deb": ["headers", "source"] if part.how == COMPILED else ["source"], "pypi": ["wheel"]}
        for kind in kinds.get(part.kind, []):
            for line in self.lines[kind]:
                name, licence = line.split(maxsplit=1)
                if fnmatch.fnmatchcase(part.source, name):
                    return licence
        return None

    def allows(self, expression, how):
        allowed = self.lines["allow"] + ([] if how == COMPILED else self.lines["allow-linked"])
        return self._allows(LICENSING.parse(expression, validate=False), set(allowed))

    def _allows(self, node, allowed):
        if isinstance(node, LICENSING.OR):
            return any(self._allows(one, allowed) for one in node.args)
        if isinstance(node, LICENSING.AND):
            return all(self._allows(one, allowed) for one in node.args)
        return node.render("{symbol.key}") in allowed

    def problem(self, part):
        """Why the part may not be shipped, or None."""
        expression = self.of(part)
        if expression is None:
            texts = ", ".join(map(str, part.texts)) or "its source"
            return (f"{part.name} {part.version} ({part.source}): the licence is not known. Read {texts}, and add a line to "
                    "deploy/sbom/licences.txt")
        if not self.allows(expression, part.how):
            return f"{part.name} {part.version}: {expression} is not allowed for what is used as: {part.how}"
        return None


def read():
    return Licences(TABLE.read_text())
