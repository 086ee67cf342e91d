"""A run: two nodes, a crowd of clients, and faults one after another."""

import collections
import contextlib
import pathlib
import shutil
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass

from folio_chaos.bounds import CALL_ENDS
from folio_chaos.callers import Certificates
from folio_chaos.cases import answers, ask, make_cases, slow_request
from folio_chaos.checks import Daemons, Wrong, judge
from folio_chaos.clients import Crowd, RawClient, SdkClient
from folio_chaos.daemons import ChaosNode
from folio_chaos.proxies import Proxies
from folio_chaos.stalls import Stalls, why_repeated
from folio_chaos.tally import Round, Tally
from metrics import Metrics
from node import write_model
from step_clock import StepClock, build_shim

# Name, ranks of each worker, workers, clients, pool, swap memory. A manager serves workers of one layout, so that those of two
# ranks have one of their own.
NODES = [("single", 1, 2, 24, "4MiB", "1MiB"), ("ranks", 2, 1, 8, "3MiB", None)]
# Rounds of a run that may have to be repeated because the machine stood still.
MOST_STALLED = 30


@dataclass(frozen=True)
class Place:
    """A client's node, its first worker, and the same worker if the connection to it can be cut."""

    node: ChaosNode
    worker: str
    cut_with: str | None


