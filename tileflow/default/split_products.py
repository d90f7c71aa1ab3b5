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
from ..space.split_schedules import PARTS, bytes_of_turn, most_sums
from ..target import Target
from .operands import contiguous_along, operands_of
from .sizes import programs, symbol, times

ROWS = 128
THREADS = 128  # of a consumer group
# microseconds of a turn of a tile of so many columns (H100, 2026-11-27, torch 2.11, Triton 3.6.0)
TURN_US = {128: 1.4, 64: 1.02}
# the same of a pipelined block of 128 x 64 by itself on a multiprocessor, and of two, or of one as large as two: of
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
    share the pipelined loop (:mod:`cluster_loops`).

    Operands that threads load have tiles of 128 x 64, at 1.13 times the pipelined speed in the mean of 21 products of
    seven odd sizes (0.89 to 1.42); not where both lie along the inner dimension, whose layout was not measured."""
    a, b = operands_of(found.product)
    if all(found.loaded) and contiguous_along(ir, a, -1) and contiguous_along(ir, b, -2):
        return {}
    widths = [columns for columns in TURN_US if ROWS // GROUPS * columns <= most_sums(found) * THREADS]
    found_by_columns = {columns: _tiles(ir, found, columns, target) for columns in widths}
    if not all(found_by_columns.values()):
        return {}
    narrow = found_by_columns[min(widths)]
    if 2 * programs(ir, narrow) <= target.sm_count or not _is_half_full(ir, found, min(widths)):
        return {}

    def ends_us(columns: int) -> float:
        return -(-programs(ir, found_by_columns[columns]) // target.sm_count) * TURN_US[columns]

    columns = min(widths, key=ends_us)
    is_sooner = any(found.loaded) or ends_us(columns) < _pipelined_us(ir, found, wanted, target)
    return found_by_columns[columns] if is_sooner else {}


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
    turn = bytes_of_turn(found, Expr.of(ROWS), Expr.of(columns), Expr.of(TURN)).constant
    assert turn is not None
    room = target.smem_per_block - GROUPS * PIECE_BYTES - 2 * OVERHEAD
    return max(min(room // turn, MOST_STAGES), 2)
