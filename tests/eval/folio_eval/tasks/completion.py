"""Lines of code that repeat what the same file defines far above."""

import itertools

from folio_eval import modules
from folio_eval.items import Value, continue_text
from folio_eval.tasks.needles import depth, mix

HEAD = '"""Calculations of the workshop: its limits, its stores and its orders."""\n\n\n'


def _constant(rng, name):
    """(definition, the lines that repeat it, their answer)."""
    number = rng.randrange(10000, 100000)
    return modules.constant(name, number), f"# The default again.\n{name} =", (Value(f" {number}"),)


def _function(rng, name, parameters):
    """The same, of a function and its parameters."""
    defined = modules.function(name, parameters, rng.randrange(2, 100), rng.choice(modules.BODIES))
    answer = [Value(parameters[0])]
    for parameter in parameters[1:]:
        answer += [",", Value(f" {parameter}")]
    return defined, f"# A replacement with the same parameters.\ndef {name}(", tuple(answer)


class CodeCompletion:
    """The value of a constant that is set again, or the parameters of a function that is replaced, by turns.

    The model continues the file itself, without a chat around it. Query-blind, the last lines are decoded.
    """

    def item(self, subject, rng, length, index, blind):
        constant, function, parameters = modules.names(rng)
        deep = depth(rng, index)
        defined, tail, answer = _function(rng, function, parameters) if index % 2 else _constant(rng, constant)
        source, units = modules.blocks(rng.random(), (constant, function)), []

        def module(count):
            units.extend(itertools.islice(source, max(0, count - len(units))))
            return f"{HEAD}{mix(units[:count], [(deep, defined)])}\n\n\n"

        return continue_text(subject, length, module, tail, answer, blind)
