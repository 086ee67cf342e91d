"""Endless made-up Python from a seed: constants, small functions and small classes, each a block of a few lines."""

import random

from folio_eval.tasks.needles import THINGS

VERBS = """attach balance collect count divide estimate fetch gather insert join label measure merge pack plan prepare read
reset scale select share sort split store trim update weigh wrap""".split()
KINDS = ("LIMIT", "SIZE", "DELAY", "OFFSET", "WIDTH", "MARGIN")
PARAMETERS = 3  # of the function whose parameters are asked for
BODIES = (
    "return {a} * {n} + {b}",
    "if {a} > {n}:\n        return {b}\n    return {a} + {b}",
    "total = sum({a})\n    return total // {n} - {b}",
    "return [{b} + each for each in {a}][:{n}]",
)


def constant(name, value):
    return f"{name} = {value}\n\n\n"


def function(name, parameters, number, body):
    filled = body.format(a=parameters[0], b=parameters[1], n=number)
    return f"def {name}({', '.join(parameters)}):\n    {filled}\n\n\n"


def _class(rng, thing, field):
    method, number = rng.choice(VERBS), rng.randrange(2, 100)
    return (
        f"class {thing.capitalize()}:\n    def __init__(self, {field}):\n        self.{field} = {field}\n\n"
        f"    def {method}(self):\n        return self.{field} % {number}\n\n\n"
    )


def _thing(name):
    """The thing that a constant or a function is named after."""
    first, second = name.split("_")
    return first.lower() if name.isupper() else second


def names(rng):
    """(a constant's name, a function's name, its parameters) of different things."""
    things = rng.sample(THINGS, PARAMETERS + 2)
    return (
        f"{things[0].upper()}_{rng.choice(KINDS)}",
        f"{rng.choice(VERBS)}_{things[1]}",
        tuple(things[2:]),
    )


def blocks(seed, taken):
    """Yields blocks forever. No constant or function of theirs is named after a thing that a name in `taken` has."""
    rng = random.Random(f"module {seed}")
    things = {_thing(name) for name in taken}
    while True:
        constant_name, function_name, parameters = names(rng)
        kind = rng.random()
        if {_thing(constant_name), _thing(function_name)} & things:
            continue
        if kind < 0.3:
            yield constant(constant_name, rng.randrange(10000, 100000))
        elif kind < 0.8:
            yield function(function_name, parameters[: rng.choice((2, 3))], rng.randrange(2, 100), rng.choice(BODIES))
        else:
            yield _class(rng, *rng.sample(THINGS, 2))
