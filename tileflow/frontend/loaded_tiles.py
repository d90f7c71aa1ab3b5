"""What a trace knows of tiles besides the ops that made them: what they name in memory, and of which tiles they are
parts or views. :mod:`.loaded_parts` reads parts of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..expr import Expr
from ..ir.graph import Op
from ..ir.types import Value
from .values import TensorRef, TileValue


@dataclass(frozen=True, slots=True)
class Run:
    """``size`` elements in a row of a dimension of ``whole``, from ``start`` on."""

    start: Expr
    size: Expr
    whole: Expr


Loaded = tuple[TensorRef, tuple[Any, ...]]  # the index of a load, an item for each of the tensor's dimensions


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
