"""One statement after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from . import branches, loops, stores
from .loads import load
from .pointwise import pointwise
from .products import product
from .reductions import matrix_product, reduction
from .rows import row
from .shapes import shape
from .values import Range, Value, held
from .writer import Writer

TRIES = 5
MOST_DEPTH = 2  # loops within a launch


def pick(w: Writer) -> Value | None:
    """Something to compute with: rather what nothing was made of."""
    if not w.values or w.draws.chance(25):
        return load(w)
    unread = [v for v in w.values if v.text not in w.read]
    chosen = w.draws.of((unread if unread and w.draws.chance(75) else w.values)[-6:])
    w.read.add(chosen.text)
    return chosen


def expression(w: Writer) -> Value | None:
    def picked() -> Value | None:
        return pick(w)

    for _ in range(TRIES):
        if (found := _one(w, picked)) is not None:
            return found
    return None


def _one(w: Writer, picked: Callable[[], Value | None]) -> Value | None:
    kind: Callable[[Writer, Callable[[], Value | None]], Value | None] = w.draws.weighted(
        [
            (6, pointwise),
            (3, reduction),
            (3, shape),
            (4, row),
            (1, _called),
            (1, matrix_product),
            (2, lambda w, _: load(w)),
            (2, lambda w, _: product(w)),
        ]
    )
    return kind(w, picked)


def _called(w: Writer, picked: Callable[[], Value | None]) -> Value | None:
    """Functions of the module, with statements and loops of their own."""
    of_rows = [(x, t) for x in w.tensors if len(x.sizes) == 2 for t in w.loops if t.is_tile and t.size == x.sizes[0]]
    if of_rows and w.draws.chance(50):
        tensor, loop = w.draws.of(of_rows)
        values = held(tensor.range.times(tensor.sizes[1]), torch.float32)
        text = f"row_sums({tensor.name}, {loop.variable})"
        return None if values is None else w.given(text, Value(w.name("v"), torch.float32, (loop.dim,), values))
    a, b = picked(), picked()
    if a is None or b is None or a.dtype == torch.bool or a.number is not None:
        return None
    if w.draws.chance(50):
        values = held(Range(min(2 * a.range.low, 0), max(2 * a.range.high, 0), a.range.step), a.dtype)
        return None if values is None else w.given(f"twice({a.text})", replace(a, text=w.name("v"), range=values))
    first, second = replace(b, text=w.name("v")), replace(a, text=w.name("v"))
    w.line(f"{first.text}, {second.text} = swapped({a.text}, {b.text})")
    w.values += [first, second]
    return second


def body(w: Writer, most: int) -> None:
    """Up to so many statements."""
    for _ in range(w.draws.between(1, most)):
        nested = len(w.loops) - w.launched
        kind = w.draws.weighted([(10, "expression"), (2, "loop"), (1, "branch"), (1, "store")])
        if kind == "loop" and nested < MOST_DEPTH:
            loops.loop(w, body)
        elif kind == "branch":
            branches.branch(w, body)
        elif kind == "store" and w.values:
            stores.store(w, w.values[-1])
        else:
            expression(w)
