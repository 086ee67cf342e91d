"""Clients that ask without a pause, and know what the answers must be."""

import functools
import threading
import time

import folio

PROMPT = "The lighthouse keeper wrote in his book every evening, and what he wrote was always the same: "
# Greedy and without eviction, so each answer is known whatever else the worker does at that time.
SHORT = {"max_tokens": 48, "ignore_eos": True, "timeout": 90}
LONG = {
    "max_tokens": 900, "ignore_eos": True, "temperature": 0.8, "top_p": 0.9, "seed": 7, "eviction_mode": "synchronous",
    "timeout": 300,
}  # fmt: skip


@functools.cache
def expected(address, **asking):
    """The tokens of an undisturbed run, which is asked for once."""
    with folio.Client(address) as client:
        return tuple(client.generate(PROMPT, **asking).result().tokens)


class Load:
    """Clients at one address, in a thread each, for as long as the `with` block runs.

    `right` counts answers that are as expected and `wrong` has the others. `failed` has (seconds since the start, error)
    of requests that ended with an error.
    """

    def __init__(self, address, clients=2, resume=60.0):
        self.address, self.resume = address, resume
        self.right, self.wrong, self.failed = 0, [], []
        self.answer = expected(address, **SHORT)
        self.stop, self.lock, self.began = threading.Event(), threading.Lock(), time.monotonic()
        self.threads = [threading.Thread(target=self.ask) for _ in range(clients)]

    def __enter__(self):
        self.began = time.monotonic()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def ask(self):
        # A connection of its own for each request, so that each is routed for itself.
        while not self.stop.is_set():
            with folio.Client(self.address, resume=self.resume) as client:
                try:
                    tokens = tuple(client.generate(PROMPT, **SHORT).result().tokens)
                except folio.FolioError as error:
                    with self.lock:
                        self.failed.append((time.monotonic() - self.began, error))
                    time.sleep(0.2)
                    continue
            with self.lock:
                if tokens == self.answer:
                    self.right += 1
                else:
                    self.wrong.append(tokens)

    def wait_for(self, more, timeout=120):
        """Until that many more answers are right."""
        goal, deadline = self.right + more, time.monotonic() + timeout
        while self.right < goal:
            assert time.monotonic() < deadline, f"{self.right} right answers, not {goal}: {self.failed[-3:]}"
            time.sleep(0.05)
