"""Drawing from a space as one Python function, written for it: a random search draws some ten configs a trial.

What a draw means is said by :meth:`tileflow.config.ConfigSpace.sample`; here it is only quick. A choice is a local
variable, its position among its knob's choices, and what Exprs read of it is another one. A seed draws what
:meth:`random.Random.choice` would for one knob after the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .expr import TRUE

if TYPE_CHECKING:
    from .config import Choice, ConfigSpace, Knob

Drawn = tuple[tuple["tuple[str, Choice]", ...], bool]  # a config's items, and whether it is valid
Draw = Callable[[Callable[[int], int], int], Drawn]


class Sampler:
    """Of one space; not for other processes, since functions stay at home."""

    def __init__(self, space: ConfigSpace) -> None:
        self._draw: Draw = _compiled(space)

    def draw(self, rng: random.Random, tries: int) -> Drawn:
        """The first valid draw of at most ``tries`` (at least one), else the last one; normalised in any case."""
        return self._draw(rng.getrandbits, tries)


def _compiled(space: ConfigSpace) -> Draw:
    knobs = list(enumerate(space.knobs))
    known = {knob.name: f"e{n}" for n, knob in knobs} | {name: f"({value})" for name, value in space.environment}
    idle = [(n, knob, knob.active.python(known.__getitem__)) for n, knob in knobs if knob.active != TRUE]
    checks = [constraint.check.python(known.__getitem__) for constraint in space.constraints]
    lines = ["def draw(bits, tries):", " while tries:", "  tries -= 1"]
    for n, knob in knobs:
        count = len(knob.choices)
        lines += [f"  p{n} = bits({count.bit_length()})"]
        lines += [f"  while p{n} >= {count}: p{n} = bits({count.bit_length()})"]
        lines += [f"  e{n} = encoded{n}[p{n}]"]
    if idle:
        lines += _normalising(idle)
    lines += [f"  if not {check}: continue" for check in checks]
    ordered = sorted(knobs, key=lambda numbered: numbered[1].name)
    items = "".join(f"pairs{n}[p{n}], " for n, _ in ordered)
    lines += [f"  return ({items}), True", f" return ({items}), False"]
    names: dict[str, Any] = {"__builtins__": {}, "min": min, "max": max}
    for n, knob in knobs:
        names[f"encoded{n}"] = tuple(knob.encode(choice) for choice in knob.choices)
        names[f"pairs{n}"] = tuple((knob.name, choice) for choice in knob.choices)
    exec("\n".join(lines), names)
    draw: Draw = names["draw"]
    return draw


def _normalising(idle: list[tuple[int, Knob, str]]) -> list[str]:
    """All that are inactive go to their defaults at once, which may idle others, until nothing changes."""
    lines = ["  while True:"]
    lines += [f"   i{n} = p{n} != {_home(knob)} and not {active}" for n, knob, active in idle]
    lines += [f"   if not ({' or '.join(f'i{n}' for n, *_ in idle)}): break"]
    for n, knob, _ in idle:
        lines += [f"   if i{n}: p{n} = {_home(knob)}; e{n} = encoded{n}[{_home(knob)}]"]
    return lines


def _home(knob: Knob) -> int:
    """The default's position; ``True`` is not 1."""
    return next(n for n, c in enumerate(knob.choices) if c == knob.default and type(c) is type(knob.default))
