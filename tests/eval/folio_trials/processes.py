"""What a process of the pool does. It is a module of its own, because a new process imports what it runs."""

from folio_trials.asking import Asked, Logits
from folio_trials.cache import Twin

_twin = None


def begin(model):
    global _twin
    _twin = Twin(model)


def work(job):
    """The outcomes of one prompt under all its settings."""
    task, item, settings, again = job
    asked = Asked(_twin, Logits(_twin), task, item, again)
    return [asked.outcome(setting).measures for setting in settings]
