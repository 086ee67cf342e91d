"""Damage to the pages of one sequence."""

from page_memory import ranks


def damage(node, sequence_id):
    """Writes NaN into the first page of a sequence, through the memory that the manager shares with its workers. Of a
    worker of several ranks it is rank 0's part of the page."""
    page = node.sequence(sequence_id).layers[0].pages[0].page
    with ranks(node)[0].open() as pages:
        pages[page] = 0xFF
