"""What the constraints of warp-specialised schedules are made with, whatever their structure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..config import Constraint, Direction
from ..expr import Expr
from ..ir.attributes import TileAttrs
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..schedule.types import ROWS_OF_A_GROUP

Repair = tuple[tuple[str, Direction], ...]


def schedule_constraint(name: str, check: Expr, repair: Repair, reason: str) -> Constraint:
    """A constraint whose name says that it is one of warp-specialised schedules."""
    return Constraint(f"warp_specialised: {name}", check, repair, reason)


def block_steps(size: Expr, direction: Direction) -> Repair:
    """The repair that moves a size in one direction, by the block sizes that it is made of."""
    return tuple((name, direction) for name in sorted(size.symbols()) if name.startswith("block:"))


def rows_of_groups(rows: Expr, groups: Sequence[int]) -> Iterator[Constraint]:
    """A tile has the rows of one of so many consumer groups."""
    least, most = ROWS_OF_A_GROUP * min(groups), ROWS_OF_A_GROUP * max(groups)
    reason = f"consumer groups of {ROWS_OF_A_GROUP} rows: there are {' or '.join(map(str, groups))}"
    yield schedule_constraint("rows of a group", Expr.of(least).le(rows), block_steps(rows, "up"), reason)
    yield schedule_constraint("rows of all groups", rows.le(most), block_steps(rows, "down"), reason)


def ends_with_rows(ir: KernelIR, keys: str, rows: str) -> bool:
    """Whether a loop ends where a tile of rows does."""
    end = ir.tiles[keys].end
    maker = ir.definitions.get(end) if isinstance(end, Value) else None
    return maker is not None and maker.kind is OpKind.TILE_END and TileAttrs.of(maker).tile == rows
