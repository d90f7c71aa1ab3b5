"""Reductions and scans, by a named function or by the author's own."""

from __future__ import annotations

from ..attributes import ClusterExchangeAttrs, CombineAttrs, CombineScanAttrs, FoldAttrs, ScanAttrs
from ..checking import Checker
from ..graph import Op
from ..ops import NEUTRAL
from ..types import Value
from .operands import axis_of, same_type, value_at, without


def reduce(c: Checker, op: Op) -> None:
    """The function is a row of NEUTRAL, and the output lacks the dimension that is reduced."""
    fn = FoldAttrs.of(op).fn
    c.require(fn in NEUTRAL, op, "a reduction is a row of NEUTRAL", fn)
    _need_numbers(c, op, fn, op.outputs[0].type.dtype)
    _dropped(c, op)


def _need_numbers(c: Checker, op: Op, fn: str, dtype: str) -> None:
    fits = fn not in ("sum", "prod") or dtype != "bool"
    c.require(fits, op, "sums and products are of numbers, as any and all are of bools", fn)


def _dropped(c: Checker, op: Op) -> None:
    for n, output in enumerate(op.outputs):
        dims = value_at(c, op, n).dims
        rest = without(dims, axis_of(c, op, dims))
        c.require(
            c.same_sizes(output.dims, rest), op, "the output has the dimensions but the reduced one", dims, output.dims
        )


def scan(c: Checker, op: Op) -> None:
    """A scan adds or multiplies along one axis; the output has the input's type."""
    same_type(c, op)
    axis_of(c, op, op.output.dims)
    c.require(ScanAttrs.of(op).fn in ("sum", "prod"), op, "a scan adds or multiplies", ScanAttrs.of(op).fn)
    _need_numbers(c, op, ScanAttrs.of(op).fn, op.output.type.dtype)


def combine(c: Checker, op: Op) -> None:
    """The author's function reduces one axis; each input has a neutral value, or none has."""
    _combining(c, op)
    _dropped(c, op)
    other = CombineAttrs.of(op).other
    c.require(
        other is None or len(other) == len(op.inputs),
        op,
        "each input has a neutral value, or none has",
        other,
        len(op.inputs),
    )


def combine_scan(c: Checker, op: Op) -> None:
    """The author's function scans one axis; the outputs keep the inputs' dimensions."""
    _combining(c, op)
    for n, output in enumerate(op.outputs):
        dims = value_at(c, op, n).dims
        c.require(c.same_sizes(dims, output.dims), op, "a scan keeps the dimensions", dims, output.dims)
        axis_of(c, op, dims)
    c.require(isinstance(CombineScanAttrs.of(op).reverse, bool), op, "a scan goes one way or the other", op.attrs)


def exchange(c: Checker, op: Op) -> None:
    """There is a function and an output for each number, which keeps its type."""
    fns = ClusterExchangeAttrs.of(op).fns
    given, wanted = [v.type for v in op.values], [v.type for v in op.outputs]
    c.require(given == wanted, op, "the outputs have the inputs' types", wanted, given)
    c.require(len(fns) == len(op.inputs) and all(fn in NEUTRAL for fn in fns), op, "a function for each number", fns)


def _combining(c: Checker, op: Op) -> None:
    """The region is a function of two scalars for each input, and gives one for each."""
    (block,) = op.regions
    count = len(op.inputs)
    c.require(len(op.outputs) == count, op, "there is an output for each input", len(op.outputs), count)
    wanted = [value_at(c, op, n).type.dtype for n in range(count)]
    found = [p.type.dtype for p in block.params]
    c.require(found == 2 * wanted, op, "the region takes two scalars of each input's dtype", found, wanted)
    given = [v.type.dtype if isinstance(v, Value) else dtype for v, dtype in zip(block.results, wanted, strict=False)]
    c.require(
        given == wanted and len(block.results) == count,
        op,
        "the region gives a scalar of each input's dtype",
        given,
        wanted,
    )
    for output, dtype in zip(op.outputs, wanted, strict=True):
        c.require(output.type.dtype == dtype, op, "each output has its input's dtype", output.type, dtype)
