"""First blocks of rows of unequal length: loops whose bounds are loaded, of a ragged or of a filled tensor.

Such a row is short beside a program of several warps, which has more to do for a sum across them than for its turns. A
ragged one begins anywhere as well, so that turns which are loaded ahead are copied element by element, each with an
address and a mask in registers. Where programs are enough, each is therefore one warp. By hand on an H200 (2026-11-26;
docs/measurements/default-rules.md): 1.8 to 7.9 times the speed of four warps three turns ahead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import contiguous_tiles, is_of_loaded_length, is_ragged, mean_length, tile_length
from ..ir.attributes import AccessAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, ValueIndex, once_each, walk
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..passes.roll import is_whole
from ..space.knobs import NUM_STAGES, NUM_WARPS
from ..target import Target
from .sizes import block_symbols, chosen_sizes, pow2, programs

WARPS = 4
STAGES = 2  # a row of up to twice the mean has two turns, of which one is ahead
BUSY = 12  # programs of one warp, of a multiprocessor
LANE_RUN = 16  # elements of a lane, of a turn over numbers
LANE_ELEMENTS = 64  # of one over rows of a matrix
COLUMNS, GATHERED_COLUMNS = 64, 128  # of such rows: next to each other, or each anywhere
MANY_ROWS, FEW_WARPS, AHEAD = 64, 2, 3  # where programs are few, and turns are loaded ahead


def ragged_config(ir: KernelIR, sizes: Mapping[str, int], target: Target) -> dict[str, Choice]:
    """The knobs of a region all of whose loops go over rows of loaded length; empty for others. ``sizes``: of the
    blocks, of which those that no row meets stay."""
    loops = [TileAttrs.of(op).tile for op in ir.walk() if op.kind is OpKind.FOR]
    rows = [ir.tiles[name].block.args[0] for name in loops if ir.tiles[name].block.op == "sym"]
    if not rows or len(rows) < len(loops) or not all(is_of_loaded_length(ir, name) for name in loops):
        return {}
    beside = sorted(_beside(ir, rows))
    mean = max(pow2(mean_length(ir, name)) for name in loops)
    if not beside:
        return _numbers(ir, rows, mean, sizes, target)
    return _matrices(ir, rows, beside[0], mean, sizes, target) if len(beside) == 1 else {}


def _beside(ir: KernelIR, rows: Collection[str]) -> set[str]:
    """The blocks that rows meet in a register tile."""
    tiles = [block_symbols(ir, v) for op in ir.walk() for v in op.outputs]
    return {symbol for tile in tiles if not tile.isdisjoint(rows) for symbol in tile.difference(rows)}


def _numbers(
    ir: KernelIR, rows: Sequence[str], mean: int, sizes: Mapping[str, int], target: Target
) -> dict[str, Choice]:
    count, warps = programs(ir, sizes), 1
    while warps < WARPS and count * warps < BUSY * target.sm_count:
        warps *= 2
    if WARPS * count < BUSY * target.sm_count // 2:
        return {}
    lanes = warps * target.warp_size
    windows = [pow2(tile_length(ir, name)) for name in ir.tiles if _may_overlap(ir, name)]
    block = min(max(mean, min(lanes, *windows) if windows else 1), LANE_RUN * lanes)
    while block * _beside_whole(ir, rows) > LANE_ELEMENTS * lanes and block > 1:
        block //= 2
    return {**_met(ir, rows, block, lanes), NUM_WARPS.name(ir): warps, NUM_STAGES.name(ir): 1}


def _beside_whole(ir: KernelIR, rows: Collection[str]) -> int:
    """Elements that a tile has for each of a row, where rows meet whole dimensions: of heads and their channels, say.
    Edges of a graph by 16, with 3 x 40 numbers each, took a warp 1089 us, and 500 by 8 (H200, 2026-11-30)."""
    tiles = [v.dims for op in ir.walk() for v in op.outputs if not block_symbols(ir, v).isdisjoint(rows)]
    return max((prod(pow2(ir.hint(d.extent)) for d in dims if is_whole(d)) for dims in tiles), default=1)


def _met(ir: KernelIR, rows: Sequence[str], block: int, lanes: int) -> dict[str, int]:
    """The blocks of rows, where each element of one may meet all of another: the outer loops' are as much shorter as a
    lane has too many pairs. Ranks within rings of 119 took 3992 us by 128 x 128, which a warp spills and four were left
    with, and 1176 by 16 x 128 in two (H100, 2026-11-28)."""
    found = dict.fromkeys(rows, block)
    for tile in sorted({block_symbols(ir, v) for op in ir.walk() for v in op.outputs}, key=sorted):
        met = [symbol for symbol in found if symbol in tile]
        for symbol in met[:-1]:
            while prod(found[s] for s in met) > LANE_ELEMENTS * lanes and found[symbol] > 1:
                found[symbol] //= 2
    return found


def _may_overlap(ir: KernelIR, name: str) -> bool:
    """Whether a loop goes over what may be a window: its bounds come of two tensors, so that rows need not share out
    the tensor, and their mean length says nothing. A lane without an element is no faster: of a zone of stars, one by
    one, a warp takes as long for each as for 32."""
    tile = ir.tiles[name]
    begin, end = _loaded_from(ir, tile.begin), _loaded_from(ir, tile.end)
    return is_ragged(ir, name) and begin != end


@once_each
def _loaded_from(ir: KernelIR, value: object) -> frozenset[str]:
    """The tensors whose elements a scalar is made of."""
    op = ir.definitions.get(value) if isinstance(value, Value) else None
    if op is None:
        return frozenset()
    if op.kind is OpKind.LOAD:
        return frozenset({AccessAttrs.of(op).tensor})
    return frozenset(name for operand in op.inputs for name in _loaded_from(ir, operand))


def _matrices(
    ir: KernelIR, rows: Sequence[str], columns: str, mean: int, sizes: Mapping[str, int], target: Target
) -> dict[str, Choice]:
    is_gathered = any(
        isinstance(item, ValueIndex) and item.axes and not block_symbols(ir, op.output).isdisjoint(rows)
        for op in ir.walk()
        if op.kind is OpKind.LOAD
        for item in AccessAttrs.of(op).index
    )
    length = max(tile_length(ir, name) for name, tile in ir.tiles.items() if tile.block == Expr.sym(columns))
    beside = min(pow2(length), GATHERED_COLUMNS if is_gathered else COLUMNS)
    warps, stages, most = 1, 1 if is_gathered else AHEAD, LANE_ELEMENTS * target.warp_size // beside
    if programs(ir, {**sizes, columns: beside}) < BUSY * target.sm_count:
        beside = min(beside, COLUMNS)
        warps, stages, most = FEW_WARPS, AHEAD, MANY_ROWS * COLUMNS // beside
    found = {columns: beside, **dict.fromkeys(rows, max(min(mean, most), 1))}
    return {**found, NUM_WARPS.name(ir): warps, NUM_STAGES.name(ir): stages}


def short_row_config(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """One stage, where each loop that has none inside goes over rows of loaded length of which a turn holds the mean:
    mostly there is no turn to load ahead. Neighbours in 27 cells of seven particles each, 16 a turn: 2751 us and 26 s
    of compiling three turns ahead, 1552 us and 3 s so (H200, 2026-11-30). ``wanted``: the blocks."""
    loops = [TileAttrs.of(op).tile for op in ir.walk() if op.kind is OpKind.FOR and _is_innermost(op)]
    sizes = chosen_sizes(ir, wanted)
    is_short = bool(loops) and all(_fits_a_turn(ir, name, sizes) for name in loops)
    return {NUM_STAGES.name(ir): 1} if is_short and target.vendor == "nvidia" else {}


def _is_innermost(loop: Op) -> bool:
    return all(op.kind is not OpKind.FOR for op in walk(loop.regions[0]))


def _fits_a_turn(ir: KernelIR, name: str, sizes: Mapping[str, int]) -> bool:
    block = ir.tiles[name].block
    is_of_blocks = block.op == "sym"  # not element by element
    return is_of_blocks and is_of_loaded_length(ir, name) and mean_length(ir, name) <= sizes[block.args[0]]


def ragged_limits(ir: KernelIR, sizes: Mapping[str, int], target: Target) -> dict[str, int]:
    """Limits of the blocks of ragged rows along memory: the mean length, and an element for each thread at the least.
    Only those that are below ``sizes``."""
    limits: dict[str, int] = {}
    for name in sorted(contiguous_tiles(ir)):
        block = ir.tiles[name].block
        if block.op != "sym" or not is_ragged(ir, name):
            continue
        limit = max(pow2(mean_length(ir, name)), WARPS * target.warp_size)
        limits[block.args[0]] = max(limit, limits.get(block.args[0], limit))
    return {symbol: limit for symbol, limit in limits.items() if sizes.get(symbol, limit) > limit}
