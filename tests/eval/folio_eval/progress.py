"""One line about how far a run is: rewritten on a terminal, now and then elsewhere."""

import time


def spell(seconds):
    """For people: 45 s, 12 min, 3 h 05 min."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


class Progress:
    """Time left follows from the share of the work done, in the units the caller likes. Not thread-safe."""

    EVERY = (0.5, 30.0)  # seconds between lines: on a terminal, elsewhere

    def __init__(self, total, stream, clock=time.monotonic):
        self._total, self._stream, self._clock = total, stream, clock
        self._terminal = stream.isatty()
        self._start = self._said = clock()
        self._done, self._width = 0, 0

    def _line(self, words):
        elapsed, share = self._clock() - self._start, self._done / max(1, self._total)
        left = f"{spell(elapsed / share - elapsed)} left" if share else "starting"
        return f"[eval] {share:4.0%}, {spell(elapsed)} so far, {left}: {words}"

    def advance(self, work, words):
        self._done += work
        if self._clock() - self._said >= self.EVERY[0 if self._terminal else 1]:
            self._said = self._clock()
            self._write(self._line(words), "" if self._terminal else "\n")

    def note(self, text):
        """Something that stays to be read."""
        self._write(text, "\n")

    def _write(self, text, end):
        back = "\r" if self._terminal else ""
        padding = " " * max(0, self._width - len(text)) if self._terminal else ""
        print(back + text + padding, end=end, file=self._stream, flush=True)
        self._width = len(text) if self._terminal and not end else 0
