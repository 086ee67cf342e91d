"""Decode speed of a batch under a setting, with nothing else running."""

import threading
import time

from folio_eval.asking import Outcome
from folio_eval.tasks.streams import Perplexity

BATCH = 4
TOKENS = 48  # of each stream, timed
BESIDE = 64  # prompt tokens that a step takes beside decodes, at the least


class Stopwatch:
    """When tokens of several streams came. The time counts once all of them run."""

    def __init__(self, streams):
        self._changed = threading.Condition()
        self._times = [[] for _ in range(streams)]
        self._error = None

    def tick(self, stream, tokens):
        with self._changed:
            self._times[stream] += [time.monotonic()] * tokens
            self._changed.notify_all()

    def fail(self, error):
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _wait(self, condition):
        with self._changed:
            self._changed.wait_for(lambda: self._error or condition())
            if self._error:
                raise self._error

    def rate(self, tokens):
        """Waits until all run and each has given `tokens` more; tokens per second of all of them meanwhile."""
        self._wait(lambda: all(self._times))
        begin = [len(times) for times in self._times]
        start = time.monotonic()
        self._wait(lambda: all(len(times) >= first + tokens for times, first in zip(self._times, begin)))
        return sum(len(times) - first for times, first in zip(self._times, begin)) / (time.monotonic() - start)


class DecodeSpeed:
    """`decode_rate`: tokens per second of four streams together, each with a prompt of `length` behind it."""

    exclusive = one_form = True
    records = 3

    def __init__(self):
        self._prose = Perplexity()

    def item(self, subject, rng, length, index, blind):
        room = BATCH * (length // BESIDE) + 2 * TOKENS
        length = min(length, subject.context - room)
        return [self._prose.item(subject, rng, length, at, blind).prompt for at in range(BATCH)], room

    def measure(self, asker, item, setting, place, report):
        prompts, room = item
        watch = Stopwatch(len(prompts))
        streams = [
            asker.client.generate(tokens=prompt, max_tokens=room, ignore_eos=True, **setting.arguments(place.salt))
            for prompt in prompts
        ]

        def read(at):
            try:
                for chunk in streams[at]:
                    watch.tick(at, len(chunk.tokens))
                watch.fail(RuntimeError("a stream ended before all of them had run together"))
            except Exception as error:
                watch.fail(error)

        threads = [threading.Thread(target=read, args=(at,)) for at in range(len(streams))]
        try:
            for thread in threads:
                thread.start()
            return Outcome({"decode_rate": watch.rate(TOKENS)})
        finally:
            for stream in streams:
                stream.close()
            for thread in threads:
                thread.join()
