"""Reductions and scans out of others: extremes with their places, counts, sums without NaN, running extremes."""

from __future__ import annotations

from typing import Any

from ...expr import Expr
from ...ir.attributes import ArangeAttrs
from ...ir.kinds import OpKind
from ...ir.types import TileType, itemsize
from ..promotion import dtype_name
from ..torch_registry import named, register_torch
from ..trace import Tracer
from ..values import TileValue
from .reductions import amax, amin, norm, reduce, sum_, var_mean
from .reshape import axis_of, is_scalar
from .scans import associative_scan, cumsum
from .slices import diff, needs_elements, part, size_of
from .special import floating, meeting
from .tile_index import pick
from .views import unsqueeze


@register_torch("aminmax")
def aminmax(t: Tracer, x: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The minimum and the maximum over ``dim``, as torch's named pair."""
    return named("aminmax", amin(t, x, dim, keepdim), amax(t, x, dim, keepdim))


@register_torch("count_nonzero")
def count_nonzero(t: Tracer, x: Any, dim: Any = None) -> Any:
    """How many elements over ``dim`` are not 0, as int64."""
    return reduce(t, "sum", t.cast(t.pointwise("ne", x, 0), "int64"), dim, False)


@register_torch("nansum")
def nansum(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum over ``dim`` of what is not NaN."""
    return sum_(t, _without_nan(t, x), dim, keepdim, dtype=dtype)


@register_torch("nanmean")
def nanmean(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean over ``dim`` of what is not NaN."""
    x = x if dtype is None else t.cast(x, dtype_name(dtype))
    counted = t.cast(x == x, x.value.type.dtype)
    return reduce(t, "sum", _without_nan(t, x), dim, keepdim) / reduce(t, "sum", counted, dim, keepdim)


def _without_nan(t: Tracer, x: Any) -> Any:
    return t.pointwise("where", x == x, x, 0) if x.is_floating_point() else x


@register_torch("std_mean")
def std_mean(
    t: Tracer, x: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = 1
) -> Any:
    """The standard deviation and the mean over ``dim``."""
    variance, average = var_mean(t, x, dim, unbiased, keepdim, correction=correction)
    return t.pointwise("sqrt", variance), average


@register_torch("cosine_similarity")
def cosine_similarity(t: Tracer, x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The sum over ``dim`` of the products of two tiles, each divided by its own length, which is ``eps`` at least."""
    x1, x2 = meeting(t, x1, x2)  # before the squares, which the narrower ints do not hold
    lengths = (t.pointwise("maximum", norm(t, x, 2, dim, True), eps) for x in (x1, x2))
    first, second = lengths
    return reduce(t, "sum", (x1 / first) * (x2 / second), dim, False)


@register_torch("dist")
def dist(t: Tracer, a: Any, b: Any, p: Any = 2) -> Any:
    """The p-norm of ``a - b`` over all dimensions."""
    return norm(t, a - b, p)


# ---- integrals ------------------------------------------------------------------------------------------------------


@register_torch("trapezoid", "trapz")
def trapezoid(t: Tracer, y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    """The integral along ``dim`` by trapezoids, of samples at ``x``, or ``dx`` apart. Ints add up in int64."""
    axis = axis_of(t, dim, y.ndim)
    size = size_of(t, y, axis, "trapezoid")
    if size == 1:  # no trapezoid: their sum is 0
        dims = y.value.dims
        return t.full((*dims[:axis], *dims[axis + 1 :]), 0, floating(t, y).value.type.dtype)
    if x is None:  # not by pairs, whose sums a narrow int does not hold
        return (sum_(t, y, axis) - (pick(t, y, axis, 0) + pick(t, y, axis, size - 1)) * 0.5) * dx
    return sum_(t, _trapezoids(t, y, x, dx, dim, "trapezoid"), axis) / 2


@register_torch("cumulative_trapezoid")
def cumulative_trapezoid(t: Tracer, y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    """The running integral along ``dim`` by trapezoids."""
    doubled = _trapezoids(t, y, x, dx, dim, "cumulative_trapezoid")
    return cumsum(t, doubled / 2, dim) if x is None else cumsum(t, doubled, dim) / 2


def _trapezoids(t: Tracer, y: Any, x: Any, dx: Any, dim: int, what: str) -> Any:
    """Twice the area of each."""
    axis = axis_of(t, dim, y.ndim)
    size = size_of(t, y, axis, what)
    needs_elements(t, what, size, 2)
    width = dx
    if x is not None:
        width = diff(t, x, 1, -1 if x.ndim == 1 else dim)
        for _ in range(axis + 1, y.ndim if x.ndim == 1 else 0):
            width = unsqueeze(t, width, -1)
    return (part(t, y, axis, slice(1, size)) + part(t, y, axis, slice(0, size - 1))) * width


# ---- running extremes -----------------------------------------------------------------------------------------------


@register_torch("cummax")
def cummax(t: Tracer, x: Any, dim: int) -> Any:
    """The running maximum along ``dim`` and its last place, as torch's named pair."""
    return named("cummax", *_running(t, x, dim, lambda a, b: b >= a))


@register_torch("cummin")
def cummin(t: Tracer, x: Any, dim: int) -> Any:
    """The running minimum along ``dim`` and its last place, as torch's named pair."""
    return named("cummin", *_running(t, x, dim, lambda a, b: b <= a))


def _running(t: Tracer, x: TileValue, dim: int, wins: Any) -> Any:
    """The extremes up to each element, and their last places; NaN wins."""

    if is_scalar(t, x, dim):
        return x, t.full((), 0, "int64")

    def later(a: Any, at: Any, b: Any, bt: Any) -> Any:
        takes = t.pointwise("logical_or", wins(a, b), b != b)
        takes = t.pointwise("logical_and", takes, t.pointwise("logical_or", a == a, b != b))
        return t.pointwise("where", takes, b, a), t.pointwise("where", takes, bt, at)

    return associative_scan(t, later, (x, t.cast(lanes(t, x, dim), "int64")), dim)


def lanes(t: Tracer, x: TileValue, dim: int) -> TileValue:
    """The positions along a dimension, as a tile that broadcasts against ``x``."""
    axis = axis_of(t, dim, x.ndim)
    found = t.emit(OpKind.ARANGE, (), TileType("int32", (x.value.dims[axis],)), ArangeAttrs(Expr.of(0)))
    for _ in range(axis + 1, x.ndim):
        found = unsqueeze(t, found, -1)
    return found


@register_torch("logcumsumexp")
def logcumsumexp(t: Tracer, x: Any, dim: int) -> Any:
    """The running ``log(sum(exp(x)))`` along ``dim``, without overflow.

    A largest exponent and the sum beside it are handed on, as in an online softmax (Milakov and Gimelshein, 2018,
    arXiv:1805.02867), so that an element has one logarithm in place of one for each step of the scan.
    """
    x = floating(t, x)
    if is_scalar(t, x, dim):
        return x

    def sums(a: Any, of_a: Any, b: Any, of_b: Any) -> Any:
        apart = t.pointwise("where", a == b, 0.0, a - b)  # of infinities, too
        less = t.pointwise("exp", -t.pointwise("abs", apart))
        of_both = t.pointwise("where", a >= b, of_a + of_b * less, of_a * less + of_b)
        return t.pointwise("maximum", a, b), of_both

    wide = t.cast(x, "float32") if itemsize(x.value.type.dtype) < itemsize("float32") else x
    ones = t.full(wide.value.dims, 1.0, wide.value.type.dtype)
    most, total = associative_scan(t, sums, (wide, ones), dim)
    return t.cast(most + t.pointwise("log", total), x.value.type.dtype)