class World:
    """All that faults and checks look at. `fail` may be called by any thread."""

    def __init__(self, seed, stack, say):
        self.seed, self.say, self.lock = seed, say, threading.Lock()
        self.rounds, self.stalled, self.total, self.counted = [], 0, Tally(), collections.Counter()
        self.counted_so_far = collections.Counter()  # with those of the managers that run
        self.wrong, self.fault, self.tally = [], None, Tally()  # of the present round
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="folio-chaos.")))
        write_model(directory / "model")
        shim = build_shim(directory)
        self.clock, certificates = StepClock(shim, directory / "clock"), Certificates(directory / "certificates", shim)
        proxies = stack.enter_context(contextlib.closing(Proxies()))
        self.nodes = [
            stack.enter_context(
                ChaosNode(name, ranks, workers, directory / "model", proxies, certificates, self.clock.environment, pool, swap)
            )
            for name, ranks, workers, _, pool, swap in NODES
        ]
        self.cases = make_cases(seed)
        self.expected = {node.name: answers(node.stub(node.names[0]), self.cases) for node in self.nodes}
        self.slow_answers = {node.name: self.slow_answer(node) for node in self.nodes}
        self.daemons = [
            stack.enter_context(contextlib.closing(Daemons(node, self.cases, self.expected[node.name])))
            for node in self.nodes
        ]
        self.stalls = stack.enter_context(contextlib.closing(Stalls()))
        self.places = {}
        crowd = Crowd(seed, self.cases, list(self.make_clients()), self.take, self.fail)
        self.crowd = stack.enter_context(contextlib.closing(crowd))

    @staticmethod
    def slow_answer(node):
        events = ask(node.stub(node.names[0]), slow_request(), attempts=3)
        return [token for event in events for token in event.chunk.tokens]

    def make_clients(self):
        """(name, client): a quarter of them by gRPC alone, a third through connections that can be cut, and others by TLS."""
        for node, (*_, count, _, _) in zip(self.nodes, NODES, strict=True):
            for number in range(count):
                worker = node.names[number % len(node.names)]
                cut = number // len(node.names) % 3 == 0
                raw = number // len(node.names) % 4 == 1
                encrypted = number // len(node.names) % 5 == 2
                address_of = node.encrypted_address if encrypted else node.worker_address
                standby = [address_of(name) for name in node.names if name != worker]
                first = node.clients_address(worker) if cut else address_of(worker)
                name = f"{'raw' if raw else 'tls' if encrypted else 'sdk'} client {number} of {worker}"
                self.places[name] = Place(node, worker, worker if cut else None)
                encryption = [node.certificates.crowd] if encrypted else []
                yield name, (RawClient if raw else SdkClient)([first, *standby], *encryption)

    def take(self, answer):
        place = self.places[answer.client]
        reason, wrong = judge(answer, self.expected[place.node.name][answer.case.name], self.fault, place)
        if wrong:
            self.fail(wrong)
        begin_again = self.fault.loses_sequences and self.fault.node is place.node
        if answer.sequence and not begin_again and not place.node.new_id(answer.sequence):
            self.fail(f"{answer.client}: another request has had the id of sequence {answer.sequence} of {place.node.name}")
        with self.lock:
            self.tally.longest_wait = max(self.tally.longest_wait, answer.longest_wait)
            self.tally.tokens += len(answer.tokens)
            if reason:
                self.tally.ended[reason] += 1
            elif not wrong:
                self.tally.right += 1

    def fail(self, wrong):
        """Takes a Wrong, or the words of a grave one."""
        wrong = wrong if isinstance(wrong, Wrong) else Wrong(wrong, grave=True)
        self.say(f"WRONG: {wrong.words}")
        with self.lock:
            self.wrong.append(wrong)

    def count_poisoned(self):
        with self.lock:
            self.tally.poisoned += 1

    def run_fault(self, kind, chance):
        """One fault under load, and the checks after it. False if it has to be repeated, because things that are wrong came
        while the machine stood still."""
        self.stalls.take()
        self.tally, fault = Tally(), kind(self, chance)
        self.fault = fault
        for daemons in self.daemons:
            daemons.begin()
        start = time.monotonic()
        self.crowd.let_in()
        with self.noting(f"while {fault.kind} was injected into {fault.target}"):
            time.sleep(chance.uniform(0.3, 1.5))
            fault.inject()
            for node in self.nodes:
                node.await_serving()
        for late in self.crowd.send_out(CALL_ENDS):
            self.fail(Wrong(f"{late}, and its bound is {CALL_ENDS} s"))
        with self.noting(f"after {fault.kind} was injected into {fault.target}"):
            fault.settle()
            for daemons in self.daemons:
                for wrong in daemons.after(fault):
                    self.fail(wrong)
        if self.tally.right + self.tally.ended.total() < len(self.places) and not self.wrong:
            self.fail(f"fewer answers than clients came while {fault.kind} was injected")
        self.tally.longest_quarantine = max(daemons.quarantine.longest for daemons in self.daemons)
        why = why_repeated(*self.stalls.take())
        if self.wrong and why and not any(wrong.grave for wrong in self.wrong):
            self.say(f"{kind.kind} is repeated, because {why}")
            self.wrong, self.stalled = [], self.stalled + 1
            for node in self.nodes:
                node.await_serving()
            return False
        if not self.wrong:
            self.counted_so_far = sum(map(self.counts, self.nodes), self.counted)
        self.total.add(self.tally)
        self.rounds.append(Round(fault.kind, fault.target, time.monotonic() - start, self.tally))
        return True

    @contextlib.contextmanager
    def noting(self, when):
        """Notes a failure inside the block. It was a wait that was too long, unless it says otherwise itself."""
        try:
            yield
        except Exception:
            self.fail(Wrong(f"{when}: {traceback.format_exc()}"))

    def save_logs(self, directory):
        directory.mkdir(parents=True, exist_ok=True)
        for node in self.nodes:
            for log in node.path.glob("*.log"):
                shutil.copy(log, directory / f"{node.name}-{log.name}")

    @staticmethod
    def counts(node):
        """How often the manager's sequences were claimed by a worker, parked, and kept in swap memory meanwhile."""
        metrics = Metrics(node.manager)
        kinds = ("claimed", "parked", "swapped_out", "swapped_in")
        return collections.Counter({what: int(metrics(f"folio:sequences_{what}_total")) for what in kinds})

    def count(self, node):
        """Keeps the counts of a manager that is about to end."""
        self.counted += self.counts(node)



def run(seed, plan, say=print, logs=None, keep=lambda world: None):
    """Runs the faults of the plan, or until something is wrong. Gives the world as it was at the end. `keep` gets it after each
    fault, so that a run that is cut off has a record."""
    with contextlib.ExitStack() as stack:
        world = World(seed, stack, say)
        say(f"seed {seed}: {len(plan)} faults, {len(world.places)} clients, {len(world.cases)} requests")
        try:
            for number, (kind, chance) in enumerate(plan, 1):
                while not world.run_fault(kind, chance):
                    assert world.stalled <= MOST_STALLED, "the machine is too busy for this test"
                last = world.rounds[-1]
                say(f"{number}/{len(plan)} {last.kind} ({last.target}): {last.tally.right} answers in {last.seconds:.1f} s"
                    + "".join(f"; {count} ended: {reason}" for reason, count in last.tally.ended.items()))  # fmt: skip
                keep(world)
                if world.wrong:
                    break
        finally:
            if logs and world.wrong:
                world.save_logs(pathlib.Path(logs))
    return world
