"""Two tensor-parallel ranks over NCCL say what one rank does; when one of them dies the worker ends within seconds, and
another group goes on with its sequences. On one GPU both ranks are on it."""

import os
import pathlib
import signal
import time

from .node import CASES, Broken, Node, assert_all_free, compare, interrupted, judge, whole
from .places import SHARING

RANKS = 2
PATIENCE = 8  # seconds that a group may take to end
TO_END = 20  # seconds that processes may take to end at last


def two_devices(gpus):
    return "cuda:0,cuda:1" if gpus > 1 else "cuda:0,cuda:0"


def shared(devices):
    return len(set(devices.split(","))) < RANKS


def why_not(places, devices):
    """None where NCCL serves these."""
    version = places.nccl_version()
    if not shared(devices) or version is None or version >= SHARING:
        return None
    return f"NCCL {version[0]}.{version[1]}: ranks may share a GPU from {SHARING[0]}.{SHARING[1]} on"


def follower(leader):
    """The process of its other rank."""
    found = []
    for task in pathlib.Path(f"/proc/{leader}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    if len(found) != RANKS - 1:
        raise Broken(f"the leader has {len(found)} processes instead of {RANKS - 1}")
    return found[0]


def kill_follower(node, victim):
    process = node.processes.pop(victim)
    os.kill(follower(process.pid), signal.SIGKILL)
    killed = time.monotonic()
    try:
        if process.wait(PATIENCE) != 1:
            raise Broken(f"a rank was killed, and its leader ended with {process.returncode}: {node.words(victim)}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    node.took = time.monotonic() - killed


def alone(node, model, tokens, left):
    """What one rank says, by case."""
    node.await_serving("manager", node.manager_address, time.monotonic() + left())
    node.start_worker("only", model)
    node.await_serving("only", node.address("only"), time.monotonic() + left())
    return {case: whole(node, "only", case, tokens, left()) for case in CASES}


def play(node, expected, model, tokens, left):
    node.await_serving("manager", node.manager_address, time.monotonic() + left())
    for name in ("first", "second"):
        node.start_worker(name, model)
    for name in ("first", "second"):
        node.await_serving(name, node.address(name), time.monotonic() + left())
    told = []
    for case in CASES:
        got, gaps = whole(node, "second", case, tokens, left())
        told.append(f"{compare(case, *expected[case], got)} as with one rank")
        expected[case] = got, gaps
    case = "paged_eviction"
    got, before = interrupted(node, "first", "second", case, tokens, left(), kill=kill_follower)
    words = compare(case, *expected[case], got)
    told.append(f"{words}, a rank killed after {before} or more, its worker ended {node.took:.1f} s later")
    assert_all_free(node)
    return "; ".join(told)


def run(places, model, log, seconds, devices, pool="2GiB", tokens=None):
    # Processes that share a GPU take turns on it, for each sum.
    tokens = tokens or (64 if shared(devices) else 600)
    end = time.monotonic() + seconds - TO_END

    def left():
        return max(1, end - time.monotonic())

    def begin(folder):
        folder, single = pathlib.Path(folder), devices.split(",")[0]
        (folder / "one").mkdir()
        (folder / "two").mkdir()
        with Node(places, folder / "one", single, pool) as node:
            expected = alone(node, model, tokens, left)
        with Node(places, folder / "two", devices, pool, RANKS) as node:
            return play(node, expected, model, tokens, left)

    return judge(begin, log)
