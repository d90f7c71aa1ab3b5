"""Ranges behind Python's iterators: ``reversed(range(n))``, ``enumerate(range(a, b))``, ``zip`` of several.

What such an iterator gives in a turn follows from the turn's number, so that many turns are a loop of the kernel, as
those of a range are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

UNROLLED = 16  # turns of a Python range up to which it is written out
# what a shorter range takes and a longer one, which is a loop of the kernel, does not
WRITTEN_OUT = (
    f"a range of up to {UNROLLED} turns is written out and counts in Python ints, a longer one is a loop of the "
    "kernel: tfl.static_range(...) writes out any"
)
_RANGE_ITERATOR = type(iter(range(0)))


@dataclass(frozen=True, slots=True)
class CountedTurns:
    """The turns that are left of an iterator: ``item`` of each number of ``numbers``; None where it is the number."""

    numbers: range
    item: Callable[[Any], Any] | None = None

    def at(self, turn: Any) -> Any:
        """What turn ``turn``, counted from 0, is given."""
        number = turn * self.numbers.step + self.numbers.start
        return number if self.item is None else self.item(number)

    def over(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """``body`` as one that is given the number of its turn."""
        item = self.item
        return body if item is None else lambda number, *values: body(item(number), *values)


def counted_turns(it: Any) -> CountedTurns | None:
    """The turns of a range and of iterators over ranges, which stay where they are. None for all others."""
    if isinstance(it, range):
        return CountedTurns(it)
    made: Any = (
        it.__reduce__() if type(it) in (_RANGE_ITERATOR, enumerate, zip) else None
    )  # Python's own way to copy it
    if type(it) is _RANGE_ITERATOR:
        _, (numbers,), done = made
        return CountedTurns(numbers[done:])
    if type(it) is enumerate:
        _, (inner, first) = made
        found = counted_turns(inner)
        if found is not None:
            return CountedTurns(range(len(found.numbers)), lambda turn: (turn + first, found.at(turn)))
    if type(it) is zip:
        _, iterators, *strict = made
        parts = [part for inner in iterators if (part := counted_turns(inner)) is not None]
        lengths = {len(part.numbers) for part in parts}
        if lengths and len(parts) == len(iterators) and (len(lengths) == 1 or not any(strict)):
            return CountedTurns(range(min(lengths)), lambda turn: tuple(part.at(turn) for part in parts))
    return None


def exhaust(it: Any) -> None:
    """Let an iterator be at its end, as after a loop over it."""
    if not isinstance(it, range):
        deque(it, maxlen=0)
