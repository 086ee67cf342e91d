"""Pages lead somewhere: their links, and the files and programs that the table of claims and its tests names."""

import pathlib
import re
import subprocess

import pytest
from test_layout import ROOT

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def pages():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True,
                            text=True)
    names = set(listed.stdout.split()) if listed.returncode == 0 else {
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.md") if "build" not in path.relative_to(ROOT).parts[0]}
    return sorted(name for name in names if (ROOT / name).is_file())


def anchors(page):
    """The anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def broken(name):
    page = ROOT / name
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue  # another site
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{name}: {link} does not exist"
        elif anchor and anchor not in anchors(target):
            yield f"{name}: {link} has no such heading"


def test_links_lead_somewhere():
    names = pages()
    assert len(names) > 30, "found hardly any page: is the test looking in the right place?"
    wrong = [fault for name in names for fault in broken(name)]
    assert not wrong, "\n".join(wrong)


def claims():
    text = (ROOT / "tests/README.md").read_text().partition("\n## Claims")[2]
    return [row.rsplit("|", 2)[1] for row in text.splitlines() if row.startswith("| ") and "shown by" not in row]


def programs():
    """The programs that CMake makes."""
    files = [*ROOT.glob("tests/**/CMakeLists.txt"), *ROOT.glob("tests/**/*.cmake"), *ROOT.glob("services/**/CMakeLists.txt")]
    return {name for file in files
            for name in re.findall(r"(?:folio_\w+|add_executable|emulated_\w+)\(\s*([\w-]+)", file.read_text())}


def test_the_commands_of_the_claims_exist():
    shown = claims()
    assert len(shown) > 15
    known = programs()
    for cell in shown:
        names = re.findall(r"\b(?:tests|deploy)/[\w/.]+", cell)
        for name in names:
            assert (ROOT / name).exists(), f"{name} shows a claim and does not exist"
        binaries = re.findall(r"build/bin/(\w+)", cell)
        for name in binaries:
            assert name in known, f"no CMakeLists.txt makes build/bin/{name}, which shows a claim"
        assert names or binaries or "ctest" in cell, f"nothing shows a claim: {cell}"


@pytest.mark.parametrize("text, anchor", [("# The study", "the-study"), ("## What `x` costs, today", "what-x-costs-today")])
def test_understands_headings(tmp_path, text, anchor):
    page = pathlib.Path(tmp_path / "page.md")
    page.write_text(f"{text}\n\n```\n# not a heading\n```\n")
    assert anchors(page) == {anchor}
