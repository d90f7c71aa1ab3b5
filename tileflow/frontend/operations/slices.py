"""Parts of register tiles: slices, selected, reversed and shifted elements of a dimension, triangles.

Registers have no addresses. Aligned halves and every other element are splits, the most of a dimension from its start
is as it lies; all else is a gather along the dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import ShapeError, TraceError
from ...expr import Expr
from ...ir.attributes import ArangeAttrs
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType, fills_registers
from ...language.rules import BACKWARDS_IN_A_TILE, FORWARDS_IN_A_TILE
from ..dimensions import show
from ..loaded_parts import cut_of_loaded, remember_cut
from ..side_by_side import some_columns
from ..torch_registry import TABLE, register_torch
from ..trace import Tracer
from ..values import SymInt, TileValue
from .along import first, run, taken
from .extents import check_diagonal, known
from .packing import cat, chunk, unbind
from .reshape import axis_of, is_scalar, reshape, to_dims, value_of
from .tile_index import gather, pick
from .views import movedim, transpose, unsqueeze

_MOST_PARTS = 8  # cut by splits; narrower ones are gathered


def size_of(
    t: Tracer, x: TileValue, axis: int, what: str, hint: str = "load what is needed from the tensor by its index"
) -> int:
    """How many elements a dimension has. Raises ShapeError for a loop's tile, whose config says."""
    dim = x.value.dims[axis]
    size = known(t, dim.extent).constant
    if size is None or dim.tile is not None:
        raise ShapeError(
            f"{what} takes a dimension of a constant size",
            got=show(x.value.dims),
            where=t.location(),
            hint=hint,
        )
    return size


def part(t: Tracer, x: TileValue, axis: int, item: slice) -> TileValue:
    """``x[..., start:stop:step]`` along one dimension, clipped as in Python."""
    if item.start is item.stop is item.step is None:
        return x
    size = size_of(t, x, axis, "a slice")
    ends = [_number(t, end) for end in (item.start, item.stop, item.step)]
    if ends[2] is not None and ends[2] < 1:
        raise ShapeError(
            FORWARDS_IN_A_TILE,
            got=ends[2],
            where=t.location(),
            hint=BACKWARDS_IN_A_TILE,
        )
    start, stop, step = slice(*ends).indices(size)
    length = len(range(start, stop, step))
    if length == 0:
        raise ShapeError(
            "a tile in registers has elements",
            got=f"none of {size} in {_text(ends)}",
            where=t.location(),
            hint="leave out what a slice without elements is for, by an if over sizes",
        )
    if (start, step, length) == (0, 1, size):
        return x
    apart = some_columns(t, x.value, axis, start, length) if step == 1 else None
    if apart is not None:
        return t.wrap(apart)
    cut = first(t, x, axis, length) if (start, step) == (0, 1) else None
    cut = _halves(t, x, axis, start, step, length, size) if cut is None else cut
    cut = cut_of_loaded(t, x, axis, start, length) if cut is None and step == 1 else cut
    cut = taken(t, x, axis, run(t, start, length, step)) if cut is None else cut
    return remember_cut(t, cut, x, axis, start) if step == 1 else cut


def _text(ends: Sequence[int | None]) -> str:
    """A slice as it is written."""
    start, stop, step = ("" if end is None else str(end) for end in ends)
    return f"{start}:{stop}" + (f":{step}" if step else "")


def _number(t: Tracer, end: Any) -> int | None:
    if end is None or (isinstance(end, int) and not isinstance(end, bool)):
        return end
    if isinstance(end, SymInt):
        return t.specialize(end.expr)
    raise TraceError(
        "a tile in registers is sliced between ints and sizes",
        got=repr(end)[:100],
        where=t.location(),
        hint="index the tensor instead: x[start : start + n]",
    )


