"""One statement after another."""

from __future__ import annotations

from collections.abc import Callable

from . import branches, loops, stores
from .loads import load
from .pointwise import pointwise
from .products import product
from .reductions import matrix_product, reduction
from .shapes import shape
from .values import Value
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
            (1, matrix_product),
            (2, lambda w, _: load(w)),
            (2, lambda w, _: product(w)),
        ]
    )
    return kind(w, picked)


def body(w: Writer, most: int) -> None:
    """Up to so many statements."""
    for _ in range(w.draws.between(1, most)):
        nested = len(w.loops) - w.launched
        kind = w.draws.weighted([(10, "expression"), (2, "loop"), (1, "branch"), (1, "store")])
        if kind == "loop" and nested < MOST_DEPTH:
            loops.loop(w, body)
        elif kind == "branch":
            branches.branch(w)
        elif kind == "store" and w.values:
            stores.store(w, w.values[-1])
        else:
            expression(w)
