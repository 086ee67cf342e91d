"""One record of several runs, because a machine may not be there for as long as a large number of faults takes."""

import collections

# What is the same in all records that can be one.
SAME = ("nodes", "bound_of_that_wait_seconds", "bound_of_quarantine_seconds")
NAMES = ("machine", "commit")  # of which the record lists those that differ
LONGEST = ("longest_wait_for_a_token_seconds", "longest_quarantine_seconds")
SUMS = (
    "faults", "seconds", "rounds_repeated_because_the_machine_stood_still", "answers_right", "answers_wrong_or_late", "tokens_compared",
    "ended_data_loss_by_poison", "sequences_claimed", "sequences_parked", "of_them_swapped_out", "and_swapped_in", "managers_started_again",
    "workers_started_again", "pages_leaked", "wrong",
)  # fmt: skip
OF_KIND = {"count": sum, "answers": sum, "ended_early": sum, "longest_seconds": max}


def merge(records):
    """The parts must have been made with the same nodes and bounds, and with seeds of their own."""
    seeds = [record["seed"] for record in records]
    if len(set(seeds)) < len(seeds):
        raise SystemExit(f"two records have one seed, so their faults are the same: {sorted(seeds)}")
    for key in SAME:
        if any(record[key] != records[0][key] for record in records):
            raise SystemExit(f"the records differ in {key}, so they are no parts of one")
    said = {"date": max(record["date"] for record in records), "records": sum(record.get("records", 1) for record in records)}
    said |= {key: "; ".join(dict.fromkeys(record[key] for record in records)) for key in NAMES}
    said |= {"seed": ", ".join(map(str, seeds))}
    said |= {key: records[0][key] for key in SAME}
    said |= {key: max(record[key] for record in records) for key in LONGEST}
    said |= {key: sum((record[key] for record in records), type(records[0][key])()) for key in SUMS}
    ended = sum((collections.Counter(record["ended_early"]) for record in records), collections.Counter())
    kinds = sorted({kind for record in records for kind in record["faults_by_kind"]})
    rows = {kind: [record["faults_by_kind"][kind] for record in records if kind in record["faults_by_kind"]] for kind in kinds}
    by_kind = {kind: {key: of(row[key] for row in rows[kind]) for key, of in OF_KIND.items()} for kind in kinds}
    return said | {"ended_early": dict(ended), "faults_by_kind": by_kind}
