"""What a trace knows of tiles besides the ops that made them: what they name in memory, and of which tiles they are
parts or views. :mod:`.parts` joins indices of parts, :mod:`.loaded_parts` reads parts of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..expr import Expr
from ..ir.graph import IndexItem, Op, SliceIndex
from ..ir.types import Value, is_float
from .values import SymInt, TensorRef, TileValue


@dataclass(frozen=True, slots=True)
class Run:
    """``size`` elements in a row of a dimension of ``whole``, from ``start`` on, a size or a scalar of the kernel."""

    start: Expr | TileValue
    size: Expr
    whole: Expr

    @staticmethod
    def all(size: Expr) -> Run:
        """All of a dimension."""
        return Run(Expr.of(0), size, size)

    @property
    def is_all(self) -> bool:
        """Whether it is all of the dimension."""
        return self.begins_first and self.size == self.whole

    @property
    def begins_first(self) -> bool:
        """Whether its first element is the dimension's."""
        return isinstance(self.start, Expr) and self.start == Expr.of(0)

    @property
    def is_known(self) -> bool:
        """Whether a size says where it begins."""
        return isinstance(self.start, Expr)


@dataclass(frozen=True, slots=True)
class Part:
    """``ref[items]``, with an item for each of the tensor's dimensions: a number, a :class:`Run`, and of what was
    loaded by them a loop's tile or a tile of ints. Numbers give no dimension."""

    ref: TensorRef
    items: tuple[Any, ...]

    @staticmethod
    def named(ref: TensorRef, given: Sequence[Any], items: Sequence[IndexItem]) -> Part:
        """What an index names: ``given`` as it was written, and what it means."""
        return Part(ref, tuple(map(_run, given, items, ref.dims)))

    @property
    def axes(self) -> tuple[int, ...]:
        """The tensor's dimensions that are the part's, in order."""
        return tuple(axis for axis, item in enumerate(self.items) if not is_number(item))

    def replaced(self, axis: int, item: Any) -> Part:
        """Another item in place of one."""
        return Part(self.ref, (*self.items[:axis], item, *self.items[axis + 1 :]))


@dataclass(frozen=True, slots=True)
class Cut:
    """What a tile was cut out of: ``run`` of the dimension ``axis`` of ``source``. ``maker``: the tile's op, by which
    it is known where a trace goes back and gives its number to another."""

    source: TileValue
    axis: int
    run: Run
    maker: Op | None


@dataclass(frozen=True, slots=True)
class Shaped:
    """What a tile is under other dimensions. ``maker``: as of :class:`Cut`."""

    source: Value
    maker: Op | None


def _run(wrote: Any, item: IndexItem, whole: Expr) -> Any:
    """What was written, a slice as a run of elements."""
    if isinstance(wrote, slice) and isinstance(item, SliceIndex):
        return Run(item.start, item.dim.extent, whole)
    return wrote


def is_number(item: Any) -> bool:
    """Whether an item is one number, which gives no dimension."""
    if isinstance(item, TileValue):
        return not item.value.dims and not is_float(item.value.type.dtype) and item.value.type.dtype != "bool"
    return isinstance(item, (int, SymInt)) and not isinstance(item, bool)
