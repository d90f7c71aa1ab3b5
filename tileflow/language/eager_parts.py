"""Names of parts of tensors as plain Python: ``ob = out[b]``, and then ``ob[t] = value``, which stores into ``out``.

A part is loaded where it is taken, and what is read alone stays a copy. What ints and slices name is a view in torch: a
tile of it, and each view of that tile, knows its place in memory, and lies there itself where the text stores through
its name, or from the first store through one of them on. What a compiled kernel reads through such a name before is in
memory too; so a name of which the text did not say it, that was read after something else had stored there, and is
stored through later, is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import TraceError
from .captured_views import name_of_view
from .in_place import is_loaded
from .rules import PART_CHANGED, PART_STALE, STALE_HINT, instead_of_changing_a_part

_COPIES = frozenset({"expand"})  # names of views that no store goes through


@dataclass(slots=True, eq=False)
class Part:
    """What is known of the tiles of one part. ``members``: each with its place in memory. ``is_stored``: whether the
    code stores through one, or is known to. ``is_outside``: whether it lies outside the tensor, where nothing is
    stored. ``whole``: the part that it was taken of by brackets."""

    version: int
    is_outside: bool = False
    whole: Part | None = None
    is_stored: bool = False
    is_stale: bool = False  # read when the memory held something else
    members: list[tuple[weakref.ref[torch.Tensor], torch.Tensor]] = field(default_factory=list)

    def join(self, tile: torch.Tensor, place: torch.Tensor) -> None:
        """Another tile of the part, which lies at ``place``."""
        self.members.append((weakref.ref(tile), place))
        tile.tileflow_part = self, place  # type: ignore[attr-defined]
        if self.is_stored:
            tile.data = place

    def store(self) -> None:
        """From here on the tiles lie in memory. Raises TraceError."""
        if self.whole is not None:
            self.whole.store()
        if self.is_stale:
            raise TraceError(PART_STALE, got="one that was read in between", hint=STALE_HINT)
        if self.is_stored or self.is_outside:
            return
        self.is_stored = True
        for known, place in self.members:
            tile = known()
            if tile is not None:
                tile.data = place


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def take(tile: torch.Tensor, place: torch.Tensor, whole: Part | None, is_outside: bool) -> Part:
    """The part of which ``tile`` was loaded, from ``place``; ``whole``: the one that has the brackets, if any."""
    part = Part(_version(place), is_outside or (whole is not None and whole.is_outside), whole)
    part.join(tile, place)
    return part


def part_of(tile: Any) -> tuple[Part, torch.Tensor] | None:
    """The part that a tile is of, and its place in memory; None of others."""
    found: tuple[Part, torch.Tensor] | None = getattr(tile, "tileflow_part", None)
    return found


def place_of_store(tile: torch.Tensor) -> torch.Tensor | None:
    """Where in memory a store through ``tile`` goes; None of a tile of its own."""
    known = part_of(tile)
    if known is None:
        return None
    known[0].store()
    return known[1]


def is_outside(tile: torch.Tensor) -> bool:
    """Whether a tile's part lies outside its tensor."""
    known = part_of(tile)
    return known is not None and known[0].is_outside


def follow(func: Any, args: Any, kwargs: Any, found: Any) -> None:
    """Note that what a view of a tile gave is of the same part."""
    known = part_of(args[0]) if args else None
    name = name_of_view(func)
    if known is None or not name or name in _COPIES:
        return
    part, place = known
    try:
        made = func(place, *args[1:], **kwargs)
    except RuntimeError:  # no view of memory, though one of a tile
        return
    several = isinstance(found, (tuple, list))
    for tile, view in zip(found if several else (found,), made if several else (made,), strict=True):
        if isinstance(tile, torch.Tensor) and _shares(view, place) and tile.shape == view.shape:
            part.join(tile, view)


def _shares(view: torch.Tensor, place: torch.Tensor) -> bool:
    return view.untyped_storage().data_ptr() == place.untyped_storage().data_ptr()


def note_read(func: Any, args: Sequence[Any]) -> None:
    """Note of tiles that ``func`` reads whether the memory that they were loaded from holds something else by now."""
    is_place = func is torch.Tensor.__setitem__ or bool(name_of_view(func))
    for tile in args[is_place:]:
        known = part_of(tile)
        if known is None or known[0].is_stored or known[0].is_outside:
            continue
        part, place = known
        version = _version(place)
        if version != part.version or place.is_inference():
            part.is_stale = part.is_stale or not _equal(tile, place)
            part.version = version


def _equal(tile: torch.Tensor, place: torch.Tensor) -> bool:
    return bool(((tile == place) | ((tile != tile) & (place != place))).all())


def check_kept(name: str, tile: Any) -> None:
    """Raises TraceError where an operator that assigns would give a new tile the name of a part that has dimensions, or
    is stored through: torch would change the tensor."""
    known = part_of(tile)
    if hasattr(tile, "tileflow_place"):
        return
    if known is None:
        if tile.ndim and is_loaded(tile, but_blocks=True):
            raise TraceError(PART_CHANGED, got=name, hint=instead_of_changing_a_part(name))
        return
    if known[0].is_stored or tile.ndim:
        raise TraceError(PART_CHANGED, got=name, hint=instead_of_changing_a_part(name))
