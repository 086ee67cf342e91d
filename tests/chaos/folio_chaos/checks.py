"""The judgement of an answer, and the checks of the daemons after each fault."""

import signal
import threading
import time
from dataclasses import dataclass

import grpc
from folio_chaos.bounds import ALL_FREE, CALL_ENDS, NEXT_TOKEN, QUARANTINE
from folio_chaos.cases import answers

FENCED = "worker fenced"

# The ends without an answer that docs/failover.md allows, each where it says so.
MANAGER = "its manager was lost while there was no room for a journal"
DAMAGED = "its manager's journal was damaged, and what is left of that does not have it"
REPORTS = "its evictions were reported, so it ends with its worker"
GIVEN_UP = "two workers in a row were lost with it"
CUT = "the connection of its client was cut, so the worker had ended it"


# What a client is told of a sequence that the next manager does not have, the second if the ids of sequences begin again.
_UNKNOWN, _OTHER = "is not open", "resume_token: is not the one"


def allowed_end(answer, fault, place):
    """The reason for which an answer may end without a result during a fault, or None. `place` is its client's."""
    if fault is None:
        return None
    here = fault.node is place.node
    if here and fault.loses_sequences and answer.status == "PERMISSION_DENIED" and _OTHER in answer.words:
        return MANAGER
    if answer.status != "UNAVAILABLE":
        return None
    if here and fault.loses_sequences and (_UNKNOWN in answer.words or _OTHER in answer.words):
        return MANAGER
    if here and fault.damages_journal and _UNKNOWN in answer.words:
        return DAMAGED
    if here and fault.loses_sessions:
        if answer.case.reports_evictions and not fault.awaits_reports:
            return REPORTS
        if "workers in a row were lost" in answer.words:
            return GIVEN_UP
    if fault.cuts_clients and fault.worker == place.cut_with:
        if answer.case.reports_evictions or "is not open" in answer.words:
            return CUT
    return None


@dataclass(frozen=True)
class Wrong:
    """A thing that must not be. It is grave unless a machine that stood still may be the cause."""

    words: str
    grave: bool = False


def judge(answer, expected, fault, place):
    """(reason of an allowed end or None, Wrong or None). An answer without either is right."""
    said = f"{answer.client}, {answer.case.name}, sequence {answer.sequence}"
    if answer.tokens != expected[: len(answer.tokens)]:
        at = next(at for at, pair in enumerate(zip(answer.tokens, [*expected, None], strict=False)) if pair[0] != pair[1])
        return None, Wrong(f"{said}: token {at} of {len(expected)} differs from the calm answer's", grave=True)
    if answer.status == "OK" and len(answer.tokens) < len(expected):
        return None, Wrong(f"{said}: it ended after {len(answer.tokens)} tokens of {len(expected)}", grave=True)
    if answer.seconds > CALL_ENDS:
        return None, Wrong(f"{said}: the call took {answer.seconds:.1f} s, its bound is {CALL_ENDS} s")
    if answer.longest_wait > NEXT_TOKEN:
        return None, Wrong(f"{said}: it waited {answer.longest_wait:.1f} s for a token, its bound is {NEXT_TOKEN} s")
    reason = allowed_end(answer, fault, place)
    if reason or answer.status == "OK":
        return reason, None
    words = f"{said}: {answer.status} after {len(answer.tokens)} tokens of {len(expected)}: {answer.words}"
    return None, Wrong(words, grave=answer.status not in ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"))


class Quarantine(threading.Thread):
    """Looks at the pages in quarantine of a node all the time, except while its manager stands still."""

    PERIOD = 0.1

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.over, self.longest = node, False, 0.0
        self.start()

    def run(self):
        since, looked = 0.0, time.monotonic()
        while not self.over:
            time.sleep(self.PERIOD)
            try:
                pages = sum(pool.quarantined_pages for pool in self.node.pools())
            except (grpc.RpcError, ValueError):
                looked = time.monotonic()
                continue
            now = time.monotonic()
            # A look that took much longer was at a manager that stood still.
            since = since + min(now - looked, 5 * self.PERIOD) if pages else 0.0
            self.longest, looked = max(self.longest, since), now


class Daemons:
    """The checks of one node in calm. `after` says what became wrong since `begin`."""

    def __init__(self, node, cases, expected):
        self.node, self.cases, self.expected = node, cases, expected
        self.quarantine = Quarantine(node)
        self.seen, self.fences, self.leaked = 0, 0, 0

    def begin(self):
        self.seen, self.fences = len(self.node.deaths), self.node.manager.words().count(FENCED)
        self.quarantine.longest = 0.0

    def after(self, fault):
        return [*self.check_processes(fault), *self.check_pages(), *self.check_quarantine(), *self.check_answers()]

    def check_processes(self, fault):
        node = self.node
        if not node.manager.running():
            yield Wrong(f"the manager of {node.name} ended:\n{node.manager.words()[-2000:]}", grave=True)
        with node.lock:
            deaths = node.deaths[self.seen :]
            waiting = list(node.may_end)
            node.may_end.clear()
        for name, code, expected in deaths:
            if not expected:
                # A machine that stands still makes the manager kill a worker, and a watchdog end one.
                grave = code not in (-signal.SIGKILL, 3)
                yield Wrong(f"worker {name} ended with {code}:\n{node.workers[name].words()[-4000:]}", grave)
        if waiting:
            yield Wrong(f"{waiting} should have ended")
        fences = node.manager.words().count(FENCED) - self.fences
        if fences and not (fault.loses_sessions and fault.node is node):
            yield Wrong(f"{fences} workers of {node.name} were fenced, which nothing explains")

    def check_pages(self):
        try:
            self.node.assert_all_free(ALL_FREE)
        except AssertionError as error:
            pool = self.node.pool()
            self.leaked += pool.total_pages - pool.free_pages
            yield Wrong(f"{error}\nsequences: {self.node.sequences()}", grave=True)

    def check_quarantine(self):
        if self.quarantine.longest > QUARANTINE:
            yield Wrong(f"pages were in quarantine for {self.quarantine.longest:.1f} s, the bound is {QUARANTINE} s")

    def check_answers(self):
        """Each worker gives a right answer in calm."""
        for name in self.node.names:
            case = self.cases[len(self.node.deaths) % len(self.cases)]
            try:
                given = answers(self.node.stub(name), [case], attempts=1)[case.name]
            except grpc.RpcError as error:
                yield Wrong(f"{name} gives no answer in calm: {error}")
                continue
            if given != self.expected[case.name]:
                yield Wrong(f"{name} answers {case.name} differently in calm", grave=True)

    def close(self):
        self.quarantine.over = True
        self.quarantine.join()
