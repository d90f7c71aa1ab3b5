"""What the constraints of warp-specialised schedules are made with, whatever their structure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..config import Constraint, Direction
from ..expr import Expr, all_of
from ..ir.attributes import TileAttrs
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..schedule.types import ROWS_OF_A_GROUP
from .names import is_block

_FEW = 2  # consumer groups
MASKS = 16  # registers of a thread for the masks of a partial block
Repair = tuple[tuple[str, Direction], ...]


def schedule_constraint(name: str, check: Expr, repair: Repair, reason: str) -> Constraint:
    """A constraint whose name says that it is one of warp-specialised schedules."""
    return Constraint(f"warp_specialised: {name}", check, repair, reason)


def block_steps(size: Expr, direction: Direction) -> Repair:
    """The repair that moves a size in one direction, by the block sizes that it is made of."""
    return tuple((name, direction) for name in sorted(size.symbols()) if is_block(name))


def rows_of_groups(rows: Expr, groups: Sequence[int]) -> Iterator[Constraint]:
    """A tile has the rows of one of so many consumer groups."""
    least, most = ROWS_OF_A_GROUP * min(groups), ROWS_OF_A_GROUP * max(groups)
    reason = f"consumer groups of {ROWS_OF_A_GROUP} rows: there are {' or '.join(map(str, groups))}"
    yield schedule_constraint("rows of a group", Expr.of(least).le(rows), block_steps(rows, "up"), reason)
    yield schedule_constraint("rows of all groups", rows.le(most), block_steps(rows, "down"), reason)


def registers_fit(
    needed: Expr, rows: Expr, registers: Mapping[int, int], others: int, masks: Expr, fewer: Repair
) -> Iterator[Constraint]:
    """Scores, operands and sums of a consumer's thread fit the registers that it has: the more groups, the fewer.
    ``registers``: a thread's, by the number of groups; ``others``: what addresses and the like take of them;
    ``masks``: whether a turn may be masked, which takes MASKS more of many groups' threads; ``fewer``: the repair of
    few groups, where many have fewer rows."""
    for name, many in (("registers of a consumer", False), ("registers of many consumers", True)):
        of_these = {groups: most for groups, most in registers.items() if (groups > _FEW) == many}
        taken = needed + masks * MASKS if many else needed
        fits = (rows.ne(ROWS_OF_A_GROUP * groups).or_(taken.le(most - others)) for groups, most in of_these.items())
        having = " or ".join(f"{most} of {groups}" for groups, most in of_these.items())
        reason = f"scores, operands and sums leave {others} of the registers of a consumer's thread ({having} groups)"
        yield schedule_constraint(name, all_of(fits), block_steps(rows, "down") if many else fewer, reason)


def may_be_masked(ir: KernelIR, tile: str, rows: str) -> Expr:
    """Whether blocks of a loop may lie across its end, where that is none of a tile of rows: 1 or 0."""
    loop = ir.tiles[tile]
    if not ir.shape_mode.is_static:
        return Expr.of(1)
    if not (isinstance(loop.begin, Expr) and isinstance(loop.end, Expr)):
        return Expr.of(int(not ends_with_rows(ir, tile, rows)))
    return ((loop.end - loop.begin) % loop.block).ne(0)


def ends_with_rows(ir: KernelIR, keys: str, rows: str) -> bool:
    """Whether a loop ends where a tile of rows does."""
    end = ir.tiles[keys].end
    maker = ir.definitions.get(end) if isinstance(end, Value) else None
    return maker is not None and maker.kind is OpKind.TILE_END and TileAttrs.of(maker).tile == rows


def grows_with_rows(ir: KernelIR, keys: str, rows: str) -> bool:
    """Whether a loop begins at 0 and ends where a tile of rows does, so that it has a turn for each tile."""
    begin, over = ir.tiles[keys].begin, ir.tiles[rows]
    from_start = isinstance(begin, Expr) and begin.constant == 0
    return from_start and ends_with_rows(ir, keys, rows) and isinstance(over.begin, Expr) and over.begin.constant == 0
