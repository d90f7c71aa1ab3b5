"""What is read and stored by an index as plain Python: of captured tensors, of their parts, and of tiles."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import torch

from ..errors import TraceError
from .assignments import ASSIGNED, instead_of_a_view, instead_of_assignment
from .captured_views import BY_ITEM, by_item, spelled_view, taken
from .eager_calls import is_captured, tile_of
from .eager_indexing import DeviceInt, IndexedElements, is_size, is_traced
from .eager_parts import Part, is_outside, part_of, place_of_store, take
from .eager_session import author, caller
from .in_place import is_loaded, put
from .rules import (
    BLOCK_CHANGED,
    INDEX_OF_A_TILE,
    OF_A_COPY,
    OF_A_COPY_HINT,
    and_the_index,
    flatten,
    instead_of_changing_a_block,
    instead_of_item_of_a_tile,
    outside,
)
from .stored_names import changed_places, stored_through


def read(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """``tensor[index]``. Raises TraceError for what a tile in registers is not indexed by."""
    code, at = author().f_code, author().f_lasti // 2
    line, last, column, end = next(islice(code.co_positions(), at, None))
    tile = _read(tensor, index, (line, column, last, end) in stored_through(code.co_filename))
    if (line, column, last, end) in changed_places(code.co_filename):
        tile.tileflow_place = tensor, index  # type: ignore[attr-defined]
    return tile


def _read(tensor: torch.Tensor, index: Any, is_stored: bool) -> torch.Tensor:
    """``tensor[index]``. ``is_stored``: whether the text stores through the name that it gives that."""
    if not hasattr(tensor, "tileflow_kept"):
        found = IndexedElements(tensor, index, reads=True)
        return _noted(_taken(tile_of(found.read(), found.kept), None, found, is_stored), found, index)
    for item in flatten(index, is_traced, is_size):
        is_mask = isinstance(item, torch.Tensor) and item.dtype is torch.bool
        if is_mask or isinstance(item, (list, tuple)):
            got = f"a tile of bool of shape {tuple(item.shape)}" if isinstance(item, torch.Tensor) else f"{item!r}"
            hint = instead_of_item_of_a_tile(item, is_size, is_mask)
            raise TraceError(INDEX_OF_A_TILE, got=got[:100], hint=hint)
    tile = tile_of(IndexedElements(tensor, index, reads=True).read())
    whole, place = part_of(tensor) or (None, None)
    if place is None:
        return tile
    found = IndexedElements(place, index, reads=True)
    return _noted(_taken(tile, whole, found, is_stored), found, index)


def _noted(tile: torch.Tensor, found: IndexedElements, index: Any) -> torch.Tensor:
    """``tile``, of which it is known from here on whether it is a copy of what torch has a view of."""
    if is_view(index) and part_of(tile) is None:
        tile.tileflow_loaded = found.is_block  # type: ignore[attr-defined]
    return tile


def put_back(name: str, tile: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """What the method ``name`` in place made of ``tile``, where that stands: in the place that its brackets name, or in
    the part that its name is of; else it is the tile's own from now on. Raises TraceError where brackets name a copy,
    and for a block that a name has in registers."""
    named: tuple[torch.Tensor, Any] | None = getattr(tile, "tileflow_place", None)
    if named is not None:
        if not is_view(named[1]):
            raise TraceError(OF_A_COPY, got=f"a tile of shape {tuple(tile.shape)}", hint=OF_A_COPY_HINT)
        write(*named, made)
        return put(tile, made)
    place = place_of_store(tile)
    if place is None and is_loaded(tile):
        raise TraceError(BLOCK_CHANGED, got=f".{name} of x[...]", hint=instead_of_changing_a_block(name))
    if place is None:
        return put(tile, made)
    if not is_outside(tile):
        place.copy_(made)
    return tile


def is_view(index: Any) -> bool:
    """Whether torch has a view of what an index names: it is of numbers, slices and loops' tiles."""
    items = flatten(index, is_traced, is_size)
    return not any(isinstance(i, (list, tuple)) or (isinstance(i, torch.Tensor) and i.ndim) for i in items)


def _taken(tile: torch.Tensor, whole: Part | None, found: IndexedElements, is_stored: bool) -> torch.Tensor:
    """``tile``, which brackets give of a tensor, or of its part ``whole``, with its place in memory noted."""
    place = found.view()
    if place is None:
        return tile
    part = take(tile, place, whole, found.is_outside)
    if is_stored:
        part.store()
    return tile


def write(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """``tensor[index] = value``. Raises TraceError for a tile in registers."""
    check_assigned(tensor, index, value)
    place = place_of_store(tensor) if hasattr(tensor, "tileflow_kept") else None
    if place is None:
        return IndexedElements(tensor, index).write(value)
    value = value.clone() if isinstance(value, torch.Tensor) and part_of(value) is not None else value
    return None if is_outside(tensor) else IndexedElements(place, index).write(value)


def check_assigned(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """Raises TraceError where ``tensor[index] = value`` is of a tile in registers, whatever the value is."""
    kept: tuple[bool, ...] | None = getattr(tensor, "tileflow_kept", None)
    if kept is None or part_of(tensor) is not None:
        return
    site = caller()
    view = instead_of_a_view(linecache.getline(site.file, site.line), kept)
    general = instead_of_assignment(index, tensor.ndim, value.ndim if isinstance(value, torch.Tensor) else 0)
    raise TraceError(ASSIGNED, got=f"a tile of shape {tuple(tensor.shape)}", hint=view or general)


def view_of(name: str, tensor: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A view of a captured tensor; by a scalar of the kernel what brackets give."""
    if name in BY_ITEM and any(isinstance(x, (DeviceInt, torch.Tensor)) for x in (*args, *kwargs.values())):
        return read(tensor, by_item(name, tensor.ndim, args, kwargs))
    return taken(tensor, spelled_view(name, args, kwargs, "x"), "x")


def memory_of(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor that one of the language's functions reads or writes by an index: of a part of one, its place in
    memory. Raises TraceError for a tile of its own. ``what``: the function, and what it does."""
    if is_captured(tensor):
        return tensor
    place = place_of_store(tensor)
    if place is None:
        raise TraceError(outside(what), got=f"a tile of shape {tuple(tensor.shape)}", hint=and_the_index(what))
    return place
