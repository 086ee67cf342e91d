"""What there is to be asked. README.md says what each task is, and how to add one.

A task has `item(subject, rng, length, index, blind)`, which makes prompt number `index` and repeats from the rng, and
may have `measure(asker, item, setting, place, report)`, where judging a given answer (Asker.judged) is not what it
wants; `exclusive`, when nothing may run beside it; `records`, how many prompts there are at most, whatever the seed;
`one_form`, when it has no query-blind form.
"""

import functools

from folio_eval.tasks.books import Cloze, TextPerplexity
from folio_eval.tasks.completion import CodeCompletion
from folio_eval.tasks.conversations import Dialogue, ThreeFacts
from folio_eval.tasks.files import LmEval, LongBench, Ruler
from folio_eval.tasks.labels import FewShot
from folio_eval.tasks.needles import Needle
from folio_eval.tasks.speed import DecodeSpeed
from folio_eval.tasks.streams import LongGeneration, Perplexity
from folio_eval.tasks.tracing import CommonWords, KeyValue, VariableTracking

TASKS = {
    "needle_repeat": lambda: Needle("repeat"),
    "needle_prose": lambda: Needle("prose"),
    "needle_4": lambda: Needle("repeat", keys=4),
    "needle_8": lambda: Needle("repeat", keys=8),
    "needle_4_prose": lambda: Needle("prose", keys=4),
    "needle_8_prose": lambda: Needle("prose", keys=8),
    "needle_values": lambda: Needle("prose", values=3),
    "variable_tracking": VariableTracking,
    "common_words": CommonWords,
    "kv_retrieval": KeyValue,
    "long_generation": LongGeneration,
    "long_generation_prompt": lambda: LongGeneration(in_prompt=True),
    "three_facts": ThreeFacts,
    "dialogue": Dialogue,
    "dialogue_decoded": lambda: Dialogue(decoded=True),
    "few_shot": FewShot,
    "code_completion": CodeCompletion,
    "perplexity": Perplexity,
    "novel_perplexity": lambda: TextPerplexity("novel"),
    "speeches_perplexity": lambda: TextPerplexity("speeches"),
    "novel_cloze": lambda: Cloze("novel"),
    "speeches_cloze": lambda: Cloze("speeches"),
    "decode_speed": DecodeSpeed,
}
FILES = {"longbench": LongBench, "ruler": Ruler, "lm_eval": LmEval}
BLIND = ":blind"


class TaskError(Exception):
    """A task that does not exist, or a file that it cannot read."""


@functools.cache
def find(name):
    """(task, blind) of a name on the command line: needle_4, needle_4:blind, longbench:/path/file.jsonl ..."""
    bare, blind = name.removesuffix(BLIND), name.endswith(BLIND)
    kind, colon, path = bare.partition(":")
    try:
        task = FILES[kind](path) if colon else TASKS[bare]()
    except KeyError:
        known = ", ".join([*TASKS, *(f"{kind}:PATH" for kind in FILES)])
        raise TaskError(f"no task {name!r}; there are {known}; {BLIND} behind a name asks after compaction") from None
    except (OSError, ValueError) as error:
        raise TaskError(f"{name}: {error}") from error
    if blind and getattr(task, "one_form", False):
        raise TaskError(f"{bare} has no query-blind form")
    return task, blind

