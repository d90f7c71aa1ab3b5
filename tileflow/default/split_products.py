"""Where a float32 product is split by warps of its own by default, and in which way."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import Choice
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR
from ..schedule.single import Single
from ..schedule.split_product import TURN
from ..space.knobs import NUM_WARPS
from ..target import Target
from .copied_operands import is_worth_copying
from .sizes import programs, symbol, times
from .ways import IN_PARTS, Way, ends_ns, soonest, ways_of

# microseconds of a pipelined block of 128 x 64 by itself on a multiprocessor, and of two, or of one as large as two: of
# tf32 parts, which a right operand along the inner dimension has, and of bfloat16 parts
PIPELINED_US = {True: (0.85, 1.6), False: (1.14, 2.0)}
PIPELINED_BLOCK = 128 * 64
NEARLY = 1.1  # of that time: 32 us in place of 35 for 1000 x 1000 x 1000 where both seemed to be as long
FEW_WARPS = 4  # of a pipelined block, of which two share a multiprocessor
ANY_SIZE = IN_PARTS[:2]  # of variants, whose sizes are arguments


def split_config(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """The way that ends soonest, where that is before the pipelined blocks of ``wanted`` end: so many waves of so many
    microseconds a turn. Operands that have boxes of copies alone: where these are worth it
    (:mod:`copied_operands`)."""
    way = soonest(ir, ways_of(ir, found, target), found.keys, target)
    if way is None:
        return {}
    ends = ends_ns(ir, way, found.keys, target)
    if found.copied:
        return dict(way.knobs) if is_worth_copying(ir, found, wanted, ends, target) else {}
    turns = -(-tile_length(ir, found.keys) // TURN)
    return dict(way.knobs) if ends < NEARLY * 1000 * turns * _pipelined_us(ir, found, wanted, target) else {}


def both_tiles(ir: KernelIR, found: Single, target: Target) -> list[Way]:
    """The two tiles of variants; none where no knobs change their sides alone."""
    return ways_of(ir, found, target, ANY_SIZE, blocks=(1,), of_any_size=True)


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
