"""Each metric that docs/monitoring.md lists is asserted in a test of the processes or of the code that counts it."""

import re

from test_layout import ROOT

LISTED = re.compile(r"^\| `((?:folio:|process_)[a-z0-9_:]+)` \|", re.MULTILINE)


def text_of_tests():
    folders = [folder for folder in (ROOT / "tests").iterdir() if folder.is_dir() and folder.name not in {"rules", "bench", "helm", "eval"}]
    files = [file for folder in folders for kind in ("*.py", "*.cc") for file in folder.rglob(kind)]
    return "\n".join(file.read_text() for file in files)


def test_each_metric_is_asserted():
    names = set(LISTED.findall((ROOT / "docs/monitoring.md").read_text()))
    assert len(names) > 60
    text = text_of_tests()
    # Tests of one daemon name some of its metrics without what they begin with.
    short = {name: name.removeprefix("folio:").removeprefix("gateway_").removesuffix("_total") for name in names}
    assert sorted(name for name in names if not re.search(rf"\b(?:\w+_)?{short[name]}(?:_\w+)?\b", text)) == []
