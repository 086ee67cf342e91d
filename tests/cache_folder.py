"""The folder outside the repository in which environments, tools and results are kept: FOLIO_CACHE, by default ~/.cache/folio."""

import os
import pathlib

CACHE = pathlib.Path(
    os.environ.get("FOLIO_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "folio"
)
