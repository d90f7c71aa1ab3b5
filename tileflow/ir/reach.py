"""Where values go: what an operation reads, by way of others."""

from __future__ import annotations

from collections.abc import Callable

from .graph import KernelIR, Op
from .types import Value


def reaching(ir: KernelIR, asks: Callable[[Op], bool], passes: Callable[[Op], bool]) -> frozenset[Value]:
    """The values that an operation which ``asks`` reads, and those that they are made of by operations which it
    ``passes`` through; branches and turns of loops hand on what they are given."""
    found = {v for op in ir.walk() if asks(op) for v in op.values}
    known = -1
    while found and known != len(found):  # until no turn of a loop hands on another
        known = len(found)
        for op in reversed(ir.ops):
            given = (*op.outputs, *(p for r in op.regions for p in r.params))
            if (op.regions or passes(op)) and not found.isdisjoint(given):
                found.update(op.values)
                found.update(v for r in op.regions for v in r.results if isinstance(v, Value))
    return frozenset(found)
