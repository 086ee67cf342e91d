"""The pages of a node, as its manager shares them with workers."""

import contextlib
import mmap
import os
import pathlib

import numpy


class RankPages:
    """One rank's pages, shaped [page][K or V, then head][token][bytes of a row], as memory that can be written."""

    def __init__(self, path, layout, total, heads):
        self.path = path
        self.shape = (total, 2 * heads, layout.page_tokens, 2 * layout.head_dim)

    @contextlib.contextmanager
    def open(self):
        with open(self.path, "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as memory:
            pages = numpy.ndarray(self.shape, numpy.uint8, memory)
            yield pages
            del pages  # or the map cannot be closed

    def copy(self):
        with self.open() as pages:
            return pages.copy()


def ranks(node):
    """The pages of each rank. The ranks have as many heads each."""
    pool = node.pool()
    count = max(1, len(pool.layout.rank_kv_heads))
    heads = (list(pool.layout.rank_kv_heads) or [pool.layout.num_kv_heads])[0]
    descriptors = sorted(pathlib.Path(f"/proc/{node.manager.pid}/fd").iterdir(), key=lambda path: int(path.name))
    paths = [one for one in descriptors if "memfd:folio-pool" in os.path.realpath(one)]
    assert len(paths) == count
    return [RankPages(path, pool.layout, pool.total_pages, heads) for path in paths]
