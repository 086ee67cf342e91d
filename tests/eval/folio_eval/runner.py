"""Goes through the cells with several requests in flight, and writes down each cell as it ends."""

import collections
import concurrent.futures
import dataclasses
import random
import threading
import time

from folio_eval import store as lines
from folio_eval.asking import Asker, Place
from folio_eval.tasks import find

WEIGHTS = {
    **dict.fromkeys(("long_generation", "long_generation_prompt", "three_facts", "dialogue_decoded", "decode_speed"), 6000),
    **dict.fromkeys(("perplexity", "novel_perplexity", "speeches_perplexity"), 1600),
}


@dataclasses.dataclass
class Progressing:
    """A cell on its way: outcomes by prompt, or why it failed."""

    first: int
    count: int
    outcomes: dict = dataclasses.field(default_factory=dict)
    seconds: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    kept: list | None = None
    error: str = ""
    asked: int = 0  # prompts that were begun and have not ended


class Questions:
    """Makes the prompts, each once: the same for all settings. Thread-safe."""

    def __init__(self, subject):
        self._subject = subject
        self._lock = threading.Lock()
        self._items = {}

    def __call__(self, place):
        with self._lock:
            lock, item = self._items.setdefault(place, (threading.Lock(), None))
        with lock:
            item = self._items[place][1]
            if item is None:
                task, blind = find(place.task)
                # Both forms of a task, and all lengths, ask the same.
                rng = random.Random(f"{place.task.removesuffix(':blind')} {place.seed} {place.index}")
                item = task.item(self._subject, rng, place.length, place.index, blind)
                self._items[place] = (lock, item)
            return item


def asker_of(subject):
    """(cell, index, report) -> Outcome, on the real processes."""
    asker, questions = Asker(subject), Questions(subject)

    def ask(cell, index, report):
        place = Place(cell.task, cell.length, cell.seed, index)
        task, _ = find(cell.task)
        measure = getattr(task, "measure", None)
        if measure is None:
            return asker.judged(questions(place), cell.setting, place, report)
        return measure(asker, questions(place), cell.setting, place, report)

    return ask


def weight(cell):
    """How long a prompt takes beside others, roughly, in prompt tokens."""
    return cell.length + WEIGHTS.get(cell.task, 200)


def plan(cells, prompts, store):
    """{cell: Progressing} of what is not in the store yet. Where a task has only so many records, and no seed in them,
    all that are wanted belong to the first seed."""
    seeds = sorted({cell.seed for cell in cells})
    todo = {}
    for cell in cells:
        count, records = prompts, getattr(find(cell.task)[0], "records", None)
        if records is not None:
            count = min(records, prompts * len(seeds)) if cell.seed == seeds[0] else 0
        done = store.done.get(cell, 0)
        if done < count:
            todo[cell] = Progressing(done, count - done)
    return todo


class Run:
    """One run. `ask` is called from `jobs` threads; `check` raises when going on makes no sense; `stop` ends the
    requests in flight; of the `mapped` tasks the first prompt says what stayed in the cache."""

    def __init__(self, ask, store, progress, jobs, check=lambda: None, stop=lambda: None, mapped=()):
        self._ask, self._store, self._progress, self._jobs = ask, store, progress, jobs
        self._check, self._stop, self._mapped = check, stop, mapped
        self._stopped = threading.Event()
        self.failed = {}

    def __call__(self, todo):
        """Runs everything; what must run alone comes last, one after the other."""
        alone = {cell: state for cell, state in todo.items() if getattr(find(cell.task)[0], "exclusive", False)}
        beside = {cell: state for cell, state in todo.items() if cell not in alone}
        self._first_seed = min((cell.seed for cell in todo), default=0)
        for cells, jobs in ((beside, self._jobs), (alone, 1)):
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                try:
                    self._pump(pool, cells, jobs)
                except BaseException:
                    self._stopped.set()
                    self._stop()
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise

    def _pump(self, pool, cells, jobs):
        waiting = ((cell, state, at) for cell, state in cells.items() for at in range(state.first, state.first + state.count))
        flying = {}
        while True:
            while len(flying) < 2 * jobs and (unit := next(waiting, None)):
                cell, state, at = unit
                if state.error:
                    self._progress.advance(weight(cell), str(cell))
                    continue
                state.asked += 1
                flying[pool.submit(self._one, cell, state, at)] = unit
            if not flying:
                return
            # Woken up now and then, for Ctrl-C.
            ended, _ = concurrent.futures.wait(flying, 0.5, concurrent.futures.FIRST_COMPLETED)
            for future in ended:
                self._take(*flying.pop(future), future)

    def _one(self, cell, state, at):
        if state.error or self._stopped.is_set():
            return None, 0.0
        start = time.monotonic()
        report = at == 0 and cell.seed == self._first_seed and cell.task in self._mapped
        return self._ask(cell, at, report), time.monotonic() - start

    def _take(self, cell, state, at, future):
        state.asked -= 1
        error = future.exception()
        if error is None:
            outcome, seconds = future.result()
            if outcome is not None:
                state.outcomes[at] = outcome.measures
                state.seconds.update({**outcome.seconds, "request": seconds})
                state.kept = outcome.kept or state.kept
        elif not state.error:
            self._check()
            state.error = f"prompt {at}: {type(error).__name__}: {error}"
            self.failed[cell] = state.error
            self._progress.note(f"[eval] FAILED {cell}: {state.error}")
        self._progress.advance(weight(cell), str(cell))
        if len(state.outcomes) == state.count or (state.error and not state.asked):
            self._write(cell, state)

    def _write(self, cell, state):
        line = lines.header(cell, state.first)
        if state.error:
            self._store.append({**line, "error": state.error})
            return
        line["measures"] = lines.measured([state.outcomes[at] for at in sorted(state.outcomes)])
        line["seconds"] = {name: round(value, 3) for name, value in state.seconds.items()}
        if state.kept:
            line["kept"] = state.kept
        self._store.append(line)
