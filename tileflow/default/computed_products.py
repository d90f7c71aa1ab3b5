"""Where a product whose operand is computed is warp-specialised by default: its tile, and how many parts of its inner
dimension, or blocks of a cluster, share its turns.

The times are of packed 4-bit weights beside 33 to 4096 rows (H200, 2026-11-30, torch 2.11, Triton 3.6.0;
docs/data/computed-products-h200.json, and with blocks computed-blocks-h200.json). What is computed lies along a tile's
rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.types import itemsize
from ..schedule.computed import Computed
from ..schedule.product import PIECE_BYTES
from ..space.knobs import CONSUMERS, GROUP, LOOP_CTAS, NUM_STAGES, PING_PONG
from ..space.names import loop_site
from ..space.shared_turns import MOST_SUMS, shares_turns
from ..target import Target
from .sizes import times
from .ways import BLOCKS, Tile, at_once, is_half_full, join_ns, sides

_BAND = 16  # tiles that take turns along the other side, for the second-level cache
_MOST_STAGES = 6  # fewer where these do not fit, as the space says
_LEAST_COLUMNS = 32  # of the result: beside so few the pipelined kernel is as fast or faster
_PART_NUMBERS = 512  # least that a part sums over
_TURN, _TURN_SHORT = 128, 64  # numbers that a turn sums over: fewer where few stages of boxes would fit
_LEAST_STAGES = 3
_MANY_ROWS, _WIDE = 256, 128
# rows, columns, groups that share the rows, and the nanoseconds of a turn over 128 numbers
_LARGEST = Tile(128, 256, 2, 1340)
_TILES = (
    _LARGEST, Tile(128, 128, 2, 800), Tile(256, 64, 2, 1120), Tile(128, 64, 2, 620), Tile(64, 256, 1, 760),
    Tile(64, 128, 1, 530), Tile(64, 64, 1, 380),
)  # fmt: skip
_TILE_NS = 1500  # of a tile beside its turns
# another launch that adds up parts, and the bytes that it reads of each of their sums and the first one wrote for it
_SECOND_NS, _SUM_BYTES = 2500, 8


@dataclass(frozen=True, slots=True)
class _Way:
    """``ends_ns``: when its last turn is over, from the first one on."""

    tile: Tile
    parts: int
    blocks: int
    programs: int
    ends_ns: float


def computed_config(ir: KernelIR, found: Computed, target: Target) -> dict[str, Choice]:
    """The knobs of the way that ends first; none beside few columns of the result, and where half of the
    multiprocessors would have nothing to do."""
    name = found.columns.tile
    columns = 0 if name is None else tile_length(ir, name)
    if columns <= _LEAST_COLUMNS:
        return {}
    tiles = _tiles(ir, found, columns)
    counts = [(n, 1) for n in _parts_of_authors(ir, found)]
    counts += [(1, n) for n in BLOCKS[1:] if shares_turns(ir, found, target)]
    ways = [_way(ir, found, tile, columns, *each, target) for tile in tiles for each in counts]
    best = min(ways, key=lambda way: way.ends_ns, default=None)
    if best is None or 2 * best.programs < target.sm_count:
        return {}
    chosen = sides(ir, found, best.tile.rows, best.tile.columns, _turn(found, best.tile, target))
    if not chosen:
        return {}
    own: dict[str, Choice] = {NUM_STAGES.name(ir): _MOST_STAGES, PING_PONG.name(ir): False, GROUP.name(ir): _BAND}
    if shares_turns(ir, found, target):
        own[LOOP_CTAS.name(loop_site(ir, found.keys))] = best.blocks
    return chosen | own | {CONSUMERS.name(ir): best.tile.groups} | _count(ir, found, best.parts)


def _tiles(ir: KernelIR, found: Computed, columns: int) -> list[Tile]:
    """The tiles of which more than half lies in the result, and that are no slower than their times say.

    Numbers of two bytes or more are spilled by groups of 128 rows. One group waits twice as long for boxes of many
    rows of which more than an eighth lie past the tensor's end (64 x 256 beside 144 to 192 rows: 1.5 to 1.9 times). It
    waits as well for what the author loads beside the box in each turn, as scales of packed weights: 41 us, where the
    pipelined kernel takes 22 (64 x 8192 x 4096)."""
    (turn,) = found.loop.regions
    loads_beside = any(op.kind is OpKind.LOAD and op in turn.ops for op in found.prepare)

    def is_as_fast(tile: Tile) -> bool:
        if tile.rows == _MANY_ROWS:
            return _box_bytes(found) <= 1
        return tile.groups > 1 or tile.columns < _WIDE or -columns % tile.columns <= tile.columns // 8

    tiles = (_LARGEST,) if loads_beside else _TILES
    return [tile for tile in tiles if is_half_full(ir, found, tile) and is_as_fast(tile)]


def _way(ir: KernelIR, found: Computed, tile: Tile, columns: int, parts: int, blocks: int, target: Target) -> _Way:
    """When the last turn is over: the busiest multiprocessor has so many tiles, one after the other. Blocks of clusters
    all run at once, or their way never ends."""
    block = {found.rows: tile.rows, found.columns.tile: tile.columns}
    axes = [name for name in ir.grid if found.parts is None or name != found.parts.tile]
    programs = parts * blocks * prod(-(-tile_length(ir, name) // block.get(name, 1)) for name in axes)
    turns = -(-_whole(ir, found) // (parts * blocks * _TURN))
    ends = float(-(-programs // target.sm_count) * (_TILE_NS + turns * tile.turn_ns))
    if blocks > 1:
        fits = programs <= at_once(target, blocks) and tile.rows // tile.groups * tile.columns <= MOST_SUMS
        ends = ends + join_ns(tile) if fits else math.inf
    if parts > 1:
        ends += _SECOND_NS + parts * tile_length(ir, found.rows) * columns * _SUM_BYTES / target.dram_gbps
    return _Way(tile, parts, blocks, programs, ends)


def _turn(found: Computed, tile: Tile, target: Target) -> int:
    """How many numbers a turn of a tile sums over."""
    number = tile.rows * _box_bytes(found) + tile.columns * itemsize(found.right.output.type.dtype)
    stages = (target.smem_per_block - tile.groups * PIECE_BYTES) / (number * _TURN)
    return _TURN if stages >= _LEAST_STAGES else _TURN_SHORT


def _box_bytes(found: Computed) -> float:
    """Of what a number of the operand is computed from: a half for packed ones."""
    return itemsize(found.left.output.type.dtype) / times(found.inner)


def _whole(ir: KernelIR, found: Computed) -> int:
    """How many numbers the product sums over, of which an element of the loop's tile may hold two."""
    length = tile_length(ir, found.keys) if found.parts is None else ir.hint(found.parts.whole)
    return length * times(found.inner)


def _parts_of_authors(ir: KernelIR, found: Computed) -> list[int]:
    """How many parts the inner dimension may have: one, unless the author has a tunable for it."""
    if not _count(ir, found, 1):
        return [1]
    return [n for n in (1, 2, 4, 8) if n == 1 or _whole(ir, found) >= n * _PART_NUMBERS]


def _count(ir: KernelIR, found: Computed, parts: int) -> dict[str, Choice]:
    """The author's tunable for the number of parts; none where there is none."""
    end = None if found.parts is None else ir.tiles[found.parts.tile].end
    if not isinstance(end, Expr) or end.op != "sym" or not end.args[0].startswith("tunable:"):
        return {}
    return {end.args[0]: parts}
