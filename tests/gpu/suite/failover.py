"""The manager's pool outlives a worker that is killed: another one goes on, token for token. Real processes."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from .sections import FAIL, PASS, Outcome

# Where the two best tokens are this close, arithmetic in bf16 may choose either (tests/oracle/README.md).
TIE = 0.25
PROMPT = (
    "The lighthouse keeper wrote down the weather of every day, in a hand that nobody else could read. "
    "When the new keeper came he found forty books of it, and began to read them in the evenings. "
    "What he learned from them about the sea, about ships and about the old man himself was this:"
)
CASES = {"full": [], "paged_eviction": ["--policy", "paged_eviction", "--budget", "64"]}


class Broken(Exception):
    """Why the section fails."""


class Node:
    """A manager and workers, on sockets in a folder of their own. Ends all it has started."""

    def __init__(self, places, folder, device, pool):
        self.places, self.folder, self.device = places, pathlib.Path(folder), device
        self.manager_address = f"unix:{self.folder}/manager.sock"
        self.processes = {}
        self.start("folio-manager", "manager", f"--listen={self.manager_address}", f"--device={device}",
                   f"--pool_bytes={pool}", "--orphan_ttl=5m")  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(list(self.processes.values())):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, program, name, *flags):
        with open(self.folder / f"{name}.log", "w") as out:
            self.processes[name] = subprocess.Popen(
                [self.places[program], *flags], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                env=self.places.environment(),
            )  # fmt: skip

    def start_worker(self, name, model):
        self.start("folio-worker", name, f"--listen={self.address(name)}", f"--manager={self.manager_address}",
                   f"--model={model}", *([] if self.device == "cpu" else [f"--device={self.device}"]))  # fmt: skip

    def address(self, name):
        return f"unix:{self.folder}/{name}.sock"

    def words(self, name):
        lines = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    def ctl(self, *arguments, timeout=20):
        return subprocess.run([self.places["folioctl"], *arguments], capture_output=True, text=True, timeout=timeout,
                              env=self.places.environment())  # fmt: skip

    def await_serving(self, name, address, deadline):
        while self.ctl("health", "--address", address).returncode != 0:
            if self.processes[name].poll() is not None:
                raise Broken(f"{name} ended before it served: {self.words(name)}")
            if time.monotonic() > deadline:
                raise Broken(f"{name} did not serve in time: {self.words(name)}")
            time.sleep(0.1)

    def pool(self):
        said = self.ctl("pools", "--address", self.manager_address, "--output", "json")
        if said.returncode != 0:
            raise Broken(f"the manager does not answer: {said.stderr.strip()}")
        (pool,) = json.loads(said.stdout)["pools"]
        return pool


def asking(node, worker, case, tokens):
    return [node.places["folioctl"], "generate", PROMPT, "--address", node.address(worker), "--output", "json",
            "--max_tokens", str(tokens), "--ignore_eos", "--logprobs", "2", "--mode", "synchronous",
            *CASES[case]]  # fmt: skip


def read_events(lines, tokens, gaps):
    """Adds the tokens of events, and how far apart the two best were at each."""
    for line in lines:
        chunk = json.loads(line).get("chunk") or {}
        for one in chunk.get("logprobs", []):
            best = sorted((top["logprob"] for top in one["top"]), reverse=True)
            gaps.append(best[0] - best[1])
        tokens += chunk.get("tokens", [])


def whole(node, worker, case, tokens, seconds):
    said = subprocess.run(asking(node, worker, case, tokens), capture_output=True, text=True, timeout=seconds,
                          env=node.places.environment())  # fmt: skip
    if said.returncode != 0:
        raise Broken(f"{case}: the unbroken generation failed: {said.stderr.strip()[-300:]}")
    got, gaps = [], []
    read_events(said.stdout.splitlines(), got, gaps)
    return got, gaps


def interrupted(node, victim, heir, case, tokens, seconds):
    """(its tokens, how many of them had come when the worker was killed)."""
    process = subprocess.Popen(asking(node, victim, case, tokens), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=node.places.environment())  # fmt: skip
    try:
        got, gaps = [], []
        while len(got) < min(24, tokens // 3):
            line = process.stdout.readline()
            if not line:
                raise Broken(f"{case}: the generation ended by itself: {process.stderr.read().strip()[-300:]}")
            read_events([line], got, gaps)
        before = len(got)
        os.kill(node.processes[victim].pid, signal.SIGKILL)
        node.processes.pop(victim).wait()
        # The one that goes on is found where the other was: a socket keeps its listener when it is renamed.
        os.replace(node.folder / f"{heir}.sock", node.folder / f"{victim}.sock")
        rest, errors = process.communicate(timeout=seconds)
        if process.returncode != 0:
            raise Broken(f"{case}: not resumed after {before} tokens: {errors.strip()[-300:]}")
        read_events(rest.splitlines(), got, gaps)
        return got, before
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def compare(case, expected, gaps, got, before, killed_in_time):
    """Words about two sequences of tokens; raises where they may not differ."""
    if len(got) != len(expected):
        raise Broken(f"{case}: {len(got)} tokens instead of {len(expected)}")
    if not killed_in_time:
        raise Broken(f"{case}: the worker was killed after its last token")
    differs = next((at for at, (a, b) in enumerate(zip(expected, got)) if a != b), None)
    if differs is None:
        return f"{case}: {len(got)} tokens the same, killed after {before} or more"
    if gaps[differs] >= TIE:
        raise Broken(f"{case}: token {differs} differs, and the two best are {gaps[differs]:.2f} apart")
    return f"{case}: the same up to token {differs}, a tie ({gaps[differs]:.2f} apart)"


def play(node, model, tokens, seconds):
    start = time.monotonic()

    def left():
        return max(1, seconds - (time.monotonic() - start))

    node.await_serving("manager", node.manager_address, start + min(20, seconds))
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
        claims = (node.folder / "manager.log").read_text(errors="replace").count("orphan claimed")
        got, before = interrupted(node, victim, heir, case, tokens, left())
        claimed = (node.folder / "manager.log").read_text(errors="replace").count("orphan claimed")
        told.append(compare(case, *expected[case], got, before, claimed > claims))
    deadline = time.monotonic() + 10
    while node.pool()["held_pages"] or node.pool()["orphans"]:
        if time.monotonic() > deadline:
            raise Broken(f"pages are still held: {node.pool()['held_pages']}")
        time.sleep(0.1)
    if node.pool()["total_pages"] != pages or node.processes["manager"].poll() is not None:
        raise Broken("the pool is not what it was")
    return "; ".join(told)


def run(places, model, log, seconds, device="cuda:0", pool="2GiB", tokens=1500):
    with tempfile.TemporaryDirectory(prefix="folio-gpu.") as folder:
        try:
            with Node(places, folder, device, pool) as node:
                outcome = Outcome(PASS, play(node, model, tokens, seconds - 12))
        except Broken as broken:
            outcome = Outcome(FAIL, str(broken))
        except subprocess.TimeoutExpired as late:
            outcome = Outcome(FAIL, f"not done within {late.timeout:.0f} s: {pathlib.Path(late.cmd[0]).name}")
        finally:
            logs = sorted(pathlib.Path(folder).glob("*.log"))
            pathlib.Path(log).write_text("".join(f"== {one.name}\n{one.read_text(errors='replace')}\n" for one in logs))
    return outcome
