"""What a trace knows of tiles besides the ops that made them: what they name in memory, and of which tiles they are
parts or views. :mod:`.parts` says what a part of a tensor is, :mod:`.loaded_parts` reads parts of tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.graph import Op
from ..ir.types import Value
from .values import TileValue

if TYPE_CHECKING:
    from .parts import Run


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


@dataclass(frozen=True, slots=True)
class Taken:
    """Where the author's code takes a part of a tensor, ``x[b]``: the tensor's path, and the instruction that does."""

    path: str
    file: str
    function: str
    line: int
    instruction: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a trace of a region found out at its end, which the next one begins with. ``copied``: paths of the tensors
    of which what was loaded is a copy, since the region writes to them; ``through``: where parts are taken that the
    region stores through, which are no copies."""

    copied: frozenset[str] = frozenset()
    through: frozenset[Taken] = frozenset()

    def and_also(self, other: Found) -> Found:
        """Both."""
        return Found(self.copied | other.copied, self.through | other.through)
