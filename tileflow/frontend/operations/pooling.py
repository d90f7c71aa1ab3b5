"""Pooling: the sum or the largest of the elements of windows, along the last dimensions.

A window's members are slices of the whole dimension, one apart from the next, so that windows may overlap. Padding is
what joins without a trace, in front of the dimension and behind it: zeros for sums, minus infinity for extremes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ...errors import ShapeError, TraceError
from ...expr import Expr
from ...ir.types import Dim, is_float
from ..dimensions import show
from ..promotion import torch_dtype
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import SymInt, TileValue
from .packing import cat
from .slices import part, size_of

MOST_MEMBERS = 64  # of a window: each is a slice of its own


def _averages(size: int) -> Callable[..., Any]:
    name = f"avg_pool{size}d"

    @register_torch(name)
    def average(
        t: Tracer,
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        _refuse(t, name, ceil_mode=ceil_mode)
        widths = _each(t, name, kernel_size, size)
        steps = widths if _is_none(stride) else _each(t, name, stride, size)
        room = _room(t, name, padding, widths)
        divisor: Any = math.prod(widths) if divisor_override is None else divisor_override
        if divisor_override is None and any(room) and not count_include_pad:
            divisor = _members(t, name, x, widths, steps, room)
        return _averaged(t, name, x, widths, steps, divisor, room)

    return average


def _averaged(t: Tracer, name: str, x: Any, widths: list[int], steps: list[int], divisor: Any, room: list[int]) -> Any:
    dtype = x.value.type.dtype
    wide = t.cast(x, "float32") if dtype in ("float16", "bfloat16") else x
    padded = _padded(t, name, wide, room, 0.0)
    total = _pooled(t, name, padded, widths, steps, [1] * len(widths), lambda a, b: a + b)
    return t.cast(total / divisor, dtype)


def _members(t: Tracer, name: str, x: TileValue, widths: list[int], steps: list[int], room: list[int]) -> Any:
    """How many elements of the dimensions themselves each window has."""
    ones = t.full(x.value.dims, 1, "float32")
    return _pooled(t, name, _padded(t, name, ones, room, 0.0), widths, steps, [1] * len(widths), lambda a, b: a + b)


def _largest(size: int) -> Callable[..., Any]:
    name = f"max_pool{size}d"

    @register_torch(name)
    def largest(
        t: Tracer,
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        _refuse(t, name, ceil_mode=ceil_mode, return_indices=return_indices)
        widths = _each(t, name, kernel_size, size)
        steps = widths if _is_none(stride) else _each(t, name, stride, size)
        apart = _each(t, name, dilation, size)
        padded = _padded(t, name, x, _room(t, name, padding, widths), _least(x.value.type.dtype))
        return _pooled(t, name, padded, widths, steps, apart, lambda a, b: t.pointwise("maximum", a, b))

    return largest


def _adaptive(kind: str, size: int) -> Callable[..., Any]:
    name = f"adaptive_{kind}_pool{size}d"

    @register_torch(name)
    def adaptive(t: Tracer, x: Any, output_size: Any, return_indices: bool = False) -> Any:
        """Windows that tile the dimension, as many as are asked for."""
        _refuse(t, name, return_indices=return_indices)
        _check(t, name, x, size)
        sizes = [size_of(t, x, axis, name) for axis in range(x.ndim - size, x.ndim)]
        given = [output_size] * size if isinstance(output_size, (int, SymInt)) else list(output_size)
        wanted = [own if g is None else _each(t, name, g, 1)[0] for g, own in zip(given, sizes, strict=True)]
        if min(wanted) < 1 or any(own % number for own, number in zip(sizes, wanted, strict=True)):
            raise ShapeError(
                f"{name}'s windows tile the dimension",
                got=f"{wanted} of {sizes}",
                where=t.location(),
                hint="sizes that divide it; windows of other widths by F.avg_pool1d",
            )
        widths = [own // number for own, number in zip(sizes, wanted, strict=True)]
        if widths == sizes:
            return _whole(t, kind, x, size)
        if kind == "max":
            return _pooled(t, name, x, widths, widths, [1] * size, lambda a, b: t.pointwise("maximum", a, b))
        return _averaged(t, name, x, widths, widths, math.prod(widths), [0] * size)

    return adaptive


def _whole(t: Tracer, kind: str, x: Any, size: int) -> Any:
    """One window of everything."""
    axes = tuple(range(x.ndim - size, x.ndim))
    return x.mean(axes, keepdim=True) if kind == "avg" else x.amax(axes, keepdim=True)


for _size in (1, 2, 3):
    _averages(_size)
    _largest(_size)
    _adaptive("avg", _size)
    _adaptive("max", _size)


def _pooled(
    t: Tracer,
    name: str,
    x: TileValue,
    widths: list[int],
    steps: list[int],
    apart: list[int],
    join: Callable[[Any, Any], Any],
) -> Any:
    """``x`` with the windows of its last dimensions joined, one dimension after another."""
    _check(t, name, x, len(widths))
    for axis, width, step, gap in zip(range(x.ndim - len(widths), x.ndim), widths, steps, apart, strict=True):
        size = size_of(t, x, axis, name)
        number = (size - gap * (width - 1) - 1) // max(step, 1) + 1
        if number < 1 or min(width, step, gap) < 1:
            raise ShapeError(f"{name}'s window fits into the dimension", got=f"{width} of {size}", where=t.location())
        if width > MOST_MEMBERS:
            raise ShapeError(
                f"{name}'s windows have {MOST_MEMBERS} members at most",
                got=width,
                where=t.location(),
                hint="load x[tile, i, :] in a loop over windows, and reduce it",
            )
        members = [part(t, x, axis, slice(at, at + step * (number - 1) + 1, step)) for at in range(0, gap * width, gap)]
        x = members[0]
        for member in members[1:]:
            x = join(x, member)
    return x


def _room(t: Tracer, name: str, padding: Any, widths: list[int]) -> list[int]:
    """The padding of each dimension. Raises ShapeError where a window may lie in it altogether, as torch does."""
    found = _each(t, name, padding, len(widths))
    if any(not 0 <= room <= width // 2 for room, width in zip(found, widths, strict=True)):
        raise ShapeError(
            f"{name}'s padding is half of the window at most", got=f"{found} of {widths}", where=t.location()
        )
    return found


def _padded(t: Tracer, name: str, x: TileValue, room: list[int], filler: float) -> TileValue:
    """``x`` with ``filler`` on both sides of its last dimensions."""
    _check(t, name, x, len(room))
    for axis, beside in zip(range(x.ndim - len(room), x.ndim), room, strict=True):
        if beside:
            dims = [*x.value.dims]
            dims[axis] = Dim(Expr.of(beside))
            pad = t.full(tuple(dims), filler, x.value.type.dtype)
            x = cat(t, [pad, x, pad], axis)
    return x


def _least(dtype: str) -> float:
    """What is no larger than anything of a dtype."""
    return -math.inf if is_float(dtype) else torch.iinfo(torch_dtype(dtype)).min


def _check(t: Tracer, name: str, x: TileValue, size: int) -> None:
    if x.ndim not in (size + 1, size + 2):
        raise ShapeError(
            f"{name} takes channels and {size} more dimensions, examples before them or not",
            got=show(x.value.dims),
            where=t.location(),
        )


def _is_none(stride: Any) -> bool:
    """Whether windows lie side by side; torch's own functions say so by an empty list."""
    return stride is None or (isinstance(stride, (list, tuple)) and not stride)


def _each(t: Tracer, name: str, given: Any, size: int) -> list[int]:
    """A number for each dimension."""
    values = list(given) if isinstance(given, (tuple, list)) else [given]
    values = values * size if len(values) == 1 else values
    numbers = [t.specialize(v.expr) if isinstance(v, SymInt) else v for v in values]
    if len(numbers) != size or not all(isinstance(n, int) for n in numbers):
        raise TraceError(f"{name} takes one int, or {size}", got=repr(given)[:100], where=t.location())
    return numbers


def _refuse(t: Tracer, name: str, **options: Any) -> None:
    for option, value in options.items():
        if any(value) if isinstance(value, (tuple, list)) else value:
            hint = "load with the padding: torch.where(inside, x[...], 0.0)" if option == "ceil_mode" else ""
            raise TraceError(
                f"{name} in a tile loop has no {option}",
                got=f"{option}={value!r}",
                where=t.location(),
                hint=hint or "compare the windows with their extremes",
            )
