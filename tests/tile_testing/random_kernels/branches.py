"""Branches: on a number that host code has, on a block size, on a scalar of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from .values import Value
from .writer import Writer


def branch(w: Writer, body: Callable[[Writer, int], None]) -> None:
    """One of two values, both of one type, by a condition; statements that only one way has."""
    if w.draws.chance(30) and (conditions := _conditions(w)):
        w.partial += 1
        with w.block(f"if {w.draws.of(conditions)}:"):
            body(w, 3)
        w.partial -= 1
        return
    pairs = [
        (a, b) for a in w.values[-6:] for b in w.values[-6:] if a.dims == b.dims and a.dtype == b.dtype and a is not b
    ]
    if not pairs:
        return
    a, b = w.draws.of(pairs)
    conditions = _conditions(w)
    if not conditions:
        return
    condition = w.draws.of(conditions)
    made = replace(a, text=w.name("v"), range=a.range.hull(b.range), number=None)
    if w.draws.chance(30):
        w.line(f"{made.text} = {a.text} if {condition} else {b.text}")
    elif w.draws.chance(40):
        w.line(f"{made.text} = {a.text}")
        with w.block(f"if {condition}:"):
            w.line(f"{made.text} = {b.text}")
    else:
        with w.block(f"if {condition}:"):
            w.line(f"{made.text} = {a.text}")
        with w.block("else:"):
            w.line(f"{made.text} = {b.text}")
    w.values.append(made)


def _conditions(w: Writer) -> list[str]:
    found = [f"{n.text} > 1" for n in w.numbers]
    for loop in w.loops:
        if loop.is_tile:
            found += [f"{loop.variable}.begin >= 8", f"{loop.variable}.id % 2 == 0"]
            found += [f"{loop.variable}.block_size > 8"]
        else:
            found += [f"{loop.variable} % 2 == 0", f"{loop.variable} > 1"]
    scalars = [v for v in w.values if not v.dims and v.is_exact and v.number is None]
    return found + [_of(v) for v in scalars[-3:]]


def _of(value: Value) -> str:
    return value.text if value.dtype == torch.bool else f"{value.text} > 0"
