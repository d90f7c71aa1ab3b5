"""The tiles of a product of ragged groups on torch values, for the executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch

from ..config import Config
from ..expr import Expr
from ..ir.graph import KernelIR
from ..ir.types import Value
from .evaluate import NO_TURN, Environment, Region
from .evaluate_product import ProductProgram
from .machine import ScheduleFault
from .product import Shape
from .single import Single


class _Numbers(Region):
    """The numbers of a group, which its rows' bounds are among."""

    def __init__(
        self,
        ir: KernelIR,
        found: Single,
        config: Config,
        tensors: Mapping[str, torch.Tensor],
        begins: Mapping[str, int],
        at: Mapping[str, int],
    ) -> None:
        super().__init__(ir, found, config, tensors, {}, begins, at)
        self._found = found

    def blocks(self) -> list[int]:
        """Where each block of the group's rows begins."""
        env = self._run(self._found.frame.numbers, {}, NO_TURN, 0)
        tile = self._ir.tiles[self._found.rows]
        return list(range(self._bound(tile.begin, env), self._bound(tile.end, env), self._size(tile.block)))


class GroupedProgram(ProductProgram):
    """One program of a product of ragged groups as the :class:`~tileflow.schedule.machine.RaggedBody` of a schedule.

    ``tiles``: of :func:`grouped_tiles`. What the copy engine writes is checked to be the tile's own.
    """

    def __init__(
        self,
        ir: KernelIR,
        found: Single,
        config: Config,
        tensors: Mapping[str, torch.Tensor],
        scalars: Mapping[str, float],
        tiles: Sequence[Mapping[str, int]],
        shape: Shape,
        dealt: bool,
        at: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        super().__init__(ir, found, config, tensors, scalars, tiles, shape, dealt, at)
        self._group: Environment = {}

    def is_whole(self, turn: int, group: int) -> bool:
        """Whether a group's part of the tile that has ``turn`` ends where the ragged group does, or before."""
        self._enter(turn)
        last = int(self._index(self._ir.tiles[self._rows], turn, self._part(group))[-1])
        return last < self._end

    def put(self, value: torch.Tensor, turn: int, piece: int, group: int) -> None:
        """A box goes where rows are the tile's own. Raises ScheduleFault for others."""
        if not self.is_whole(turn, group):
            got = f"a box of rows up to the {self._end}th and beyond"
            raise ScheduleFault("foreign", "a box is written over rows of its own tile alone", got, f"turn {turn}")
        super().put(value, turn, piece, group)

    def scatter(self, value: torch.Tensor, turn: int, piece: int, group: int) -> None:
        """Rows that are the tile's own, which a store of the author's is masked to."""
        super().put(value, turn, piece, group)

    @property
    def _end(self) -> int:
        return self._bound(self._ir.tiles[self._rows].end, self._group)

    def _bound(self, bound: Expr | Value, env: Environment) -> int:
        return int(self._group[bound]) if bound in self._group else super()._bound(bound, env)  # type: ignore[index]

    def _enter(self, turn: int) -> None:
        super()._enter(turn)
        self._group = self._run(self._found.frame.numbers, {}, NO_TURN, 0)

    def _numbers(self, turn: int) -> Environment:
        return {**self._group, **self._run(self._found.before, self._group, NO_TURN, 0)}


def grouped_tiles(
    ir: KernelIR,
    found: Single,
    config: Config,
    tensors: Mapping[str, torch.Tensor],
    tiles: Sequence[Mapping[str, int]],
    at: Mapping[str, int] = MappingProxyType({}),
) -> list[dict[str, int]]:
    """The tiles of a program that works on these of the grid: each with every block of its group's rows."""
    return [
        {**tile, found.rows: begin}
        for tile in tiles
        for begin in _Numbers(ir, found, config, tensors, tile, at).blocks()
    ]
