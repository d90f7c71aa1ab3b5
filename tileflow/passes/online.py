"""Online softmax: a maximum and the sum of exponentials less something made of it, in one loop over a dimension.

Milakov and Gimelshein (2018, arXiv:1805.02867): a running sum is of exponentials less the running maximum, and shrinks
when that grows. Here each few lanes of a block have their own, so that no turn of the loop reduces across threads; they
meet after the loop, as ``sum(S * exp(M - shift))``.

Infinities and NaN come out as from two loops: a lane that saw nothing but -inf counts as 0 unless the shift is -inf
too, when the sum is NaN as ``exp(-inf + inf)`` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..expr import Expr
from ..ir.graph import Op, Operand
from ..ir.types import ONE, Dim, TileType, Value, is_float, itemsize
from .rewrite import Fresh

_WIDEST_LOAD = 16  # bytes that a thread reads at once
_EXPONENTIALS = ("exp", "exp_gradual", "exp2")


@dataclass(frozen=True, slots=True)
class OnlineSum:
    """``total`` sums ``fn(x - shift)``, where ``peak`` is the maximum of the same ``x``. ``shared``: how many
    neighbours have one maximum and one sum; 1 where threads do not have neighbours."""

    peak: Op
    total: Op
    fn: str
    shift: Operand
    shared: int


def online_sums(reductions: Sequence[Op], makers: Mapping[Value, Op]) -> list[OnlineSum]:
    """The sums over a dimension that can be found along with a maximum over it. ``reductions``: all over it."""
    peaks = {_base(op.values[0], makers): op for op in reversed(reductions) if op.attrs["fn"] == "max"}
    found = []
    for op in reductions:
        exponential = makers.get(op.values[0])
        if op.attrs["fn"] != "sum" or not _is(exponential, _EXPONENTIALS):
            continue
        difference = makers.get(exponential.values[0]) if exponential is not None and exponential.values else None
        if difference is None or not _is(difference, ("sub",)) or not isinstance(difference.inputs[0], Value):
            continue
        x = _base(difference.inputs[0], makers)
        peak, is_last = peaks.get(x), op.attrs["axis"] == len(x.dims) - 1
        if peak is not None and exponential is not None and peak.attrs["axis"] == op.attrs["axis"]:
            shared = _WIDEST_LOAD // itemsize(x.type.dtype) if is_last else 1
            found.append(OnlineSum(peak, op, exponential.attrs["fn"], difference.inputs[1], shared))
    return found


def _is(op: Op | None, functions: Sequence[str]) -> bool:
    return op is not None and op.kind == "pointwise" and op.attrs["fn"] in functions and is_float(op.attrs["operand"])


def _base(value: Value, makers: Mapping[Value, Op]) -> Value:
    """What a value is, but for casts that keep every number."""
    while value in makers and makers[value].kind == "cast":
        source = makers[value].inputs[0]
        if not isinstance(source, Value) or not _widens(source.type.dtype, value.type.dtype):
            break
        value = source
    return value


def _widens(narrow: str, wide: str) -> bool:
    return is_float(narrow) and is_float(wide) and itemsize(narrow) < itemsize(wide)


class Lanes:
    """Arithmetic on the accumulators of a sum, which are as ``like``; appended to ``ops``. Neighbours share one, since
    a thread loads some at a time: they are reduced without leaving it."""

    def __init__(self, fresh: Fresh, ops: list[Op], like: Value, its: OnlineSum) -> None:
        self._fresh, self._ops, self._like = fresh, ops, like
        self._fn, self._shared, self._axis = its.fn, its.shared, len(like.dims)
        self._dtype = like.type.dtype

    def compute(self, fn: str, *operands: Operand, dims: tuple[Dim, ...] = (), dtype: str = "") -> Value:
        out = self._value(dims or self._like.dims, dtype)
        self._ops.append(Op("pointwise", operands, (out,), {"fn": fn, "operand": self._dtype}, (), out.loc))
        return out

    def absorb(self, peak: Value, total: Value, x: Value) -> tuple[Value, Value]:
        """Each lane's maximum and sum relative to it, with one more block of numbers."""
        fn, shared = self._fn, self._shared > 1
        if shared:
            x = self._op("reshape", x, (*self._like.dims, Dim(Expr.of(self._shared))))
        top = self.compute("maximum", peak, self._op("reduce", x, fn="max") if shared else x)
        # less nothing where an infinity less itself would be NaN
        base = self.compute("where", self.compute("isinf", top, dtype="bool"), 0.0, top)
        around = self._op("unsqueeze", base, (*base.dims, ONE), axis=self._axis) if shared else base
        terms = self.compute(fn, self.compute("sub", x, around, dims=x.dims), dims=x.dims)
        shrunk = self.compute("mul", total, self.compute(fn, self.compute("sub", peak, base)))
        return top, self.compute("add", shrunk, self._op("reduce", terms, fn="sum") if shared else terms)

    def settle(self, peak: Value, total: Value, shift: Operand) -> Value:
        """The lanes' sums of ``fn(x - shift)``."""
        return self.compute("mul", total, self.compute(self._fn, self.compute("sub", peak, shift)))

    def _op(self, kind: str, value: Value, dims: tuple[Dim, ...] = (), **attrs: Any) -> Value:
        out = self._value(dims or self._like.dims, value.type.dtype if kind == "reshape" else "")
        if kind == "reduce":
            attrs |= {"axis": self._axis, "site": ""}
        self._ops.append(Op(kind, (value,), (out,), attrs, (), out.loc))
        return out

    def _value(self, dims: tuple[Dim, ...], dtype: str) -> Value:
        return self._fresh.value(TileType(dtype or self._dtype, dims), self._like)
