"""Tiles that device code makes from nothing: torch's factories, ``new_*``, ``*_like`` and ``arange``.

A size is a tile, a block size, a size or an int. Dtypes are torch's: what nobody names is the default dtype, for
``torch.full`` the one that torch would give the number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...errors import TraceError
from ...expr import Expr
from ...ir.attributes import ArangeAttrs
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType, is_float
from ..affine import affine, is_known, tile_between
from ..held_numbers import check_number
from ..open_lengths import way_out
from ..promotion import dtype_name
from ..torch_registry import FACTORIES, register_torch
from ..trace import Tracer
from ..values import SymInt, TensorRef, TileProxy, TileValue
from .extents import check_diagonal

Shape = tuple[Any, ...]
_IDLE = frozenset({"device", "layout", "pin_memory", "requires_grad", "memory_format"})  # these say nothing of a tile


def _shape(t: Tracer, sizes: Shape, named: Any) -> Any:
    """``f(2, 3)``, ``f([2, 3])`` and ``f(size=[2, 3])`` alike."""
    if named is not None:
        sizes = (named,)
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes


def _check_options(t: Tracer, name: str, options: dict[str, Any]) -> None:
    """``options``: what torch takes besides. A tile lies on the kernel's device, in no layout, and takes no gradient:
    such options say nothing; those that ask for more are refused."""
    wrong = next((n for n in options if n not in _IDLE), None)
    if wrong is not None:
        raise TraceError(
            f"torch.{name} takes sizes, dtype= and device=",
            got=f"{wrong}=",
            where=t.location(),
            hint="a tile is a value in registers: leave it out",
        )
    if options.get("requires_grad"):
        raise TraceError(
            "a tile in registers takes no gradient",
            got="requires_grad=True",
            where=t.location(),
            hint="pair the kernel with a backward: tileflow.differentiable",
        )


def _fill_dtype(value: Any) -> torch.dtype:
    """The dtype that ``torch.full`` gives a number: by its kind, bool, int64 or the default one."""
    if isinstance(value, TileValue):
        kind = value.dtype
        return (
            torch.bool if kind == torch.bool else torch.get_default_dtype() if kind.is_floating_point else torch.int64
        )
    if isinstance(value, bool):
        return torch.bool
    return torch.int64 if isinstance(value, (int, SymInt)) else torch.get_default_dtype()


def _number(t: Tracer, value: Any) -> Any:
    """What a tile is filled with: a number or a scalar of the kernel."""
    value = value[()] if isinstance(value, TensorRef) and not value.dims else value
    if isinstance(value, TileValue) and value.value.dims:
        raise TraceError(
            "a tile is filled with a number or a scalar of the kernel",
            got=repr(value),
            where=t.location(),
            hint="broadcast it: value.expand(shape)",
        )
    return value


def filled(name: str, constant: Any) -> Callable[..., Any]:
    """``torch.zeros`` and those like it."""

    def make(t: Tracer, *sizes: Any, size: Any = None, dtype: Any = None, **options: Any) -> Any:
        _check_options(t, name, options)
        default = torch.get_default_dtype() if dtype is None else dtype
        return t.full(t.dims_of(_shape(t, sizes, size)), constant, dtype_name(default))

    return make


def full(t: Tracer, size: Any, fill_value: Any, *, dtype: Any = None, **options: Any) -> Any:
    """A tile filled with a number or a scalar of the kernel; the dtype is the one that torch would take for it."""
    _check_options(t, "full", options)
    return _filled(t, t.dims_of(size), fill_value, _fill_dtype(_number(t, fill_value)) if dtype is None else dtype)


def _filled(t: Tracer, dims: tuple[Dim, ...], fill_value: Any, dtype: Any) -> TileValue:
    """A tile of one number that its dtype holds."""
    name = dtype_name(dtype)
    check_number(t, fill_value, name)
    return t.full(dims, _number(t, fill_value), name)


FACTORIES[torch.zeros] = filled("zeros", 0)
FACTORIES[torch.empty] = filled("empty", 0)
FACTORIES[torch.ones] = filled("ones", 1)
FACTORIES[torch.full] = full


def _new(name: str, constant: Any) -> Callable[..., Any]:
    def make(t: Tracer, x: Any, *sizes: Any, size: Any = None, dtype: Any = None, **options: Any) -> Any:
        _check_options(t, name, options)
        own = x.dtype if dtype is None else dtype
        return t.full(t.dims_of(_shape(t, sizes, size)), constant, dtype_name(own))

    return make


register_torch("new_zeros")(_new("new_zeros", 0))
register_torch("new_empty")(_new("new_empty", 0))
register_torch("new_ones")(_new("new_ones", 1))


@register_torch("new_full")
def new_full(t: Tracer, x: Any, size: Any, fill_value: Any, *, dtype: Any = None, **options: Any) -> Any:
    """A tile filled with a number or a scalar of the kernel; the dtype is that of ``x`` where none is given."""
    _check_options(t, "new_full", options)
    return _filled(t, t.dims_of(size), fill_value, x.dtype if dtype is None else dtype)


def _like(name: str, constant: Any) -> Callable[..., Any]:
    def make(t: Tracer, x: Any, *, dtype: Any = None, **options: Any) -> Any:
        return full_like(t, x, constant, dtype=dtype, **options)

    return make


@register_torch("full_like")
def full_like(t: Tracer, x: Any, fill_value: Any, *, dtype: Any = None, **options: Any) -> Any:
    """A tile of one number with a tile's dimensions, or with all sizes of a captured tensor, held in registers. Raises
    TraceError for anything else."""
    _check_options(t, "full_like", options)
    if not isinstance(x, (TileValue, TensorRef)):
        raise TraceError("torch's *_like functions take a tile or a tensor", got=repr(x)[:100], where=t.location())
    dims = t.dims_of(x.shape) if isinstance(x, TensorRef) else x.value.dims
    return _filled(t, dims, fill_value, x.dtype if dtype is None else dtype)


register_torch("zeros_like")(_like("zeros_like", 0))
register_torch("empty_like")(_like("empty_like", 0))
register_torch("ones_like")(_like("ones_like", 1))


# ---- arange ---------------------------------------------------------------------------------------------------------


def arange(t: Tracer, start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, **options: Any) -> TileValue:
    """``start``, ``start + step`` ... up to ``end``: ints, or floats where a number is one. The length is in sizes and
    block sizes, also where only the kernel knows the start."""
    _check_options(t, "arange", options)
    start, end = (0, start) if end is None else (start, end)
    start, end, step = (x[()] if isinstance(x, TensorRef) and not x.dims else x for x in (start, end, step))
    if any(isinstance(x, float) for x in (start, end, step)):
        return _of_floats(t, start, end, step, dtype)
    made = _of_ints(t, _extent_of(start), _extent_of(end), step)
    return made if dtype is None else t.cast(made, dtype_name(dtype))


FACTORIES[torch.arange] = arange


def _extent_of(x: Any) -> Any:
    """A tile stands for its length, as in a shape."""
    return x.block_size if isinstance(x, TileProxy) else x


def _of_ints(t: Tracer, start: Any, end: Any, step: Any) -> TileValue:
    if not isinstance(step, (int, SymInt)) or isinstance(step, bool) or (isinstance(step, int) and step == 0):
        raise TraceError("arange's step is a size or an int other than 0", got=repr(step), where=t.location())
    is_plain = isinstance(step, int) and step == 1
    first, last = (affine(t, _scalar(t, x, what)) for x, what in ((start, "start"), (end, "end")))
    length = last - first
    tile = tile_between(t, first, length) if is_plain else None
    if tile is not None:
        return TileProxy(tile[0], t, t.scopes[-1], tile[1]).index
    if not is_known(length):
        raise TraceError(
            "an arange has a length in sizes and block sizes",
            got=f"{start!r} to {end!r}"[:200],
            where=t.location(),
            hint=way_out(t, start, end, "as many as a block, and a mask: start + tfl.arange(b)"),
        )
    dim = Dim(t.extent(_steps(t, length, step)))
    if is_plain and is_known(first):
        return t.emit(OpKind.ARANGE, (), TileType("int32", (dim,)), ArangeAttrs(first))
    lanes = t.emit(OpKind.ARANGE, (), TileType("int32", (dim,)), ArangeAttrs(Expr.of(0)))
    if isinstance(start, TileValue) and start.value.type.dtype == "int64":
        lanes = t.cast(lanes, "int64")
    lanes = lanes if is_plain else lanes * step
    return lanes if first == Expr.of(0) else lanes + (t.size(first) if is_known(first) else start)


def _steps(t: Tracer, length: Expr, step: Any) -> Expr:
    """How many numbers there are. Raises TraceError where the end lies before the start."""
    if isinstance(step, int) and step < 0:
        length, step = -length, -step
    count = length.cdiv(t.as_expr(step, "arange's step"))
    if count.symbols() <= t.hints.keys() and count.evaluate(t.hints) < 0:
        raise TraceError(
            "an arange ends after its start, by its step",
            got=f"{count.evaluate(t.hints)} elements",
            where=t.location(),
            hint="a negative step goes down: (7, -1, -1) is 7 to 0",
        )
    return count


def _scalar(t: Tracer, x: Any, what: str) -> Any:
    """An end of an arange. Raises TraceError for what is no integer scalar."""
    if isinstance(x, TileValue):
        if not x.value.dims and not is_float(x.value.type.dtype):
            return x
        raise TraceError(
            f"arange's {what} is an integer scalar",
            got=repr(x),
            where=t.location(),
            hint="convert a float by .int(), take an element with x[0]",
        )
    t.as_expr(x, f"arange's {what}")
    return x


def _of_floats(t: Tracer, start: Any, end: Any, step: Any, dtype: Any) -> TileValue:
    if not all(isinstance(x, (int, float)) for x in (start, end, step)):
        raise TraceError(
            "an arange of floats is between numbers",
            got=f"{start!r} to {end!r} by {step!r}"[:200],
            where=t.location(),
            hint="scale one of ints: start + step * tfl.arange(n)",
        )
    with t.plain_torch():
        count = len(torch.arange(start, end, step, device="cpu"))
    if not count:
        raise TraceError("an arange in device code has elements", got="none of them", where=t.location())
    lanes = t.emit(OpKind.ARANGE, (), TileType("int32", (Dim(Expr.of(count)),)), ArangeAttrs(Expr.of(0)))
    lanes = t.cast(lanes, "float32")
    own = dtype_name(torch.get_default_dtype() if dtype is None else dtype)
    return t.cast(lanes * float(step) + float(start), own)


# ---- eye, linspace --------------------------------------------------------------------------------------------------


def eye(t: Tracer, n: Any, m: Any = None, *, dtype: Any = None, **options: Any) -> Any:
    """Ones where row and column are the same, else zeros."""
    _check_options(t, "eye", options)
    rows, columns = arange(t, n), arange(t, n if m is None else m)
    check_diagonal(t, "eye", (*rows.value.dims, *columns.value.dims))
    default = torch.get_default_dtype() if dtype is None else dtype
    return t.cast(rows[:, None] == columns[None, :], dtype_name(default))


def linspace(t: Tracer, start: Any, end: Any, steps: Any, *, dtype: Any = None, **options: Any) -> Any:
    """``steps`` numbers from ``start`` to ``end``, both of them included; the second half is counted from the end, as
    torch does."""
    _check_options(t, "linspace", options)
    start, end = _number(t, start), _number(t, end)
    lanes = arange(t, steps)
    own = dtype_name(torch.get_default_dtype() if dtype is None else dtype)
    if isinstance(steps, int) and steps == 1:
        return t.cast(lanes * 0 + start, own)
    last = steps - 1
    step = (end - start) / last
    first = start + step * lanes
    return t.cast(t.pointwise("where", lanes < steps // 2, first, end - step * (last - lanes)), own)


FACTORIES[torch.eye] = eye
FACTORIES[torch.linspace] = linspace
