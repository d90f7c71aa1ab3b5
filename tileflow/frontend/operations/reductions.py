"""Reductions of the table: sums, extrema, statistics, softmax and normalisations, in terms of the ``reduce`` op.

Composites are written as torch's documentation defines them.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ...errors import ShapeError, TraceError
from ...expr import Expr
from ...ir.attributes import ArangeAttrs, ReduceAttrs
from ...ir.kinds import OpKind
from ...ir.types import INT32_MAX, Dim, TileType, Value, is_float
from ..dimensions import show
from ..promotion import dtype_name
from ..side_by_side import parts_of
from ..torch_registry import TABLE, register_torch
from ..trace import Tracer
from ..values import SymInt, TileValue
from .views import squeeze, unsqueeze

_COMBINED = {"sum": "add", "max": "maximum", "min": "minimum"}  # what makes one of the results of parts


def reduce(t: Tracer, fn: str, x: TileValue, dim: Any, keepdim: bool, dtype: str | None = None) -> TileValue:
    """Reduce over one dimension, several, or all (``dim`` None)."""
    value = t.operand(x)
    if not isinstance(value, Value):
        raise TraceError("a reduction takes a tile", got=value, where=t.location())
    rank = len(value.dims)
    axes = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    least, most = -max(rank, 1), max(rank, 1) - 1  # of a tile without dimensions as of one element, as in torch
    if any(not least <= a <= most for a in axes):
        raise ShapeError(
            f"a reduction's dim must lie in [{least}, {most}]",
            got=dim,
            where=t.location(),
            hint="count dimensions from 0, or from -1 at the end",
        )
    result_dtype = dtype or value.type.dtype
    if not rank:
        return t.full((), 0, result_dtype) if fn in ("argmax", "argmin") else t.cast(x, result_dtype)
    axes = sorted({a % rank for a in axes})
    for axis in reversed(axes):
        parts = parts_of(t, value, axis) if fn in _COMBINED else []
        found = _reduced(t, fn, parts[0] if parts else value, axis, result_dtype)
        for part in parts[1:]:
            found = t.cast(t.pointwise(_COMBINED[fn], found, _reduced(t, fn, part, axis, result_dtype)), result_dtype)
        value = found.value
    result = t.wrap(value)
    if keepdim:
        for axis in axes:
            result = unsqueeze(t, result, axis)
    return result


def _reduced(t: Tracer, fn: str, value: Value, axis: int, dtype: str) -> TileValue:
    dims = value.dims[:axis] + value.dims[axis + 1 :]
    attrs = ReduceAttrs(axis, fn, t.names.numbered(f"reduce:{fn}"))
    return t.emit(OpKind.REDUCE, (value,), TileType(dtype, dims), attrs)


def accumulate(t: Tracer, x: TileValue, dtype: Any) -> TileValue:
    """torch's rule for sum and prod: ints and bools accumulate in int64."""
    if dtype is not None:
        return t.cast(x, dtype_name(dtype))
    if not x.is_floating_point():
        return t.cast(x, "int64")
    return x


