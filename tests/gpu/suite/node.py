"""A manager and workers as real processes, a generation whose worker is killed, and what its tokens are compared to."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from .sections import FAIL, PASS, Outcome

# For ranks of NCCL that share one.
SHARED_GPU = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}
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
    """A manager and workers, on sockets in a folder of their own. Ends all it has started. `device`: cpu, or a GPU for
    each of a worker's ranks, such as cuda:0,cuda:1."""

    def __init__(self, places, folder, device, pool, ranks=1):
        self.places, self.folder, self.device, self.ranks = places, pathlib.Path(folder), device, ranks
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
                env=self.places.environment(**SHARED_GPU),
            )  # fmt: skip

    def start_worker(self, name, model, *flags):
        # With several ranks each takes its own of the manager's GPUs.
        device = self.device if self.ranks == 1 or self.device == "cpu" else "cuda"
        self.start("folio-worker", name, f"--listen={self.address(name)}", f"--manager={self.manager_address}",
                   f"--model={model}", f"--device={device}", f"--tp={self.ranks}", *flags)  # fmt: skip

    def address(self, name):
        return f"unix:{self.folder}/{name}.sock"

    def words(self, name):
        lines = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    def ctl(self, *arguments, timeout=60):
        return subprocess.run([self.places["folioctl"], *arguments], capture_output=True, text=True, timeout=timeout,
                              env=self.places.environment())  # fmt: skip

    def await_serving(self, name, address, deadline):
        while self.ctl("health", "--address", address).returncode != 0:
            if self.processes[name].poll() is not None:
                raise Broken(f"{name} ended before it served: {self.words(name)}")
            if time.monotonic() > deadline:
                raise Broken(f"{name} did not serve in time: {self.words(name)}")
            time.sleep(0.1)

    def claims(self):
        """How many sequences another worker has gone on with."""
        return (self.folder / "manager.log").read_text(errors="replace").count("orphan claimed")

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


def kill_worker(node, victim):
    os.kill(node.processes[victim].pid, signal.SIGKILL)
    node.processes.pop(victim).wait()


def interrupted(node, victim, heir, case, tokens, seconds, kill=kill_worker):
    """(its tokens, how many of them had come when the worker was killed)."""
    # Without a buffer, because `communicate` leaves out what a buffer has read beyond the last line.
    process = subprocess.Popen(asking(node, victim, case, tokens), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               bufsize=0, env=node.places.environment())  # fmt: skip
    try:
        got, gaps = [], []
        claims = node.claims()
        while len(got) < min(8, tokens // 3):
            line = process.stdout.readline()
            if not line:
                errors = process.stderr.read().decode(errors="replace")
                raise Broken(f"{case}: the generation ended by itself: {errors.strip()[-300:]}")
            read_events([line], got, gaps)
        before = len(got)
        kill(node, victim)
        # The one that goes on is found where the other was: a socket keeps its listener when it is renamed.
        os.replace(node.folder / f"{heir}.sock", node.folder / f"{victim}.sock")
        rest, errors = process.communicate(timeout=seconds)
        if process.returncode != 0:
            errors = errors.decode(errors="replace")
            raise Broken(f"{case}: not resumed after {before} tokens: {errors.strip()[-300:]}")
        read_events(rest.splitlines(), got, gaps)
        if node.claims() == claims:
            raise Broken(f"{case}: the worker was killed after its last token")
        return got, before
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def compare(case, expected, gaps, got):
    """Words about two sequences of tokens; raises where they may not differ."""
    if len(got) != len(expected):
        raise Broken(f"{case}: {len(got)} tokens instead of {len(expected)}")
    differs = next((at for at, (a, b) in enumerate(zip(expected, got)) if a != b), None)
    if differs is None:
        return f"{case}: {len(got)} tokens the same"
    if gaps[differs] >= TIE:
        raise Broken(f"{case}: token {differs} differs, and the two best are {gaps[differs]:.2f} apart")
    return f"{case}: the same up to token {differs}, a tie ({gaps[differs]:.2f} apart)"


def assert_all_free(node):
    deadline = time.monotonic() + 60
    while node.pool()["held_pages"] or node.pool()["orphans"]:
        if time.monotonic() > deadline:
            raise Broken(f"pages are still held: {node.pool()['held_pages']}")
        time.sleep(0.1)


def keep_logs(folder, log):
    """Writes the logs of what was started in a folder, or in folders of it, into one file."""
    logs = sorted([*folder.glob("*.log"), *folder.glob("*/*.log")])
    log.write_text("".join(f"== {one.name}\n{one.read_text(errors='replace')}\n" for one in logs))


def judge(play, log):
    """The outcome of play(folder), and the logs of what it started, in one file."""
    with tempfile.TemporaryDirectory(prefix="folio-gpu.") as folder:
        try:
            outcome = Outcome(PASS, play(folder))
        except Broken as broken:
            outcome = Outcome(FAIL, str(broken))
        except subprocess.TimeoutExpired as late:
            outcome = Outcome(FAIL, f"not done within {late.timeout:.0f} s: {pathlib.Path(late.cmd[0]).name}")
        finally:
            keep_logs(pathlib.Path(folder), pathlib.Path(log))
    return outcome
