"""Tables in which a tile's elements are looked for, by comparison with all of theirs."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError, TraceError
from ...ir.types import is_float
from ..dimensions import show
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TensorRef, TileValue
from .reductions import reduce
from .reshape import reshape, value_of
from .views import unsqueeze

_WHOLE = "load all of it, table[:]; tile by tile: (table[t] < x[:, None]).sum(1), (table[t] == x[:, None]).any(1)"


def _whole(t: Tracer, what: str, table: Any) -> TileValue:
    """A table as a tile. Raises TraceError for one that is not loaded, ShapeError for a loop's tile."""
    if isinstance(table, TensorRef):
        raise TraceError(f"{what} takes a table that is loaded", got=repr(table), where=t.location(), hint=_WHOLE)
    value = value_of(t, table)
    if value.dims and value.dims[-1].tile is not None:
        raise ShapeError(f"{what} takes a whole table", got=show(value.dims), where=t.location(), hint=_WHOLE)
    return t.wrap(value)


@register_torch("isin")
def isin(t: Tracer, elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Which elements are among ``test_elements``, a number or all elements of a tile."""
    if isinstance(test_elements, (bool, int, float)):
        found = t.pointwise("eq", elements, test_elements)
    else:
        table = _whole(t, "torch.isin", test_elements)
        table = table if table.ndim == 1 else reshape(t, table, -1)
        found = reduce(t, "any", t.pointwise("eq", *_pairs(t, elements, table)), -1, False)
    return t.pointwise("logical_not", found) if invert else found


@register_torch("searchsorted")
def searchsorted(
    t: Tracer, sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False, side: Any = None
) -> TileValue:
    """How many elements of a sorted row are before each of ``input``: those less than it, with ``right`` (or ``side``)
    also those equal to it. Rows of a matrix are for rows of the other tile."""
    table = _whole(t, "a search", sorted_sequence)
    if side not in (None, "left", "right"):
        raise TraceError("torch.searchsorted has a side left or right", got=repr(side), where=t.location())
    if table.ndim != 1 and (not isinstance(input, TileValue) or input.ndim != table.ndim):
        raise ShapeError(
            "torch.searchsorted takes one sorted row, or one for each row of the tile",
            got=f"{show(table.value.dims)} for {input!r}",
            where=t.location(),
            hint="a row for all: table[:]",
        )
    element, row = _pairs(t, input, table)
    after = t.pointwise("gt" if right or side == "right" else "ge", row, element)
    before = t.pointwise("logical_not", after)
    if is_float(table.value.type.dtype):
        # torch sorts NaN to the end, where an element comes that nothing is after; no other element is beyond them
        is_last = t.pointwise("logical_not", reduce(t, "any", after, -1, True))
        before = t.pointwise("logical_and", before, t.pointwise("logical_or", t.pointwise("eq", row, row), is_last))
    return t.cast(reduce(t, "sum", t.cast(before, "int32"), -1, False, "int32"), "int32" if out_int32 else "int64")


@register_torch("bucketize")
def bucketize(t: Tracer, input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> TileValue:
    """How many of the sorted ``boundaries`` are before each element of ``input``; see ``searchsorted``."""
    return searchsorted(t, boundaries, input, out_int32=out_int32, right=right)


def _pairs(t: Tracer, elements: Any, table: TileValue) -> tuple[Any, TileValue]:
    """The elements in dimensions of their own before the table's last."""
    if isinstance(elements, (bool, int, float)):
        return elements, table
    x = t.wrap(value_of(t, elements))
    if table.ndim > 1:
        return unsqueeze(t, x, -1), unsqueeze(t, table, -2)
    for _ in range(x.ndim):
        table = unsqueeze(t, table, 0)
    return unsqueeze(t, x, -1), table
