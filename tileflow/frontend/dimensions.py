"""How the dimensions of tiles meet: two shapes broadcast as torch's, and tiles' lanes meet their own alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from ..errors import ShapeError
from ..expr import is_knob
from ..ir.types import Dim
from ..language.rules import ALIGNED, MEET, ORDER, TURNED
from .alignment import are_turned
from .assumptions import Assumptions


class Dimensions(Assumptions):
    """What dimensions become of several, for what a trace knows of their sizes: those that meet in a launch are
    guarded."""

    def broadcast(self, shapes: Iterable[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The broadcast of several shapes, aligned at the right. Raises ShapeError."""
        shapes = list(shapes)
        try:
            return self._broadcast(shapes)
        except ShapeError as error:
            turned = next(((a, b) for a, b in combinations(shapes, 2) if are_turned(a, b)), None)
            if turned is None:
                raise
            raise ShapeError(ORDER, got=" and ".join(map(show, turned)), where=error.where, hint=TURNED) from error

    def _broadcast(self, shapes: list[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        rank = max((len(s) for s in shapes), default=0)
        result = []
        for axis in range(rank):
            merged: Dim | None = None
            for shape in shapes:
                position = axis - (rank - len(shape))
                if position >= 0:
                    merged = shape[position] if merged is None else self.merge(merged, shape[position])
            assert merged is not None
            result.append(merged)
        return tuple(result)

    def merge(self, a: Dim, b: Dim) -> Dim:
        """One dimension out of two that meet elementwise."""
        if a == b:
            return a
        if a.extent.constant == 1 and a.tile is None:
            return b
        if b.extent.constant == 1 and b.tile is None:
            return a
        if not self.same_size(a.extent, b.extent):
            both = all(any(map(is_knob, e.symbols())) for e in (a.extent, b.extent))
            raise ShapeError(
                MEET,
                got=f"{a} and {b}",
                where=self.location(),
                hint="give both loops the same block size with tfl.register_block_size" if both else ALIGNED,
            )
        if a.tile and b.tile and a.tile != b.tile:
            raise ShapeError(
                "tiles of two different loops never meet elementwise",
                got=f"{a} and {b}",
                where=self.location(),
                hint="combine them as an outer product, x[:, None] and y[None, :], or index both by one tile",
            )
        if a.tile and b.tile and a.step != b.step:
            raise ShapeError(
                "a tile's lanes meet elementwise in one order",
                got=f"{a} and {b}",
                where=self.location(),
                hint="join or repeat both tiles alike",
            )
        return a if a.tile else b


def show(dims: tuple[Dim, ...]) -> str:
    """``[tile_m, 128]``."""
    return "[" + ", ".join(map(str, dims)) + "]"
