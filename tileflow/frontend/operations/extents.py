"""How many elements dimensions have: as numbers where they are known, and which ones have as many together."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ShapeError
from ...expr import Expr, is_knob
from ...ir.types import Dim
from ..dimensions import show
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


def check_diagonal(t: Tracer, what: str, dims: Sequence[Dim]) -> None:
    """Raises ShapeError where the last two dimensions have no diagonal that is the same for every config: a place in a
    loop's tile says how far it is from the tile's begin, which is the config's choice."""
    rows, columns = dims[-2:]
    are_two = rows.tile is not None and columns.tile is not None and rows.tile != columns.tile
    if rows.extent == columns.extent and rows.step == columns.step and not are_two:
        return
    if any(is_knob(s) for d in (rows, columns) for s in d.extent.symbols()):
        tile = rows.tile or columns.tile or "t"
        raise ShapeError(
            f"{what} takes whole dimensions, or a square of one loop's tile",
            got=f"{show(tuple(dims))}, of which the config says where blocks begin",
            where=t.location(),
            hint=f"compare indices: torch.where({tile}.index[:, None] >= tfl.arange(n), x, 0)",
        )
