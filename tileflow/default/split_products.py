"""Where a float32 product is split by warps of its own by default, and in which tiles."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.attributes import site_of
from ..ir.graph import KernelIR
from ..schedule.memory import OVERHEAD
from ..schedule.product import PIECE_BYTES
from ..schedule.single import Single
from ..schedule.split_product import GROUPS, TURN
from ..space.knobs import CONSUMERS, GROUP, NUM_STAGES, NUM_WARPS, PING_PONG, PRECISION
from ..space.split_schedules import PARTS
from ..target import Target
from .copied_operands import is_worth_copying
from .sizes import programs, programs_over, symbol, times

ROWS = 128
# nanoseconds of a turn of a tile of so many columns (H100, 2026-11-27, torch 2.11, Triton 3.6.0)
TURN_NS = {128: 1400, 64: 1020}
# microseconds of a pipelined block of 128 x 64 by itself on a multiprocessor, and of two, or of one as large as two: of
# tf32 parts, which a right operand along the inner dimension has, and of bfloat16 parts
PIPELINED_US = {True: (0.85, 1.6), False: (1.14, 2.0)}
PIPELINED_BLOCK = 128 * 64
FEW_WARPS = 4  # of a pipelined block, of which two share a multiprocessor
MOST_STAGES = 4
BAND = 8


def split_config(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """Tiles of 128 x 128 or 128 x 64, whichever ends sooner, where that is before the pipelined blocks of ``wanted``
    end: so many waves of so many microseconds a turn. Read from 28 products of 12 sizes, of which the choice is the
    best one but for one (0.93 of its speed). Where half the multiprocessors would have no tile, blocks of clusters
    share the pipelined loop (:mod:`cluster_loops`). Operands that have boxes of copies alone: where these are worth it
    (:mod:`copied_operands`)."""
    chosen, turn_ns = tiles_of_parts(ir, found, target)
    if not chosen or not _is_half_full(ir, found, min(TURN_NS)):
        return {}
    if found.copied:
        return chosen if is_worth_copying(ir, found, wanted, chosen, turn_ns, target) else {}
    if 2 * programs(ir, _tiles(ir, found, min(TURN_NS), target)) <= target.sm_count:
        return {}
    ends_ns = -(-programs(ir, chosen) // target.sm_count) * turn_ns
    return chosen if ends_ns < 1000 * _pipelined_us(ir, found, wanted, target) else {}


def tiles_of_parts(ir: KernelIR, found: Single, target: Target) -> tuple[dict[str, Choice], int]:
    """Tiles of 128 x 128 or 128 x 64, whichever end sooner, and what a turn of these takes, in nanoseconds; none where
    no knobs change their sides alone."""
    ways = both_tiles(ir, found, target)
    return min(ways, key=lambda way: -(-programs(ir, way[0]) // target.sm_count) * way[1], default=({}, 0))


def both_tiles(ir: KernelIR, found: Single, target: Target) -> list[tuple[dict[str, Choice], int]]:
    """Each of the two tiles and what a turn of it takes; none where no knobs change their sides alone."""
    ways = [(_tiles(ir, found, columns, target), turn_ns) for columns, turn_ns in TURN_NS.items()]
    return ways if all(tiles for tiles, _ in ways) else []


def other_tiles(
    ir: KernelIR, found: Single, chosen: Mapping[str, Choice], target: Target
) -> tuple[dict[str, Choice], Expr] | None:
    """The tiles of other columns than the ``chosen`` ones, and the condition on a call's sizes under which they end
    sooner; None where the chosen ones are none of ours."""
    sides = (ir.tiles[found.rows].block.args[0], symbol(found.columns))
    ways = both_tiles(ir, found, target)
    others = [way for way in ways if any(way[0][side] != chosen.get(side) for side in sides)]
    if len(others) != 1:
        return None
    (own,) = (way for way in ways if way is not others[0])
    ends = [programs_over(ir, tiles).cdiv(target.sm_count) * turn_ns for tiles, turn_ns in (*others, own)]
    return others[0][0], ends[0].lt(ends[1])


def _is_half_full(ir: KernelIR, found: Single, columns: int) -> bool:
    """Whether more than half of a tile of so many columns lies in the result; of few rows or columns the pipelined
    blocks are as small."""
    sides = ((found.rows, ROWS), (found.columns.tile, columns))
    return all(name is not None and tile_length(ir, name) > size // 2 for name, size in sides)


def _pipelined_us(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> float:
    """What a turn of all pipelined blocks takes, one after the other."""
    alone, beside = PIPELINED_US[found.right_transposed]
    rows, columns = (wanted.get(name, 1) for name in (ir.tiles[found.rows].block.args[0], symbol(found.columns)))
    assert isinstance(rows, int) and isinstance(columns, int)
    share = rows * columns * times(found.columns) / PIPELINED_BLOCK
    blocks = programs(ir, wanted)
    if wanted.get(NUM_WARPS.name(ir)) != FEW_WARPS:
        return -(-blocks // target.sm_count) * beside * share / 2
    whole, rest = divmod(blocks, 2 * target.sm_count)
    last = 0.0 if not rest else beside if rest > target.sm_count else alone
    return (whole * beside + last) * share


def _tiles(ir: KernelIR, found: Single, columns: int, target: Target) -> dict[str, Choice]:
    """The knobs of tiles of so many columns; none where no knobs change its sides alone."""
    block = ir.tiles[found.rows].block
    chosen: dict[str, Choice] = {block.args[0]: ROWS} if block.op == "sym" else {}
    for dim, size in ((found.columns, columns), (found.inner, TURN)):
        chosen |= {symbol(dim): max(size // times(dim), 1)} if symbol(dim) else {}
    if len(chosen) < 3:
        return {}
    stages = _stages(found, columns, target)
    own: dict[str, Choice] = {NUM_STAGES.name(ir): stages, PING_PONG.name(ir): False, CONSUMERS.name(ir): GROUPS}
    return chosen | own | {GROUP.name(ir): BAND, PRECISION.name(site_of(found.product)): PARTS}


def _stages(found: Single, columns: int, target: Target) -> int:
    """As many as fit beside a piece of each group's result: boxes, and the parts that they are split into."""
    left, right = ROWS * (2 + found.left_transposed), columns * (2 + (not found.right_transposed))
    turn = (left + right) * TURN * 4
    room = target.smem_per_block - GROUPS * PIECE_BYTES - 2 * OVERHEAD
    return max(min(room // turn, MOST_STAGES), 2)
