"""Where values go: what an operation reads, by way of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from .graph import KernelIR, Op, once
from .types import Value


def reached(values: Iterable[Value], step: Callable[[Value], Iterable[Value]]) -> set[Value]:
    """``values`` and all that steps from them lead to."""
    found: set[Value] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += step(value)
    return found


@once
def readers(ir: KernelIR) -> Mapping[Value, Sequence[Op]]:
    """The ops that read each value, the loop or branch whose inside yields it among them."""
    found: dict[Value, list[Op]] = {}
    for op in ir.walk():
        yielded = (v for region in op.regions for v in region.results if isinstance(v, Value))
        for value in (*op.values, *yielded):
            found.setdefault(value, []).append(op)
    return found


def given(op: Op) -> tuple[Value, ...]:
    """What an op gives to others: its outputs, and to its own inside what a turn starts with."""
    return (*op.outputs, *(p for region in op.regions for p in region.params))


def meets_itself(ir: KernelIR, op: Op) -> bool:
    """Whether what ``op`` gives is in what it reads in a later turn of a loop."""
    found = readers(ir)
    later = reached(op.outputs, lambda value: [v for reader in found.get(value, ()) for v in _made_of(reader, value)])
    return not later.isdisjoint(op.values)


def _made_of(op: Op, value: Value) -> Iterable[Value]:
    """What an op that reads ``value`` makes of it: a loop or a branch, that which it hands on under another name, and
    all that it has where ``value`` says how often it turns or which way it goes."""
    carried = [region.params for region in op.regions if region.params]
    entries = [op.inputs[len(op.inputs) - len(params) :] for params in carried]
    decides = op.inputs[: len(op.inputs) - len(carried[0])] if carried else op.inputs
    if not op.regions or value in decides:
        return given(op)
    places = [*entries, *(region.results for region in op.regions)]
    return [name[at] for held in places for at, v in enumerate(held) if v == value for name in (op.outputs, *carried)]


def reaching(ir: KernelIR, asks: Callable[[Op], bool], passes: Callable[[Op], bool]) -> frozenset[Value]:
    """The values that an operation which ``asks`` reads, and those that they are made of by operations which it
    ``passes`` through; branches and turns of loops hand on what they are given."""
    found = {v for op in ir.walk() if asks(op) for v in op.values}
    known = -1
    while found and known != len(found):  # until no turn of a loop hands on another
        known = len(found)
        for op in reversed(ir.ops):
            if (op.regions or passes(op)) and not found.isdisjoint(given(op)):
                found.update(op.values)
                found.update(v for r in op.regions for v in r.results if isinstance(v, Value))
    return frozenset(found)
