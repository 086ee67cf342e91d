"""Long texts in the public domain, which `texts.sh` fetches when they are first read."""

import functools
import pathlib
import re
import subprocess

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "texts.sh"


@functools.cache
def read(name):
    """The text of that name with its lines joined to paragraphs, an empty line between them."""
    fetched = subprocess.run([SCRIPT, name], capture_output=True, text=True)
    if fetched.returncode:
        raise ValueError(fetched.stderr.strip() or f"{SCRIPT.name} ended with {fetched.returncode}")
    return joined(pathlib.Path(fetched.stdout.strip()).read_text(encoding="utf-8"))


def joined(text):
    """Line breaks inside a paragraph become spaces."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