def _halves(t: Tracer, x: TileValue, axis: int, start: int, step: int, length: int, size: int) -> TileValue | None:
    """The slice by splitting registers, where it is one of a few equal parts."""
    parts = size // length
    if size & (size - 1) or length & (length - 1) or parts > _MOST_PARTS:
        return None
    if step == 1 and start % length == 0:
        return chunk(t, x, parts, axis)[start // length]
    if step == parts and start < step:
        sizes = [t.size(d.extent) for d in x.value.dims]
        apart = reshape(t, x, [*sizes[:axis], length, step, *sizes[axis + 1 :]])
        return unbind(t, apart, axis + 1)[start]
    return None


@register_torch("narrow")
def narrow(t: Tracer, x: Any, dim: int, start: Any, length: Any) -> Any:
    """``length`` elements of ``dim`` from ``start``. Raises ShapeError where the dimension does not have them."""
    axis = axis_of(t, dim, x.ndim)
    size = t.size(x.extents[axis])
    if isinstance(start, int) and start < 0:
        start = size + start
    are_known = all(isinstance(n, int) for n in (size, start, length))
    if are_known and not 0 <= start <= start + length <= size:
        raise ShapeError(
            "narrow takes elements that the dimension has",
            got=f"{length} from {start} on, of {size}",
            where=t.location(),
            hint="a slice, x[:, start:stop], ends with the dimension",
        )
    return part(t, x, axis, slice(start, start + length))


@register_torch("select")
def select(t: Tracer, x: Any, dim: int, index: Any) -> Any:
    """The element at ``index`` of ``dim``, which is dropped."""
    return pick(t, x, dim, index)


@register_torch("index_select")
def index_select(t: Tracer, x: Any, dim: int, index: Any) -> Any:
    """The elements of ``dim`` at the places of a 1-D tile of ints. Raises ShapeError for indices of another rank."""
    places = t.wrap(value_of(t, index))
    if places.ndim != 1:
        raise ShapeError(
            "index_select takes a 1-D tile of ints",
            got=show(places.value.dims),
            where=t.location(),
            hint="an element of its own for each lane: torch.gather(tile, dim, index)",
        )
    return taken(t, x, axis_of(t, dim, x.ndim), places)


@register_torch("take_along_dim")
def take_along_dim(t: Tracer, x: Any, indices: Any, dim: int) -> Any:
    """The elements of ``dim`` at ``indices``, which have the tile's other dimensions."""
    return gather(t, x, dim, indices)


@register_torch("flip")
def flip(t: Tracer, x: Any, dims: Any, *more: Any) -> Any:
    """The elements of each of ``dims`` in reverse order."""
    named = dims if isinstance(dims, (list, tuple)) else (dims, *more)
    if is_scalar(t, x, *named):
        return x
    for dim in named:
        axis = axis_of(t, dim, x.ndim)
        size = size_of(t, x, axis, "flip")
        x = taken(t, x, axis, (size - 1) - run(t, 0, size))
    return x


@register_torch("fliplr")
def fliplr(t: Tracer, x: Any) -> Any:
    """The elements of dimension 1 in reverse order."""
    return flip(t, x, 1)


@register_torch("flipud")
def flipud(t: Tracer, x: Any) -> Any:
    """The elements of dimension 0 in reverse order."""
    return flip(t, x, 0)


@register_torch("rot90")
def rot90(t: Tracer, x: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """The plane of two dimensions turned by ``k`` right angles, from the first towards the second."""
    first, second = dims
    if k % 4 == 2:
        return flip(t, x, (first, second))
    x = flip(t, x, second) if k % 4 == 1 else flip(t, x, first) if k % 4 == 3 else x
    return transpose(t, x, first, second) if k % 2 else x


@register_torch("roll")
def roll(t: Tracer, x: Any, shifts: Any, dims: Any = None) -> Any:
    """The elements of each of ``dims`` moved by its shift, around the end; without ``dims`` of all of them in a row."""
    moves = tuple(shifts) if isinstance(shifts, (list, tuple)) else (shifts,)
    axes = tuple(dims) if isinstance(dims, (list, tuple)) else () if dims is None else (dims,)
    if len(moves) != (len(axes) or 1):
        raise TraceError("roll takes a shift for each dim", got=f"{shifts} for {dims}", where=t.location())
    if not axes and is_scalar(t, x):
        return x
    hint = "roll(shift, dims=1) stays within rows; of a loop's tile load x[(tile.index - shift) % n]"
    if not axes and x.ndim > 1:
        for axis in range(x.ndim):
            size_of(t, x, axis, "roll without dims", hint)
        flat = roll(t, reshape(t, x, -1), moves, (0,))
        return reshape(t, flat, [t.size(d.extent) for d in x.value.dims])
    for shift, dim in zip(moves, axes or (0,), strict=True):
        axis = axis_of(t, dim, x.ndim)
        size = size_of(t, x, axis, "roll", hint)
        if size:
            x = taken(t, x, axis, (run(t, 0, size) + (-shift) % size) % size)
    return x


@register_torch("repeat_interleave")
def repeat_interleave(t: Tracer, x: Any, repeats: Any, dim: int | None = None) -> TileValue:
    """Every element ``repeats`` times in a row."""
    if not isinstance(repeats, int) or repeats < 1:
        raise TraceError("repeat_interleave takes an int", got=repr(repeats), where=t.location())
    x = t.wrap(value_of(t, x)) if dim is not None else reshape(t, x, -1)
    axis = axis_of(t, -1 if dim is None else dim, x.ndim)
    dims = x.value.dims
    size = known(t, dims[axis].extent).constant
    if dims[axis].tile is None and size is not None and not fills_registers(repeats):
        return taken(t, x, axis, run(t, 0, size * repeats) // repeats)
    wide = (*dims[: axis + 1], t.dims_of([repeats])[0], *dims[axis + 1 :])
    sizes = [t.size(d.extent * (repeats if n == axis else 1)) for n, d in enumerate(dims)]
    return reshape(t, t.expand(unsqueeze(t, x, axis + 1), wide), sizes)


@register_torch("repeat", "tile")
def repeat(t: Tracer, x: Any, *sizes: Any) -> Any:
    """Copies of a dimension side by side."""
    times: Sequence[Any] = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    while x.ndim < len(times):
        x = unsqueeze(t, x, 0)
    for axis, n in enumerate(times, start=x.ndim - len(times)):
        dims = x.value.dims
        if isinstance(n, int) and n == 1:
            continue
        if dims[axis].extent.constant == 1:
            x = t.expand(x, (*dims[:axis], *t.dims_of([n]), *dims[axis + 1 :]))
        elif dims[axis].tile is not None and isinstance(n, int) and fills_registers(n):
            x = _repeated(t, x, axis, n)
        else:
            size = size_of(t, x, axis, "repeat")
            x = taken(t, x, axis, run(t, 0, size * _number(t, n)) % size)  # type: ignore[operator]
    return x


def _repeated(t: Tracer, x: TileValue, axis: int, times: int) -> TileValue:
    """A power of two of copies of a loop's tile."""
    dims = x.value.dims
    apart = t.expand(unsqueeze(t, x, axis), (*dims[:axis], *t.dims_of([times]), *dims[axis:]))
    return to_dims(t, apart.value, (*dims[:axis], Dim(dims[axis].extent * times), *dims[axis + 1 :]))


@register_torch("diff")
def diff(t: Tracer, x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along ``dim``, with what is put before and after it, taken ``n`` times."""
    axis = axis_of(t, dim, x.ndim)
    parts = [v for v in (prepend, x, append) if v is not None]
    needs_elements(t, "diff", sum(size_of(t, v, axis, "diff") for v in parts), n + 1)
    for _ in range(n):
        later, earlier = _without(t, parts, axis, 0), _without(t, parts, axis, -1)
        # torch's difference of bools is whether they differ
        x = t.pointwise("ne", later, earlier) if later.value.type.dtype == "bool" else later - earlier
        parts = [x]
    return x


def _without(t: Tracer, parts: Sequence[Any], axis: int, end: int) -> Any:
    """Tiles side by side without the first element of all, or the last one by -1: what one of them holds moves once."""
    size = size_of(t, parts[end], axis, "diff")
    cut = [part(t, parts[end], axis, slice(1, None) if end == 0 else slice(0, size - 1))] if size > 1 else []
    kept = [*cut, *parts[1:]] if end == 0 else [*parts[:-1], *cut]
    return kept[0] if len(kept) == 1 else cat(t, kept, axis)


def needs_elements(t: Tracer, what: str, size: int, least: int) -> None:
    """Raises ShapeError where an operation would give a tile without elements."""
    if size < least:
        raise ShapeError(
            f"{what} in registers takes at least {least} elements, so that its result has some",
            got=size,
            where=t.location(),
            hint="leave such calls out by an if over sizes",
        )


# ---- matrices -------------------------------------------------------------------------------------------------------


def _distance(t: Tracer, x: TileValue, what: str) -> Any:
    """Column minus row, for each element of the last two dimensions."""
    if x.ndim < 2:
        raise ShapeError(
            f"{what} takes rows and columns", got=show(x.value.dims), where=t.location(), hint="x[None, :] is one row"
        )
    check_diagonal(t, what, x.value.dims)
    rows, columns = (
        t.emit(OpKind.ARANGE, (), TileType("int32", (d,)), ArangeAttrs(Expr.of(0))) for d in x.value.dims[-2:]
    )
    return unsqueeze(t, columns, 0) - unsqueeze(t, rows, 1)


@register_torch("tril")
def tril(t: Tracer, x: Any, diagonal: int = 0) -> Any:
    """The elements on and below a diagonal, with 0 above it."""
    return t.cast(t.pointwise("where", _distance(t, x, "tril") <= diagonal, x, 0), x.value.type.dtype)


@register_torch("triu")
def triu(t: Tracer, x: Any, diagonal: int = 0) -> Any:
    """The elements on and above a diagonal, with 0 below it."""
    return t.cast(t.pointwise("where", _distance(t, x, "triu") >= diagonal, x, 0), x.value.type.dtype)


@register_torch("diagonal")
def diagonal(t: Tracer, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The main diagonal of two dimensions of one size, in a new last dimension."""
    x = movedim(t, x, (dim1, dim2), (-2, -1))
    check_diagonal(t, "diagonal", x.value.dims)
    rows, columns = x.value.dims[-2:]
    if offset or not t.same_size(rows.extent, columns.extent):
        raise ShapeError(
            "diagonal takes the main one of a square",
            got=f"{show(x.value.dims)}, {offset}",
            where=t.location(),
            hint="a comparison of indices, torch.where and a sum",
        )
    summed = tril(t, triu(t, x)).sum(-2)
    return t.cast(summed, x.value.type.dtype)


def _diagonal_of_last(t: Tracer, x: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    return diagonal(t, x, offset, dim1, dim2)


TABLE[torch.linalg.diagonal] = (_diagonal_of_last, "linalg.diagonal")


@register_torch("diag_embed")
def diag_embed(t: Tracer, x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Squares in two new dimensions, the last ones or those named, with the last dimension as main diagonal and 0
    elsewhere."""
    if offset:
        raise ShapeError(
            "diag_embed fills the main diagonal", got=f"offset={offset}", where=t.location(), hint="F.pad the result"
        )
    rows = unsqueeze(t, x, -1)
    dim = x.value.dims[-1]
    square = t.expand(rows, (*x.value.dims, dim.bare()))
    found = t.cast(t.pointwise("where", _distance(t, square, "diag_embed") == 0, square, 0), x.value.type.dtype)
    return movedim(t, found, (-2, -1), (dim1, dim2))


@register_torch("diag")
def diag(t: Tracer, x: Any, diagonal: int = 0) -> Any:
    """The square with a vector as its diagonal, or a square's diagonal."""
    return diag_embed(t, x, diagonal) if x.ndim == 1 else _diagonal_of_last(t, x, offset=diagonal)


@register_torch("trace")
def trace(t: Tracer, x: Any) -> Any:
    """The sum of the diagonal."""
    return diagonal(t, x).sum()
