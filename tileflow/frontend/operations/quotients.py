"""Quotients of two sizes that Python rounds: ints again, exact as Python's, where a GPU's division is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr import Expr
from ...ir.attributes import PointwiseAttrs, SizeAttrs
from ...ir.graph import Operand
from ...ir.types import Value
from ..trace import Tracer
from ..values import TileValue


def rounded_up(t: Tracer, x: Any) -> Any:
    """``math.ceil(n / m)`` as a size; None for what is no quotient of sizes."""
    return _rounded(t, x, lambda a, b: a.cdiv(b) if _are_natural(t, a, b) else -(-a // b))


def rounded_down(t: Tracer, x: Any) -> Any:
    """``math.floor(n / m)`` as a size; None for what is no quotient of sizes."""
    return _rounded(t, x, lambda a, b: a // b)


def cut(t: Tracer, x: Any) -> Any:
    """``int(n / m)`` as a size, of what is 0 and more; None for others, and for what is no quotient of sizes."""
    return _rounded(t, x, lambda a, b: a // b if _are_natural(t, a, b) else None)


def _are_natural(t: Tracer, *sizes: Expr) -> bool:
    """Whether all are 0 or more, where Triton's divisions are Python's."""
    return all(t.condition(Expr.of(0).le(e)) is True for e in sizes)


def _rounded(t: Tracer, x: Any, fn: Callable[[Expr, Expr], Expr | None]) -> Any:
    maker = t.builder.definitions.get(x.value) if isinstance(x, TileValue) else None
    if maker is None or not isinstance(maker.attrs, PointwiseAttrs) or maker.attrs.fn != "div":
        return None
    above, below = (_size(t, operand) for operand in maker.inputs)
    if above is None or below is None:
        return None
    found = fn(above, below)
    return None if found is None else t.size(found)


def _size(t: Tracer, operand: Operand) -> Expr | None:
    """A size or an int that was divided, as an Expr."""
    if isinstance(operand, Value):
        maker = t.builder.definitions.get(operand)
        return maker.attrs.value if maker is not None and isinstance(maker.attrs, SizeAttrs) else None
    return Expr.of(operand) if type(operand) is int else None
