"""A table in Markdown, and words for its cells."""

NOT_RUN = "not run"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


def state(record):
    """Words for a cell without numbers."""
    if record and record.get("steps") == 0:
        return "no step was measured"
    return record["state"] if record else NOT_RUN


def measured(record):
    """Whether a cell has numbers. A rate over no step is none."""
    return record is not None and record.get("state") == "measured" and record.get("steps") != 0


def percent(share, digits=0):
    return f"{100 * share:.{digits}f} %"


def goal(value, reached):
    return f"{value} ({'reached' if reached else 'missed'})"


def name_of(budget):
    return "full" if budget == 0 else f"{budget:,}"
