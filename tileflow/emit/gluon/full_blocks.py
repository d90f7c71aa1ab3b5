"""Parts of a turn that mask lanes past the loop's end: which they are, and what their text without the masks is called.

A mask is 64 comparisons and 64 selections for 64 rows by 128 columns, in every turn, though only the last block of a
loop can be partial. So such a part has two functions, of a full block and of a partial one, and a branch between them
that asks one number of all threads (:class:`~tileflow.schedule.types.IfFull`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ...ir.attributes import WhereMaskAttrs
from ...ir.graph import Op, Tile
from ...ir.kinds import OpKind
from ...schedule.chained import each_op
from .context import GluonContext

Part = TypeVar("Part", str, int)


def part_name(part: str, full: bool) -> str:
    """The function of a part of the author's body; of a turn whose block is ``full`` one of its own."""
    return f"{part}_full" if full else part


def of_full(full: bool) -> str:
    """What a function's comment says besides."""
    return " of a full block" if full else ""


def masked_parts(e: GluonContext, parts: Mapping[Part, Iterable[Op]]) -> frozenset[Part]:
    """The parts of a turn that mask lanes past the loop's end under this config. None where one loads for those lanes
    (scores with a bias): Triton 3.6 ends such a function of its own by an assertion (1000 x 700, static), and spilled
    where the other parts had theirs."""
    tile = e.plan.ir.tiles[e.structure.keys]
    if not e.plan.fills(tile.block) or not e.plan.is_masked(tile.dim):
        return frozenset()
    if any(_loads(tile, op) for ops in parts.values() for op in each_op(ops)):
        return frozenset()
    return frozenset(part for part, ops in parts.items() if any(_masks(tile, op) for op in each_op(ops)))


def _masks(tile: Tile, op: Op) -> bool:
    """Whether an operation masks the lanes of a tile."""
    if op.kind is not OpKind.WHERE_MASK:
        return False
    return any(op.output.dims[axis].tile == tile.name for axis in WhereMaskAttrs.of(op).axes)


def _loads(tile: Tile, op: Op) -> bool:
    """Whether an operation loads for the lanes of a tile."""
    return op.kind is OpKind.LOAD and any(dim.tile == tile.name for dim in op.output.dims)
