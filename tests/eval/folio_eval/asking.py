"""Asking the model under one setting of the cache, and what came of it."""

import dataclasses
import threading
import zlib

from folio_eval import kept, measures


@dataclasses.dataclass
class Outcome:
    """Of one prompt."""

    measures: dict  # name -> number
    seconds: dict = dataclasses.field(default_factory=dict)  # where the time went
    kept: list | None = None  # rows of kept.shade


def seconds_of(usage, prompt):
    """Sums up over prompts; tokens too, so that rates follow."""
    return {
        "queue": usage.queue_seconds,
        "prefill": usage.prefill_seconds,
        "decode": usage.decode_seconds,
        "prompt_tokens": prompt,
        "decoded_tokens": usage.generated_tokens,
    }


@dataclasses.dataclass(frozen=True)
class Place:
    """Which prompt of which task: what repeats the prompt exactly."""

    task: str
    length: int
    seed: int
    index: int

    @property
    def salt(self):
        """The seed of what draws at random for this prompt; equal on all machines."""
        return zlib.crc32(f"{self.seed} {self.index}".encode())


class Asker:
    """Thread-safe."""

    def __init__(self, subject):
        self.subject, self.client = subject, subject.client
        self._lock = threading.Lock()
        self._references = {}

    def score(self, item, setting, salt, top=1, report=False):
        return self.client.score(
            tokens=item.prompt,
            continuation_tokens=item.forced + item.answer,
            top_logprobs=top,
            report_evictions=report,
            **setting.arguments(salt),
        )

    def judged(self, item, setting, place, report):
        """The outcome of an item whose answer is given to the model token by token."""
        result = self.score(item, setting, place.salt, report=report)
        return Outcome(
            measures.judge(item, result.logprobs, result.top),
            seconds_of(result.usage, len(item.prompt)),
            self.kept(item, result) if report else None,
        )

    def kept(self, item, result):
        """What stayed in the cache when the last answer token was predicted; None when nothing was evicted."""
        if not result.evictions:
            return None
        fed = len(item.forced) + len(item.answer) - 1
        tables = kept.resident(
            result.evictions, len(item.prompt), fed, self.subject.model.layout.num_layers, self.subject.page_tokens
        )
        return kept.shade(tables, len(item.prompt) + fed)

    def once(self, place, work):
        """What `work()` gives, computed by whoever asks first for this place; all others wait for it."""
        with self._lock:
            lock, _ = self._references.setdefault(place, (threading.Lock(), None))
        with lock:
            _, value = self._references[place]
            if value is None:
                value = work()
                self._references[place] = (lock, value)
            return value
