"""``torch.nn.functional.pad``: elements around those of a tile, or fewer of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ShapeError, TraceError
from ..held_numbers import check_number
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .along import first, run
from .slices import part, size_of
from .tile_index import nearest

_MODES = ("constant", "reflect", "replicate", "circular")
_HINT = "of a loop's tile load more of the tensor: x[t.index - 1], whose places outside give 0"


@register_torch("pad")
def pad(t: Tracer, x: Any, pad: Sequence[Any], mode: str = "constant", value: float | None = None) -> Any:
    """So many elements before and after each of the last dimensions, from the last one on; fewer where a number is
    negative. They are ``value``, or the tile's own by ``mode``."""
    numbers = [int(n) for n in pad]
    if mode not in _MODES or len(numbers) % 2 or len(numbers) > 2 * x.ndim:
        raise TraceError(
            f"pad takes two numbers for each of the last dimensions, and a mode of {', '.join(_MODES)}",
            got=f"{numbers} of {x.ndim} dimensions, {mode!r}",
            where=t.location(),
            hint="F.pad(x, (1, 2)) is of the last dimension, F.pad(x, (0, 0, 1, 2)) of the one before it",
        )
    for n in range(len(numbers) // 2):
        before, after = numbers[2 * n : 2 * n + 2]
        if before or after:
            check_number(t, value, x.value.type.dtype)
            x = _padded(t, x, x.ndim - 1 - n, before, after, mode, value)
    return x


def _padded(t: Tracer, x: TileValue, axis: int, before: int, after: int, mode: str, value: float | None) -> TileValue:
    size = size_of(t, x, axis, "pad", _HINT)
    length = size + before + after
    most = {"reflect": size - 1, "circular": size}.get(mode, before + after)
    kept = size + min(before, 0) + min(after, 0)
    if length < 1 or kept < 0 or (mode != "constant" and (max(before, after) > most or not kept)):
        raise ShapeError(
            "pad leaves a dimension with elements, of which reflect and circular take none twice",
            got=f"{before} and {after} around {size}, {mode}",
            where=t.location(),
            hint="cut off fewer" if length < 1 or kept < 1 else "pad in several steps",
        )
    if not kept:  # all of it is cut off, and what is put around it stays
        dims = (*x.value.dims[:axis], *t.dims_of([length]), *x.value.dims[axis + 1 :])
        return t.full(dims, 0 if value is None else value, x.value.type.dtype)
    if max(before, after) <= 0 or mode == "constant":
        x = part(t, x, axis, slice(max(-before, 0), size - max(-after, 0)))
        size, before, after = kept, max(before, 0), max(after, 0)
        if not before and not after:
            return x
    places: Any = run(t, -before, size + before + after)
    if mode == "circular":
        places = (places + size) % size
    elif mode == "reflect":
        places = t.pointwise("abs", places)
        places = (size - 1) - t.pointwise("abs", (size - 1) - places)
    as_it_lies = None if before or mode != "constant" else first(t, x, axis, size + after)
    found = nearest(t, x, axis, places) if as_it_lies is None else as_it_lies
    if mode != "constant":
        return found
    inside = t.pointwise("logical_and", places >= 0, places < size)
    for _ in range(axis + 1, x.ndim):
        inside = inside.unsqueeze(-1)
    return t.cast(t.pointwise("where", inside, found, 0 if value is None else value), x.value.type.dtype)
