"""Damage to the pages of one sequence."""

import mmap
import os
import pathlib


def damage(node, sequence_id):
    """Writes NaN into the first page of a sequence, through the memory that the manager shares with its workers. Of a
    worker of several ranks it is rank 0's part of the page, and the ranks have as many heads each."""
    page = node.sequence(sequence_id).layers[0].pages[0].page
    pool = node.pool()
    ranks = max(1, len(pool.layout.rank_kv_heads))
    size = pool.page_bytes // ranks
    descriptors = sorted(pathlib.Path(f"/proc/{node.manager.pid}/fd").iterdir(), key=lambda path: int(path.name))
    pools = [one for one in descriptors if "memfd:folio-pool" in os.path.realpath(one)]
    assert len(pools) == ranks
    with open(pools[0], "r+b", buffering=0) as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[page * size : (page + 1) * size] = b"\xff" * size