@register_torch("sum")
def sum_(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum over ``dim``, or over all dimensions; ints and bools add up in int64."""
    x = accumulate(t, x, dtype)
    return reduce(t, "any" if x.value.type.dtype == "bool" else "sum", x, dim, keepdim)


@register_torch("prod")
def prod(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The product over ``dim``, or over all dimensions; ints and bools multiply in int64."""
    x = accumulate(t, x, dtype)
    return reduce(t, "all" if x.value.type.dtype == "bool" else "prod", x, dim, keepdim)


def count(t: Tracer, x: TileValue, dim: Any) -> Any:
    """The number of elements a reduction over ``dim`` covers; lanes past a tile's end do not count."""
    rank = len(x.value.dims)
    axes = range(rank) if dim is None or not rank else [dim] if isinstance(dim, int) else dim
    total: Any = 1
    for axis in axes:
        d = x.value.dims[axis % rank]
        total = total * (t.size(d.extent) if d.tile is None else _valid(t, d, d.tile))
    return total


def _valid(t: Tracer, d: Dim, tile: str) -> Any:
    """How many lanes of a tile's dimension count: where a reshape merged it with others, each several times."""
    times = d.extent.quotient(t.tiles[tile].block)
    assert times is not None  # a merged dimension is a multiple of the tile's
    return t.valid_lanes(tile) if times.constant == 1 else t.valid_lanes(tile) * t.size(times)


@register_torch("mean")
def mean(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean over ``dim``, or over all dimensions. Raises TraceError for a tile that is not floating-point."""
    if dtype is not None:
        x = t.cast(x, dtype_name(dtype))
    if not x.is_floating_point():
        raise TraceError("mean takes a floating tile", got=x.dtype, where=t.location(), hint="x.float().mean(...)")
    return reduce(t, "sum", x, dim, keepdim) / count(t, x, dim)


def of_some(t: Tracer, x: TileValue, dim: Any) -> TileValue:
    """``x``, of which an extremum over ``dim`` is taken. Raises ShapeError where it has no elements, as torch does."""
    dims = t.wrap(t.operand(x)).value.dims  # type: ignore[arg-type]
    for axis in range(len(dims)) if dim is None else [dim] if isinstance(dim, int) else dim:
        extent = dims[axis].extent if -len(dims) <= axis < len(dims) else Expr.of(1)
        if extent.symbols() <= t.hints.keys() and not t.decide(Expr.of(1).le(extent)):
            raise ShapeError(
                "an extremum is one of at least one element",
                got=f"dim {axis} of {show(dims)}",
                where=t.location(),
                hint="leave such calls out in host code: if x.numel():",
            )
    return x


@register_torch("amax")
def amax(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The maximum over ``dim``, or over all dimensions where ``dim`` is None or empty."""
    return reduce(t, "max", of_some(t, x, dim), dim or (dim if dim == 0 else None), keepdim)


@register_torch("amin")
def amin(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The minimum over ``dim``, or over all dimensions where ``dim`` is None or empty."""
    return reduce(t, "min", of_some(t, x, dim), dim or (dim if dim == 0 else None), keepdim)


@register_torch("argmax")
def argmax(t: Tracer, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The first place of the maximum along ``dim``, as int64; without ``dim``, among all elements row by row."""
    return _arg(t, "argmax", x, dim, keepdim)


@register_torch("argmin")
def argmin(t: Tracer, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The first place of the minimum along ``dim``, as int64; without ``dim``, among all elements row by row."""
    return _arg(t, "argmin", x, dim, keepdim)


def _arg(t: Tracer, fn: str, x: TileValue, dim: int | None, keepdim: bool) -> TileValue:
    x = of_some(t, x, dim)
    if dim is None and x.ndim != 1:
        return _position(t, fn.removeprefix("arg"), x, keepdim)
    return reduce(t, fn, x, 0 if dim is None else dim, keepdim, dtype="int64")


def _position(t: Tracer, fn: str, x: TileValue, keepdim: bool) -> TileValue:
    """The first place of the extremum among all elements, counted row by row."""
    found = t.pointwise("eq", x, reduce(t, fn, x, None, True))
    if x.is_floating_point():
        found = t.pointwise("logical_or", found, t.pointwise("isnan", x))
    place: Any = 0
    for axis, dim in enumerate(x.value.dims):
        lanes = t.emit(OpKind.ARANGE, (), TileType("int32", (dim,)), ArangeAttrs(Expr.of(0)))
        for _ in range(axis + 1, x.ndim):
            lanes = unsqueeze(t, lanes, -1)
        place = place * count(t, x, axis) + lanes
    first = reduce(t, "min", t.pointwise("where", found, place, INT32_MAX), None, keepdim)
    return t.cast(first, "int64")


def _extremum(name: str, fn: str, pointwise: str) -> None:
    values = getattr(torch.return_types, name)

    @register_torch(name)
    def handler(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return reduce(t, fn, of_some(t, x, None), None, False)
        if isinstance(dim, (TileValue, SymInt)):
            return t.pointwise(pointwise, x, dim)
        return values((reduce(t, fn, x, dim, keepdim), _arg(t, "arg" + fn, x, dim, keepdim)))


_extremum("max", "max", "maximum")
_extremum("min", "min", "minimum")


@register_torch("any")
def any_(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether any element over ``dim`` is not 0."""
    return _answer(t, x, reduce(t, "any", t.cast(x, "bool"), dim, keepdim))


@register_torch("all")
def all_(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether all elements over ``dim`` are not 0."""
    return _answer(t, x, reduce(t, "all", t.cast(x, "bool"), dim, keepdim))


def _answer(t: Tracer, x: Any, found: Any) -> Any:
    """A bool; of uint8 a uint8, as torch has it."""
    return t.cast(found, "uint8") if isinstance(x, TileValue) and x.value.type.dtype == "uint8" else found


def _variance(t: Tracer, x: Any, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    average = mean(t, x, dim, keepdim=True)
    centred = x - average
    n = count(t, x, dim)
    freedom = n if correction == 0 else n - correction
    if correction != 0:  # of fewer elements none is left, and torch's answer is not a number
        freedom = max(freedom, 0) if isinstance(freedom, (int, float)) else t.pointwise("maximum", freedom, 0)
    variance = reduce(t, "sum", centred * centred, dim, keepdim) / freedom
    return variance, average if keepdim else mean(t, x, dim)


def _correction(unbiased: bool | None, correction: Any) -> Any:
    return correction if unbiased is None else int(unbiased)


@register_torch("var")
def var(
    t: Tracer, x: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = 1
) -> Any:
    """The variance over ``dim``, with ``correction`` (or 1 for ``unbiased``) subtracted from the count."""
    return _variance(t, x, dim, _correction(unbiased, correction), keepdim)[0]


@register_torch("var_mean")
def var_mean(
    t: Tracer, x: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = 1
) -> Any:
    """The variance and the mean over ``dim``."""
    return _variance(t, x, dim, _correction(unbiased, correction), keepdim)


@register_torch("std")
def std(
    t: Tracer, x: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = 1
) -> Any:
    """The standard deviation over ``dim``: the root of :func:`var`."""
    return t.pointwise("sqrt", _variance(t, x, dim, _correction(unbiased, correction), keepdim)[0])


@register_torch("norm")
def norm(t: Tracer, x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The p-norm over ``dim``: the largest or smallest absolute value for an infinite ``p``, the number of non-zeros
    for 0."""
    if dtype is not None:
        x = t.cast(x, dtype_name(dtype))
    if p in (2, "fro"):
        return t.pointwise("sqrt", reduce(t, "sum", x * x, dim, keepdim))
    size = t.pointwise("abs", x)
    if abs(p) == math.inf:
        return reduce(t, "max" if p > 0 else "min", size, dim, keepdim)
    if p == 0:
        return reduce(t, "sum", t.cast(x != 0, x.value.type.dtype), dim, keepdim)
    return reduce(t, "sum", size**p, dim, keepdim) ** (1 / p)


@register_torch("vector_norm")
def vector_norm(t: Tracer, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The p-norm over ``dim``, with the arguments of ``torch.linalg.vector_norm``."""
    return norm(t, x, ord, dim, keepdim, dtype)


def _matrix_norm(
    t: Tracer, x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    axes = x.ndim if dim is None else 1 if isinstance(dim, int) else len(dim)
    if ord is not None and axes > 1 and ord != "fro":
        raise TraceError(
            "norms of matrices are Frobenius's",
            got=repr(ord),
            where=t.location(),
            hint="torch.linalg.vector_norm takes several dimensions",
        )
    return norm(t, x, 2 if ord is None else ord, dim, keepdim, dtype)


TABLE[torch.linalg.norm] = (_matrix_norm, "linalg.norm")


@register_torch("logsumexp")
def logsumexp(t: Tracer, x: Any, dim: Any, keepdim: bool = False) -> Any:
    """``log(sum(exp(x)))`` over ``dim``, of which the maximum is taken out first; ints become the default dtype."""
    if not x.is_floating_point():
        x = t.cast(x, dtype_name(torch.get_default_dtype()))
    peak = reduce(t, "max", x, dim, True)
    peak = t.pointwise("where", t.pointwise("isinf", peak), 0.0, peak)  # inf - inf is none of torch's results
    total = reduce(t, "sum", t.pointwise("exp", x - peak), dim, True)
    result = t.pointwise("log", total) + peak
    return result if keepdim else squeeze(t, result, dim)


def implicit_dim(t: Tracer, x: Any, dim: int | None, name: str) -> int:
    """The dimension that torch takes where ``dim`` is left out. Raises ShapeError where it is a tile, of which a kernel
    holds as much as the config says."""
    if dim is not None:
        return dim
    dim = 0 if x.ndim in (0, 1, 3) else 1
    if x.ndim and x.value.dims[dim].tile is not None:
        raise ShapeError(
            f"{name} without dim normalises a whole dimension",
            where=t.location(),
            got=f"dimension {dim}, of which a block of the loop `{x.value.dims[dim].tile}` is at hand",
            hint=f"load the dimension whole, x[tile, :], and say dim={dim}; or accumulate over the loop",
        )
    return dim


def _of_floats(t: Tracer, x: Any, name: str, dtype: Any) -> Any:
    """``x`` in the dtype that is asked for. Raises TraceError for ints, as torch does."""
    if dtype is not None:
        return t.cast(x, dtype_name(dtype))
    if not is_float(x.value.type.dtype):
        raise TraceError(f"{name} is of floats", got=repr(x), where=t.location(), hint=f"{name}(x.float(), dim)")
    return x


@register_torch("softmax")
def softmax(t: Tracer, x: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """``exp(x - max) / sum(exp(x - max))`` along ``dim``."""
    dim = implicit_dim(t, x, dim, "softmax")
    x = _of_floats(t, x, "softmax", dtype)
    exponent = t.pointwise("exp", x - reduce(t, "max", x, dim, True))
    return exponent / reduce(t, "sum", exponent, dim, True)


@register_torch("log_softmax")
def log_softmax(t: Tracer, x: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """``x - max - log(sum(exp(x - max)))`` along ``dim``."""
    dim = implicit_dim(t, x, dim, "log_softmax")
    x = _of_floats(t, x, "log_softmax", dtype)
    shifted = x - reduce(t, "max", x, dim, True)
    return shifted - t.pointwise("log", reduce(t, "sum", t.pointwise("exp", shifted), dim, True))


# ---- normalisations -----------------------------------------------------------------------------


def _last(t: Tracer, x: TileValue, normalized_shape: Any) -> tuple[int, ...]:
    """The axes that ``normalized_shape`` names, checked against the tile's own sizes."""
    shape = [normalized_shape] if isinstance(normalized_shape, (int, SymInt)) else list(normalized_shape)
    own = [d.extent for d in x.value.dims[-len(shape) :]] if shape else []
    pairs = zip(shape, own, strict=False)
    if len(own) != len(shape) or not all(t.same_size(t.as_expr(n, "normalized_shape"), e) for n, e in pairs):
        raise ShapeError(
            "normalized_shape must be the tile's last sizes",
            got=f"{shape} of {show(x.value.dims)}",
            where=t.location(),
            hint="x.shape[-1:]",
        )
    return tuple(range(-len(shape), 0))


@register_torch("layer_norm")
def layer_norm(t: Tracer, x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    """``(x - mean) / sqrt(variance + eps)`` over the last dimensions, times ``weight``, plus ``bias``, in the dtype of
    ``x``. Raises ShapeError where ``normalized_shape`` is not the tile's last sizes."""
    axes = _last(t, x, normalized_shape)
    variance, average = _variance(t, x, axes, 0, True)
    result = (x - average) * t.pointwise("rsqrt", variance + eps)
    result = result if weight is None else result * weight
    return _as_input(t, x, result if bias is None else result + bias)


@register_torch("rms_norm")
def rms_norm(t: Tracer, x: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    """``x / sqrt(mean(x * x) + eps)`` over the last dimensions, times ``weight``, in the dtype of ``x``; ``eps`` is
    that of the dtype where none is given."""
    axes = _last(t, x, normalized_shape)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    result = x * t.pointwise("rsqrt", mean(t, x * x, axes, True) + eps)
    return _as_input(t, x, result if weight is None else result * weight)


def _as_input(t: Tracer, x: Any, result: Any) -> Any:
    """What a norm makes of ``x``, in its dtype also where a parameter has a wider one."""
    return result if result.dtype == x.dtype else t.cast(result, x.value.type.dtype)


@register_torch("normalize")
def normalize(t: Tracer, x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """``x`` divided by its p-norm along ``dim``, which counts as ``eps`` where it is less."""
    return x / t.pointwise("maximum", norm(t, x, p, dim, True), eps)
