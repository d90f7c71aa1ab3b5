"""Products of matrices, plain and with scales."""

from __future__ import annotations

from ..attributes import DotAttrs, DotScaledAttrs
from ..checking import Checker
from ..graph import Op
from ..types import FLOAT_BITS, INT_BITS, Dim
from .operands import value_at


def dot(c: Checker, op: Op) -> None:
    """``(..., m, k)`` times ``(..., k, n)`` is ``(..., m, n)``: inner sizes agree, batches broadcast, and an
    accumulator has the output's type."""
    a, b = value_at(c, op), value_at(c, op, 1)
    out = op.output
    c.require(min(len(a.dims), len(b.dims)) >= 2, op, "a product is of matrices", a.type, b.type)
    _multiplied(c, op, a.dims[-1], b.dims[-2])
    matrix = (a.dims[-2], b.dims[-1])
    c.require(
        c.same_sizes(matrix, out.dims[-2:]),
        op,
        "a product has the rows of a and the columns of b",
        a.dims,
        b.dims,
        out.dims,
    )
    for side in (a, b):
        c.require(
            _spreads(c, side.dims[:-2], out.dims[:-2]),
            op,
            "each side's batches broadcast to the product's",
            side.dims,
            out.dims,
        )
    c.require(
        DotAttrs.of(op).acc in (*FLOAT_BITS, *INT_BITS), op, "a product is summed in a dtype", DotAttrs.of(op).acc
    )
    if len(op.inputs) == 3:
        _accumulator(c, op)


def _spreads(c: Checker, own: tuple[Dim, ...], dims: tuple[Dim, ...]) -> bool:
    """Whether dimensions, aligned at the last ones, are each as long as those of ``dims``, or 1."""
    pairs = zip(reversed(own), reversed(dims), strict=False)
    return len(own) <= len(dims) and all(c.same_size(a.extent, b.extent) or c.number(a.extent) == 1 for a, b in pairs)


def dot_scaled(c: Checker, op: Op) -> None:
    """``(m, k)`` times ``(k, n)``, each scaled side with its scale, and an accumulator of the output's type or none."""
    attrs, out = DotScaledAttrs.of(op), op.output
    a, b = value_at(c, op), value_at(c, op, 1)
    scales = sum(attrs.scaled)
    c.require(
        len(op.inputs) in (2 + scales, 3 + scales),
        op,
        "each side that is scaled has its scale",
        attrs.scaled,
        len(op.inputs),
    )
    c.require(len(a.dims) == len(b.dims) == 2 == len(out.dims), op, "a scaled product is of matrices", a.type, b.type)
    c.require(
        c.same_sizes((a.dims[0], b.dims[1]), out.dims),
        op,
        "a product has the rows of a and the columns of b",
        a.dims,
        b.dims,
        out.dims,
    )
    if len(op.inputs) == 3 + scales:
        _accumulator(c, op)


def _multiplied(c: Checker, op: Op, left: Dim, right: Dim) -> None:
    c.require(c.same_size(left.extent, right.extent), op, "a's columns are as many as b's rows", left, right)


def _accumulator(c: Checker, op: Op) -> None:
    acc = value_at(c, op, len(op.inputs) - 1)
    fits = acc.type.dtype == op.output.type.dtype and c.same_sizes(acc.dims, op.output.dims)
    c.require(fits, op, "the accumulator has the product's type", acc.type, op.output.type)
