"""The tiles of one product on torch values, for the executor: what one persistent program works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from ..config import Config
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op, Tile
from ..ir.kinds import OpKind
from ..ir.types import Dim
from .chained import is_scalar
from .evaluate import NO_TURN, Environment, Region
from .machine import Registers
from .product import Shape
from .single import Single, is_turned


class ProductProgram(Region):
    """One program of a product as the :class:`~tileflow.schedule.machine.Body` of a schedule.

    ``tiles``: where the grid's tiles begin in each tile that the program works on, in order. ``rows``: of a group;
    ``dealt``: groups have tiles of their own. ``pieces``: of the columns, in which the epilogue is computed and stored.
    ``block``: the number of the one that it is of those of a cluster, where these share a tile's turns.
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
        block: int = 0,
    ) -> None:
        self._found, self._tiles, self._boxes, self._dealt = found, tiles, shape, dealt
        self._block = block
        self._group_rows = self._rows_of_group(found, shape)
        self._piece: int | None = None  # the one that is computed just now
        self._stored: dict[tuple[int, int], dict[int, torch.Tensor]] = {}
        super().__init__(ir, found, config, tensors, scalars, tiles[0], at)

    def _rows_of_group(self, found: Single, shape: Shape) -> int:
        return shape.left[-1 if shape.left_transposed else -2]

    @property
    def turns(self) -> int:
        """How many turns each tile has; of an inner dimension in parts, each part as many, and so each block of a
        cluster."""
        parts = self._found.parts
        if parts is None:
            whole = super().turns
        else:
            whole = -(-self._size(parts.length) // self._size(self._ir.tiles[self._keys].block))
        return -(-whole // self._boxes.blocks)

    def _of_tile(self, turn: int) -> int:
        """The number of a turn among all of its tile, of which each block of a cluster has every so many-th."""
        return turn % self.turns * self._boxes.blocks + self._block

    # ---- what the executor asks for -------------------------------------------------------------

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        """What the copy engine brings of an operand in a turn; ``turn`` counts on over the program's tiles."""
        assert turn is not None
        return self._brought(self._found.left if buffer == "left" else self._found.right, turn, max(group, 0))

    def box_of_part(self, buffer: str, turn: int, part: int) -> torch.Tensor:
        """What it brings of one of several right operands."""
        return self._brought(self._found.rights[part], turn, 0)

    def _brought(self, op: Op, turn: int, group: int) -> torch.Tensor:
        self._enter(turn)
        of_tile = self._of_tile(turn)
        env = self._run(self._found.inside, self._numbers(turn), of_tile, 0)
        found = self._load(op, env, of_tile, group, by_engine=True)
        return found.mT if is_turned(self._ir, op) else found

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> Registers:
        """The registers that the finish of a tile writes, from all its sums."""
        assert turn is not None
        return self._finish(registers, turn, group)

    def compute_piece(self, part: str, registers: Mapping[str, Any], turn: int, group: int, piece: int) -> Registers:
        """The registers that the finish writes of one piece of the columns, from that piece's sums."""
        self._piece = piece
        found = self._finish(registers, turn, group)
        self._piece = None
        return found

    def put(self, value: torch.Tensor, turn: int, piece: int, group: int) -> None:
        """A tile is stored once all its pieces are there; by a block of a cluster, its own piece."""
        if self._boxes.blocks > 1:
            self._piece = piece
            self._put(value, turn, group)
            self._piece = None
            return
        parts = self._stored.setdefault((turn, group), {})
        parts[piece] = value
        if len(parts) == self._boxes.pieces:
            self._put(torch.cat([parts[n] for n in range(len(parts))], dim=-1), turn, group)

    def _put(self, value: torch.Tensor, turn: int, group: int) -> None:
        assert self._found.saved is not None
        self._enter(turn)
        scalars = tuple(op for op in self._found.after if is_scalar(op))
        env = self._run(scalars, self._numbers(turn), NO_TURN, self._part(group))
        self._store(self._found.saved, value, env, self._part(group))

    # ---- parts ----------------------------------------------------------------------------------

    def _finish(self, sums: Mapping[str, torch.Tensor], turn: int, group: int) -> Registers:
        """What follows from the sums of each product, in order."""
        found, part = self._found, self._part(group)
        self._enter(turn)
        env = {**self._numbers(turn), **dict(zip(found.totals, sums.values(), strict=True))}
        for op in found.after:
            if op.kind is OpKind.ATOMIC:  # an addition
                self._store(op, self._value(op.inputs[0], env), env, part, adds=True)
            elif op.kind is not OpKind.STORE:
                env = self._run((op,), env, NO_TURN, part)
            elif op is not found.saved:
                self._store(op, self._value(op.inputs[0], env), env, part)
        if found.saved is None:
            return {}
        value = self._value(found.saved.inputs[0], env)
        return {"result": value.to(self._tensors[AccessAttrs.of(found.saved).tensor].dtype)}

    def _enter(self, turn: int) -> None:
        self._begins = dict(self._tiles[turn // self.turns])
        if self._found.parts is not None:
            self._scalars_outside = self._run(self._found.before, {}, NO_TURN, 0)

    def _numbers(self, turn: int) -> Environment:
        """The numbers in front of the loop, of the tile that has ``turn``."""
        return self._run(self._found.before, {}, NO_TURN, 0)

    def _part(self, group: int) -> int:
        return 0 if self._dealt else group

    # ---- tiles ----------------------------------------------------------------------------------

    def _index(self, tile: Tile, turn: int, group: int) -> torch.Tensor:
        if tile.name == self._rows:
            return self._begin(tile, turn) + group * self._group_rows + torch.arange(self._group_rows)
        if self._piece is not None and tile.name == self._found.columns.tile:
            width = self._size(tile.block) // self._boxes.pieces
            return self._begin(tile, turn) + self._piece * width + torch.arange(width)
        return super()._index(tile, turn, group)

    def _extent(self, dim: Dim) -> int:
        if dim.tile == self._rows:
            return self._group_rows
        whole = super()._extent(dim)
        is_cut = self._piece is not None and dim.tile is not None and dim.tile == self._found.columns.tile
        return whole // self._boxes.pieces if is_cut else whole


def program_tiles(counts: Sequence[tuple[str, int, int]], program: int, programs: int) -> list[dict[str, int]]:
    """The beginnings of the tiles of one of so many programs. ``counts``: of each axis its tile, its length and its
    block, the slowest first."""
    found = [dict[str, int]()]
    for name, length, block in counts:
        found = [{**tile, name: begin} for tile in found for begin in range(0, length, block)]
    return found[program::programs]
