"""First blocks of products of so few rows that they only stream the right operand."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.attributes import TileAttrs, site_of
from ..ir.graph import KernelIR, Op, walk
from ..ir.kinds import OpKind
from ..ir.types import itemsize
from ..space.knobs import NUM_STAGES, NUM_WARPS, TRANSPOSED
from ..target import Target
from .operands import boxes_config, one_matrix, operands_of
from .sizes import chosen_sizes, pow2, programs, symbol, times

FEWEST_ROWS = 64  # of a block that a warp group multiplies
FEWEST_COLUMNS, FEWEST_COMPUTED = 16, 32  # of a block of few rows; where its right operand is computed
STAGES, FEWEST_STAGES = 5, 2
LONG = 16  # turns from which on they may be twice as long
MANY_PROGRAMS = 16  # of a multiprocessor


def few_rows_config(
    ir: KernelIR, op: Op, lengths: list[int], direct: bool, turned: bool, target: Target
) -> dict[str, Choice]:
    """A product of so few rows that it only streams the right operand: narrow blocks, so that every multiprocessor has
    a program, and long ones, so that much is in flight. Transposed, the columns are a warp group's rows.

    Where programs are few still, blocks are narrower, and twice as long where operands are only loaded. By hand on an
    H100 (2026-11-25): 16 x 2048 x 8192 took 26.6 us by 32 programs of 64 columns and takes 18.2 by 128 of 16; 32 x 4096
    x 4096 22.5 and 16.9; 4-bit weights of 4096 columns whose zeros and scales are gathered 411 by 32 programs, 208 by
    64, 135 by 128."""
    a, b = operands_of(op)
    k = (256 if target.vendor == "nvidia" else 128) // itemsize(a.type.dtype)
    dims = a.dims[-2], b.dims[-1], a.dims[-1]

    def sizes(columns: int, inner: int) -> dict[str, Choice]:
        own = zip(dims, (pow2(lengths[0]), columns, inner), strict=True)
        return one_matrix(op) | {symbol(d): max(size // times(d), 1) for d, size in own}

    columns = 64 if direct else 128 if turned else 32
    if direct and 2 * programs(ir, sizes(2 * columns, k)) >= MANY_PROGRAMS * target.sm_count:
        columns *= 2  # where all are busy for long, fewer ones load the left operand less often
    fewest = FEWEST_COLUMNS if direct else FEWEST_COMPUTED
    may_narrow = target.vendor == "nvidia" and not _has_own_parts(ir)
    while may_narrow and columns > fewest and 2 * programs(ir, sizes(columns, k)) <= target.sm_count:
        columns //= 2
    is_narrow = direct and columns < 64 and lengths[2] >= LONG * k
    wanted = sizes(columns, 2 * k if is_narrow else k)
    wanted[TRANSPOSED.name(site_of(op))] = turned and columns >= FEWEST_ROWS
    wanted[NUM_WARPS.name(ir)] = 4
    wanted[NUM_STAGES.name(ir)] = _stages(ir, op, wanted) if target.vendor == "nvidia" else FEWEST_STAGES
    return wanted | (boxes_config(ir, target) if wanted[TRANSPOSED.name(site_of(op))] else {})


def _stages(ir: KernelIR, op: Op, wanted: Mapping[str, Choice]) -> int:
    """No more than the product's loop has turns: the shared memory of others is another program's. Two turns of 128
    tokens of a document in five stages: 399 us by one program a multiprocessor, 244 in two stages (32 x 180 x 128,
    bfloat16, H100, by hand, 2026-11-28)."""
    sizes = chosen_sizes(ir, wanted)
    loops = [loop for loop in ir.walk() if loop.kind is OpKind.FOR and op in walk(loop.regions[0])]
    names = [TileAttrs.of(loop).tile for loop in loops]
    blocks = {name: ir.tiles[name].block for name in names}
    turns = [-(-tile_length(ir, n) // b.evaluate(sizes)) for n, b in blocks.items() if b.symbols() <= sizes.keys()]
    return min(max(*turns, FEWEST_STAGES), STAGES) if turns else STAGES


def _has_own_parts(ir: KernelIR) -> bool:
    """Whether a tunable of the author's says how many programs there are along some axis, as of an inner dimension that
    they sum parts of."""
    ends = [tile.end for name in ir.grid if isinstance((tile := ir.tiles[name]).end, Expr)]
    return any(symbol.startswith("tunable:") for end in ends for symbol in end.symbols())
