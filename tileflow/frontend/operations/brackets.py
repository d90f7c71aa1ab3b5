"""Brackets on a tile in registers: ``tile[:, None, 0]``."""

from __future__ import annotations

from typing import Any

from ...errors import TraceError
from ..syntax_registry import register_syntax
from ..trace import Tracer
from ..values import SymInt, TileProxy, TileValue
from .slices import index_select, part
from .tile_index import pick
from .views import unsqueeze


@register_syntax("index_tile")
def index_tile(t: Tracer, x: TileValue, index: Any) -> TileValue:
    """``tile[:, None, 0]``; a loop's tile is its indices. Raises TraceError for several tiles of indices."""
    items = _with_ellipsis(list(index) if isinstance(index, tuple) else [index], len(x.value.dims))
    items = [i.index if isinstance(i, TileProxy) else i for i in items]
    result, axis = x, 0
    for item in items:
        if item is None:
            result, axis = unsqueeze(t, result, axis), axis + 1
        elif isinstance(item, slice):
            result, axis = part(t, result, axis, item), axis + 1
        elif _is_scalar(item):
            result = pick(t, result, axis, item)
        elif isinstance(item, TileValue) and item.ndim == 1 and sum(isinstance(i, TileValue) for i in items) == 1:
            result, axis = index_select(t, result, axis, item), axis + 1
        else:
            hint = "index the tensor instead, or use torch.gather, torch.chunk, or torch.where and a sum"
            if isinstance(item, TileValue) and item.value.type.dtype == "bool":
                hint = "torch.where(mask, x, 0) keeps the shape; tfl.store(out, index, x, extra_mask=mask) writes some"
            raise TraceError(
                "a tile in registers is indexed by slices, None, ints, and one 1-D tile of ints",
                got=f"{item!r}"[:100],
                where=t.location(),
                hint=hint,
            )
    return result


def _with_ellipsis(items: list[Any], rank: int) -> list[Any]:
    for position, item in enumerate(items):
        if item is Ellipsis:
            used = sum(1 for i in items if i is not None) - 1
            return items[:position] + [slice(None)] * (rank - used) + items[position + 1 :]
    return items


def _is_scalar(item: Any) -> bool:
    if isinstance(item, TileValue):
        return not item.value.dims and not item.is_floating_point()
    return isinstance(item, (int, SymInt)) and not isinstance(item, bool)
