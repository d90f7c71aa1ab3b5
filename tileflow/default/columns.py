"""Columns of matrices that lie by rows: in pieces, so that a program has neighbours of each row, and by few warps where
these meet in each piece."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..config import Choice
from ..ir.analysis import tile_length
from ..ir.attributes import AccessAttrs, AxisAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, TileIndex, walk
from ..ir.kinds import OpKind
from ..ir.op_table import OPS
from ..ir.opdef import Trait
from ..ir.pressure import live_tiles
from ..ir.types import Dim, itemsize
from ..passes.cluster_loops import SharedLoops, shared_loops
from ..space.knobs import NUM_STAGES, NUM_WARPS
from ..target import Target
from .sizes import block_symbols, known_ends, pow2, programs

SECTOR = 32  # bytes that memory moves at least
PIECE = 4096  # elements of a turn of summed columns, by so many warps, with so many turns under way
WARPS, STAGES = 4, 3
NEIGHBOURS, FEWEST_NEIGHBOURS = 32, 4  # of a row
MOST_BLOCKS = 8  # of a cluster, which share a program's turns
BUSY = 0.75  # of the multiprocessors, from which on a program has all neighbours
LONE_NEIGHBOURS, LONE_STAGES = 64, 4  # of a row, and turns under way, of a program that is one warp
LONE_BUSY = 12  # such programs of a multiprocessor, from which on each has all neighbours
LANE_ELEMENTS, LANE_REGISTERS = 64, 256  # of a turn


def tall_dims(ir: KernelIR, live: int, most: int) -> set[Dim]:
    """The whole dimensions that meet a block in register tiles, where that block takes neighbours of a matrix whose
    whole columns would leave it less than a sector of memory: the largest of each of 4096 columns of 32768 numbers took
    1025 us by columns, and 140 by 16 of them in pieces (bfloat16, H100, 2026-11-26). ``live``: tiles at a time.
    ``most``: elements of them all."""
    crowded: set[str] = set()
    for op in ir.walk():
        if op.kind is not OpKind.LOAD or len(op.output.dims) < 2:
            continue
        access = AccessAttrs.of(op)
        tensor = ir.tensor(access.tensor)
        whole = prod(pow2(ir.hint(d.extent)) for d in op.output.dims if _is_whole(ir, d))
        if whole * live * max(SECTOR // itemsize(tensor.dtype), 1) <= most:
            continue
        for item, stride in zip(access.index, tensor.strides, strict=True):
            block = ir.tiles[item.tile].block if isinstance(item, TileIndex) else None
            if block is not None and block.op == "sym" and stride.constant == 1:
                crowded.add(block.args[0])
    tiles = [v.dims for op in ir.walk() for v in op.outputs if not block_symbols(ir, v).isdisjoint(crowded)]
    return {d for dims in tiles for d in dims if _is_whole(ir, d)}


def _is_whole(ir: KernelIR, dim: Dim) -> bool:
    return dim.tile is None and dim.extent.symbols() <= ir.hints.keys()


def shared_column_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """Columns that loops reduce whose turns clusters may share (:mod:`cluster_loops`): as many neighbours of a row as
    leave enough programs for that, and long pieces. Sums of 1048576 x 32 numbers took 1674 us
    a column at a time, 493 with clusters, and 95 by 4 columns, of 100000 x 256 253 and 53 by 32, of 4096 x 3000 98 and
    23 (float32, H100, by hand, 2026-11-27); other reductions: docs/measurements/performance.md, *Few tiles*."""
    found = shared_loops(ir) if target.has_clusters else None
    column = _column_block(found.region, found.tiles) if found is not None else ""
    if found is None or not column or not known_ends(found.region, *found.tiles, *ir.grid):
        return {}
    pieces = {found.rolled} if found.rolled else {str(found.region.tiles[t].block.args[0]) for t in found.tiles}
    lengths = [(name, tile_length(ir, name)) for name in ir.grid]
    others = prod(n for name, n in lengths if ir.tiles[name].block.args[0] != column)
    (length,) = (n for name, n in lengths if ir.tiles[name].block.args[0] == column)
    block = min(NEIGHBOURS, pow2(length))
    while block > FEWEST_NEIGHBOURS and others * -(-length // block) * MOST_BLOCKS < BUSY * target.sm_count:
        block //= 2
    if len(found.loops) > 1 and others * -(-length // block) >= target.sm_count:
        return {}  # columns that are read more than once, of programs enough without clusters
    if column in pieces or max(tile_length(found.region, t) for t in found.tiles) * block <= PIECE:
        return {}
    return {
        column: block,
        **dict.fromkeys(pieces, max(PIECE // (block * pow2(_held(found))), 1)),
        NUM_WARPS.name(ir): WARPS,
        NUM_STAGES.name(ir): STAGES,
    }


def _held(found: SharedLoops) -> int:
    """How many tiles of a turn's size a thread holds at a time, in the loop that has most: what it carries, and loads
    beyond the first."""
    loads = [sum(op.kind is OpKind.LOAD for op in walk(loop.regions[0])) for loop in found.loops]
    return max(len(loop.outputs) + max(n - 1, 0) for loop, n in zip(found.loops, loads, strict=True))


def reduced_column_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """One warp, where each turn of a loop reduces rows of a matrix for each of its columns, and hands on more than sums
    (:func:`shared_column_config`): several would meet in each turn. Where programs are so few that multiprocessors
    would be idle, clusters may share the turns instead. The largest and the sum of what 12288 x 12288 halves lead to
    took 2045 us by eight warps over 16 rows of 128 columns, 409 by eight over 128 of 32, 202 by one over 32 of 32, and
    139 by one over 128 of 16, a sector of memory (H200, 81 configs that a search tried, 2026-11-27). Empty for others,
    and where it was not measured."""
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    shared = shared_loops(ir) if target.has_clusters else None
    are_sums = shared is not None and all(joined.fn == "sum" for joined in shared.joined)
    if target.vendor != "nvidia" or not loops or are_sums:
        return {}
    tiles = {TileAttrs.of(loop).tile for loop in loops}
    columns = {_column_block(ir, (tile,)) for tile in tiles}
    if len(columns) != 1 or "" in columns or not all(_reduces_rows(loop) for loop in loops):
        return {}
    (column,) = columns
    rows = [ir.tiles[t].block.args[0] for t in tiles if ir.tiles[t].block.op == "sym"]
    if column in rows or len(rows) < len(tiles) or not known_ends(ir, *tiles, *ir.grid):
        return {}
    least = max(SECTOR // _narrowest(ir), 1)
    (along,) = (name for name in ir.grid if ir.tiles[name].block.args[0] == column)
    block = min(LONE_NEIGHBOURS, pow2(tile_length(ir, along)))
    while block > least and programs(ir, {column: block}) < LONE_BUSY * target.sm_count:
        block //= 2
    if programs(ir, {column: block}) < BUSY * target.sm_count:
        return {}
    of_a_lane = min(LANE_ELEMENTS, pow2(LANE_REGISTERS // live_tiles(ir) + 1) // 2)
    turn = max(of_a_lane * target.warp_size // block, 1)
    sizes = {ir.tiles[t].block.args[0]: min(turn, pow2(tile_length(ir, t))) for t in tiles}
    return {column: block, **sizes, NUM_WARPS.name(ir): 1, NUM_STAGES.name(ir): LONE_STAGES}


def _reduces_rows(loop: Op) -> bool:
    """Whether each turn of a loop reduces its rows for what lies beside them, and exchanges nothing else."""
    tile = TileAttrs.of(loop).tile
    reduced = [op for op in walk(loop.regions[0]) if OPS[op.kind].traits & Trait.COLLECTIVE]
    if any(op.kind is not OpKind.REDUCE for op in reduced):
        return False
    axes = [(op.values[0].dims, AxisAttrs.of(op).axis) for op in reduced]
    return bool(axes) and all(axis < len(dims) - 1 and dims[axis].tile == tile for dims, axis in axes)


def _narrowest(ir: KernelIR) -> int:
    """The bytes of an element of the matrix that has the shortest ones."""
    loads = [op for op in ir.walk() if op.kind is OpKind.LOAD and len(op.output.dims) > 1]
    return min(itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype) for op in loads)


def _column_block(ir: KernelIR, turns: Sequence[str]) -> str:
    """The block symbol along which neighbours of a row lie, in all matrices that the turns over those tiles load; empty
    where a load is of another kind, or there is none."""
    found = set[str]()
    for op in ir.walk():
        if op.kind is not OpKind.LOAD or len(op.output.dims) < 2:
            continue
        access = AccessAttrs.of(op)
        strides = ir.tensor(access.tensor).strides
        tiles = [
            (i.tile, stride.constant)
            for i, stride in zip(access.index, strides, strict=True)
            if isinstance(i, TileIndex)
        ]
        along = [name for name, stride in tiles if stride == 1]
        by_turn = dict(tiles).keys() & {*turns}
        is_column = len(tiles) == len(op.output.dims) == 2 and along and len(by_turn) == 1 and along[0] not in by_turn
        block = ir.tiles[along[0]].block if is_column else None
        found.add(str(block.args[0]) if block is not None and block.op == "sym" and along[0] in ir.grid else "")
    return found.pop() if len(found) == 1 else ""
