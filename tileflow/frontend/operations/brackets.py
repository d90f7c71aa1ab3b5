"""Brackets on a tile in registers: ``tile[:, None, 0]``."""

from __future__ import annotations

from typing import Any

from ...errors import TraceError
from ...expr import Expr
from ...ir.types import ONE, Dim
from ...language.rules import INDEX_OF_A_TILE, instead_of_item_of_a_tile
from ...runtime.numpy_numbers import plain_argument
from ..loaded_parts import part_of_loaded
from ..part_views import is_view_index
from ..resolve import is_size
from ..syntax_registry import register_syntax
from ..taken import Loaded
from ..trace import Tracer
from ..values import SymInt, TileProxy, TileValue
from ..view_cuts import cut_by
from .along import named
from .slices import part
from .tile_index import pick
from .views import unsqueeze


@register_syntax("index_tile")
def index_tile(t: Tracer, x: TileValue, index: Any) -> TileValue:
    """``tile[:, None, 0]``; a loop's tile is its indices. Raises TraceError for several tiles of indices that are not
    of different loops."""
    index = plain_argument(index)
    items = index if isinstance(index, tuple) else (index,)
    if not is_view_index(index):
        return _indexed(t, x, index)
    if x.taken is not None and any(isinstance(i, TileProxy) for i in items):
        block = _indexed(t, x, index)  # which lies in registers
        block.loaded = Loaded(x.taken.path, is_block=True)
        return block
    found: TileValue = _indexed(t, x, index) if x.taken is None else t.of_part(x, lambda: _indexed(t, x, index))
    view: TileValue = t.viewing(found, x, cut_by(x, items, t.hints))
    return view


def _indexed(t: Tracer, x: TileValue, index: Any) -> TileValue:
    items = _with_ellipsis(list(index) if isinstance(index, tuple) else [index], len(x.value.dims))
    read = part_of_loaded(t, x, items)
    if read is not None:
        return read
    items = [_indices(t, i, d) for i, d in zip(items, _named(items, x.value.dims), strict=True)]
    result, axis = x, 0
    for item in items:
        if item is None:
            result, axis = unsqueeze(t, result, axis), axis + 1
        elif isinstance(item, slice):
            result, axis = part(t, result, axis, item), axis + 1
        elif _is_scalar(item):
            result = pick(t, result, axis, item)
        elif _holds_places(item) and _are_apart([i for i in items if isinstance(i, TileValue) and i.ndim]):
            result, axis = named(t, result, axis, item), axis + item.ndim
        else:
            is_mask = isinstance(item, TileValue) and item.value.type.dtype == "bool"
            hint = instead_of_item_of_a_tile(item, is_size, is_mask)
            raise TraceError(INDEX_OF_A_TILE, got=f"{item!r}"[:100], where=t.location(), hint=hint)
    return result


def _named(items: list[Any], dims: tuple[Dim, ...]) -> list[Dim | None]:
    """The dimension that each item names; None where there is none."""
    rest = iter(dims)
    return [None if item is None else next(rest, None) for item in items]


def _indices(t: Tracer, item: Any, dim: Dim | None) -> Any:
    """A loop's tile as its indices. A dimension of 1 is one for a tile of a longer loop, as of a tensor."""
    if not isinstance(item, TileProxy):
        return item
    is_shifted = item.offset != Expr.of(0) or item.shift is not None
    end = t.tiles[item.name].end
    if dim == ONE and not is_shifted and isinstance(end, Expr) and end.symbols() <= t.hints.keys():
        return slice(None) if t.decide(Expr.of(2).le(end)) else item.index
    return item.index


def _with_ellipsis(items: list[Any], rank: int) -> list[Any]:
    for position, item in enumerate(items):
        if item is Ellipsis:
            used = sum(1 for i in items if i is not None) - 1
            return items[:position] + [slice(None)] * (rank - used) + items[position + 1 :]
    return items


def _holds_places(item: Any) -> bool:
    is_mask = isinstance(item, TileValue) and item.ndim > 1 and item.value.type.dtype == "bool"
    return isinstance(item, TileValue) and item.ndim > 0 and not is_mask


def _are_apart(places: list[TileValue]) -> bool:
    """Whether tiles of indices name elements one after the other: they are of different loops, so that torch has an
    outer product of them too."""
    loops = [p.value.dims[0].tile for p in places if p.ndim == 1]
    return len(places) == 1 or (len({*loops} - {None}) == len(places))


def _is_scalar(item: Any) -> bool:
    if isinstance(item, TileValue):
        return not item.value.dims and not item.is_floating_point()
    return isinstance(item, (int, SymInt)) and not isinstance(item, bool)
