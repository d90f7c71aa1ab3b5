"""Online softmax: a maximum and the sum of exponentials less something made of it, in one loop over a dimension.

Milakov and Gimelshein (2018, arXiv:1805.02867): a running sum is of exponentials less the running maximum, and shrinks
when that grows. Here each few lanes of a block have their own, so that no turn of the loop reduces across threads; they
meet after the loop, as ``sum(S * exp(M - shift))``.

Infinities and NaN come out as from two loops: a lane that saw nothing but -inf counts as 0 unless the shift is -inf
too, when the sum is NaN as ``exp(-inf + inf)`` is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..expr import Expr
from ..ir.attributes import Attrs, AxisAttrs, PointwiseAttrs, ReduceAttrs, ReshapeAttrs
from ..ir.graph import Op, Operand, Tile
from ..ir.kinds import OpKind
from ..ir.types import ONE, Dim, TileType, Value, is_float, itemsize
from .folds import Carried, Ops, Taken, lanes_of, masked
from .makers import Makers
from .rewrite import Fresh

_WIDEST_LOAD = 16  # bytes that a thread reads at once
EXPONENTIALS = ("exp", "exp_gradual", "exp2")


@dataclass(frozen=True, slots=True)
class OnlineSum:
    """``total`` sums ``fn(x - shift)``, where ``peak`` is the maximum of the same ``x``. ``shared``: how many
    neighbours have one maximum and one sum; 1 where threads do not have neighbours."""

    peak: Op
    total: Op
    fn: str
    shift: Operand
    shared: int


def online_sums(reductions: Sequence[Op], makers: Makers) -> list[OnlineSum]:
    """The sums over a dimension that can be found along with a maximum over it. ``reductions``: all over it."""
    peaks = peaks_of(reductions, makers)
    found = []
    for op in reductions:
        exponential = makers.get(op.values[0])
        if ReduceAttrs.of(op).fn != "sum" or not _is(exponential, EXPONENTIALS):
            continue
        difference = makers.get(exponential.values[0]) if exponential is not None and exponential.values else None
        if difference is None or not _is(difference, ("sub",)) or not isinstance(difference.inputs[0], Value):
            continue
        x = base_of(difference.inputs[0], makers)
        peak, is_last = peaks.get(x), AxisAttrs.of(op).axis == len(x.dims) - 1
        if peak is not None and exponential is not None and AxisAttrs.of(peak).axis == AxisAttrs.of(op).axis:
            shared = _WIDEST_LOAD // itemsize(x.type.dtype) if is_last else 1
            found.append(OnlineSum(peak, op, PointwiseAttrs.of(exponential).fn, difference.inputs[1], shared))
    return found


def peaks_of(folding: Iterable[Op], makers: Makers) -> dict[Value, Op]:
    """The first maximum among ops, by what it is over."""
    maxima = [op for op in folding if op.kind is OpKind.REDUCE and ReduceAttrs.of(op).fn == "max"]
    return {base_of(op.values[0], makers): op for op in reversed(maxima)}


def _is(op: Op | None, functions: Sequence[str]) -> bool:
    attrs = None if op is None else op.attrs
    return isinstance(attrs, PointwiseAttrs) and attrs.fn in functions and is_float(attrs.operand)


def base_of(value: Value, makers: Makers) -> Value:
    """What a value is, but for casts that keep every number."""
    while value in makers and makers[value].kind is OpKind.CAST:
        source = makers[value].inputs[0]
        if not isinstance(source, Value) or not _widens(source.type.dtype, value.type.dtype):
            break
        value = source
    return value


def _widens(narrow: str, wide: str) -> bool:
    return is_float(narrow) and is_float(wide) and itemsize(narrow) < itemsize(wide)


@dataclass(frozen=True, slots=True)
class OnlineFold:
    """A maximum and the ``sums`` that are found along with it: lanes of the maximum, then of each sum, which are
    reduced once their shift is known."""

    op: Op
    sums: tuple[OnlineSum, ...]

    def start(self, at: Ops, tile: Tile) -> Carried:
        """Lanes of neutral values, as many as neighbours share."""
        block = Dim(tile.block // self.sums[0].shared)
        ops = (self.op, *(s.total for s in self.sums))
        return tuple(lanes_of(at, op, block, ReduceAttrs.of(op).fn) for op in ops)

    def turn(self, at: Ops, tile: Tile, carried: Carried, taken: Taken) -> Carried:
        """The running maximum and sums of exponentials, with this block added."""
        peak, *totals = carried
        x = masked(at, self.op, taken, "max")
        found = [
            Lanes(at.fresh, at.ops, total, s).absorb(peak, total, x) for s, total in zip(self.sums, totals, strict=True)
        ]
        return found[0][0], *(total for _, total in found)

    def finish(self, at: Ops, carried: Carried) -> None:
        """The maximum; each sum waits for its shift (:meth:`settle`)."""
        at.again(self.op, carried[0])

    def settle(self, at: Ops, carried: Carried, its: OnlineSum, shift: Operand) -> None:
        """The sum over all lanes, relative to the shift that its readers expect."""
        peak, total = carried[0], carried[1 + self.sums.index(its)]
        at.again(its.total, Lanes(at.fresh, at.ops, total, its).lane_sums(peak, total, shift))


class Lanes:
    """Arithmetic on the accumulators of a sum, which are as ``like``; appended to ``ops``. Neighbours share one, since
    a thread loads some at a time: they are reduced without leaving it."""

    def __init__(self, fresh: Fresh, ops: list[Op], like: Value, its: OnlineSum) -> None:
        self._fresh, self._ops, self._like = fresh, ops, like
        self._fn, self._shared, self._axis = its.fn, its.shared, len(like.dims)
        self._dtype = like.type.dtype

    def compute(self, fn: str, *operands: Operand, dims: tuple[Dim, ...] = (), dtype: str = "") -> Value:
        """The result of a pointwise function with the dimensions ``dims`` (those of ``like`` if empty), appended to the
        ops."""
        out = self._value(dims or self._like.dims, dtype)
        self._ops.append(Op(OpKind.POINTWISE, operands, (out,), PointwiseAttrs(fn, self._dtype), (), out.loc))
        return out

    def absorb(self, peak: Value, total: Value, x: Value) -> tuple[Value, Value]:
        """Each lane's maximum and sum relative to it, with one more block of numbers."""
        fn, shared = self._fn, self._shared > 1
        if shared:
            x = self._op(OpKind.RESHAPE, ReshapeAttrs(), x, (*self._like.dims, Dim(Expr.of(self._shared))))
        top = self.compute("maximum", peak, self._op(OpKind.REDUCE, self._fold("max"), x) if shared else x)
        # less nothing where an infinity less itself would be NaN
        base = self.compute("where", self.compute("isinf", top, dtype="bool"), 0.0, top)
        around = self._op(OpKind.UNSQUEEZE, AxisAttrs(self._axis), base, (*base.dims, ONE)) if shared else base
        terms = self.compute(fn, self.compute("sub", x, around, dims=x.dims), dims=x.dims)
        shrunk = self.compute("mul", total, self.compute(fn, self.compute("sub", peak, base)))
        return top, self.compute("add", shrunk, self._op(OpKind.REDUCE, self._fold("sum"), terms) if shared else terms)

    def lane_sums(self, peak: Value, total: Value, shift: Operand) -> Value:
        """The lanes' sums of ``fn(x - shift)``."""
        return self.compute("mul", total, self.compute(self._fn, self.compute("sub", peak, shift)))

    def _fold(self, fn: str) -> ReduceAttrs:
        return ReduceAttrs(self._axis, fn, "")

    def _op(self, kind: OpKind, attrs: Attrs, value: Value, dims: tuple[Dim, ...] = ()) -> Value:
        out = self._value(dims or self._like.dims, value.type.dtype if kind is OpKind.RESHAPE else "")
        self._ops.append(Op(kind, (value,), (out,), attrs, (), out.loc))
        return out

    def _value(self, dims: tuple[Dim, ...], dtype: str) -> Value:
        return self._fresh.value(TileType(dtype or self._dtype, dims), self._like)
