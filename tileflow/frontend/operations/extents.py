"""How many elements dimensions have: as numbers where they are known, and which ones have as many together."""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import Expr
from ...ir.types import Dim
from ..trace import Tracer


def count(dims: Sequence[Dim]) -> Expr:
    """How many elements."""
    total = Expr.of(1)
    for d in dims:
        total = total * d.extent
    return total


def runs(old: Sequence[Dim], new: Sequence[Dim]) -> list[tuple[list[Dim], list[Dim]]]:
    """Dimensions that have as many elements before and after, the fewest together."""
    found: list[tuple[list[Dim], list[Dim]]] = []
    before, after = list(old), list(new)
    while before or after:
        a, b = (before[:1], after[:1]) if before and after else (before, after)
        while (x := count(a)) != (y := count(b)) and (len(a) < len(before) or len(b) < len(after)):
            more_before = len(b) == len(after) or not _exceeds(x, y)
            more_after = len(a) == len(before) or not _exceeds(y, x)
            a, b = before[: len(a) + more_before], after[: len(b) + more_after]
        found.append((a, b))
        before, after = before[len(a) :], after[len(b) :]
    return found


def _exceeds(x: Expr, y: Expr) -> bool:
    """Whether one size is known to be more than another."""
    if x.constant is not None and y.constant is not None:
        return x.constant > y.constant
    return x != y and x.quotient(y) is not None


def known(t: Tracer, e: Expr) -> Expr:
    """``e`` with the sizes in it as numbers, guarded; block sizes stay."""
    return e.substitute({s: t.specialize(Expr.sym(s)) for s in sorted(e.symbols() & t.hints.keys())})
