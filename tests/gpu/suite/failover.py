"""The manager's pool outlives a worker that is killed: another one goes on, token for token."""

import time

from .node import CASES, Broken, Node, assert_all_free, compare, interrupted, judge, whole


def play(node, model, tokens, seconds):
    start = time.monotonic()

    def left():
        return max(1, seconds - (time.monotonic() - start))

    node.await_serving("manager", node.manager_address, start + min(60, seconds))
    names = ["first", "second", "third"]
    for name in names:
        node.start_worker(name, model)
    for name in names:
        node.await_serving(name, node.address(name), start + seconds)
    pages = node.pool()["total_pages"]
    expected = {case: whole(node, "third", case, tokens, left()) for case in CASES}
    told = []
    # Of each case: who is killed, at the address that stays, and where the one is that goes on. At the end
    # the second worker serves all of it.
    for case, victim, heir in (("full", "first", "second"), ("paged_eviction", "third", "first")):
        got, before = interrupted(node, victim, heir, case, tokens, left())
        told.append(f"{compare(case, *expected[case], got)}, killed after {before} or more")
    assert_all_free(node)
    if node.pool()["total_pages"] != pages or node.processes["manager"].poll() is not None:
        raise Broken("the pool is not what it was")
    return "; ".join(told)


def run(places, model, log, seconds, device="cuda:0", pool="2GiB", tokens=1500):
    def begin(folder):
        with Node(places, folder, device, pool) as node:
            return play(node, model, tokens, seconds - 12)

    return judge(begin, log)
