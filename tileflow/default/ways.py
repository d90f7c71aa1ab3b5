"""The ways of a warp-specialised product: its tile, and how many blocks of a cluster share the turns of one.

What each takes follows from how many turns the busiest multiprocessor has, of so many nanoseconds. These are read from
856 timed ways of products of 31 sizes, in float32 and bfloat16 and three layouts (H100, 2026-11-28, torch 2.11, Triton
3.6.0; docs/data/shared-turns-h100.json), and for float32 from 240 of 17 sizes since (H200, 2026-11-29;
docs/data/split-ways-h200.json).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..config import Choice
from ..expr import Expr, is_knob
from ..ir.analysis import tile_length
from ..ir.attributes import site_of
from ..ir.graph import KernelIR
from ..ir.types import itemsize
from ..schedule.memory import OVERHEAD
from ..schedule.product import PIECE_BYTES
from ..schedule.single import Single
from ..space.knobs import CONSUMERS, GROUP, LOOP_CTAS, NUM_STAGES, PING_PONG, PRECISION
from ..space.names import loop_site
from ..space.shared_turns import shares_turns
from ..space.split_schedules import PARTS
from ..target import Target
from .sizes import length_over, programs, programs_over, symbol, times

BAND = 8
BLOCKS = (1, 2, 4, 8)
TURN_BYTES = 128  # of a row of an operand, in a turn
# what blocks take to meet, give each other sums and add them up, and for so many sums of a tile more
JOIN_NS, SUMS_NS, SUMS = 600, 120, 1000
# Blocks for each multiprocessor that run at once: the hardware places a cluster in one group of 16 or 18
# multiprocessors. 120 blocks of clusters of four and of eight ran at once, 128 in two waves. Where two blocks fit a
# multiprocessor, those of clusters ran beside each other at some sizes alone.
_AT_ONCE = {1: 1.0, 2: 1.0, 4: 0.91, 8: 0.91}
_RESERVED = 1024  # bytes of a block's shared memory that the driver has


@dataclass(frozen=True, slots=True)
class Tile:
    """``groups``: of consumers, which share its rows. ``turn_ns``: of a turn, of a tile that has a multiprocessor for
    itself; ``beside_ns``: the same of each of two, where two fit, else 0."""

    rows: int
    columns: int
    groups: int
    turn_ns: int
    beside_ns: int = 0

    @property
    def at_once(self) -> int:
        """How many a multiprocessor has."""
        return 2 if self.beside_ns else 1


# float32 in parts: shared memory is the bound, and a group of 64 rows by 128 columns reads least for its products
IN_PARTS = (Tile(128, 128, 2, 1220), Tile(64, 128, 1, 760), Tile(64, 64, 1, 560, beside_ns=1150))
OF_HALVES = (Tile(128, 128, 2, 340), Tile(128, 64, 2, 200), Tile(64, 64, 1, 170, beside_ns=210))
_MOST_STAGES = {4: 4, 2: 6}  # by the bytes of an element


@dataclass(frozen=True, slots=True)
class Way:
    """``knobs``: those of the schedule, but for the choice of it."""

    tile: Tile
    blocks: int
    knobs: dict[str, Choice]

    @property
    def join_ns(self) -> int:
        """What blocks take to put their sums together."""
        return 0 if self.blocks == 1 else join_ns(self.tile)


def join_ns(tile: Tile) -> int:
    """What the blocks of a cluster take to put the sums of a tile together."""
    return JOIN_NS + SUMS_NS * tile.rows * tile.columns // SUMS


def at_once(target: Target, blocks: int) -> int:
    """How many blocks of clusters of so many run at once."""
    return int(target.sm_count * _AT_ONCE[blocks])


def ways_of(
    ir: KernelIR,
    found: Single,
    target: Target,
    tiles: Sequence[Tile] = (),
    blocks: Sequence[int] = BLOCKS,
    of_any_size: bool = False,
) -> list[Way]:
    """All ways of which more than half a tile lies in the example's result, or ``of_any_size``; none where no knobs
    change a tile's sides alone, and none of operands of 8 bits, which were not measured."""
    if itemsize(found.product.values[0].type.dtype) not in _MOST_STAGES:
        return []
    tiles = tiles or (IN_PARTS if found.is_split else OF_HALVES)
    counts = blocks if shares_turns(ir, found, target) else tuple(n for n in blocks if n == 1)
    full = [tile for tile in tiles if of_any_size or is_half_full(ir, found, tile)]
    made = [_way(ir, found, tile, n, target) for tile in full for n in counts]
    return [way for way in made if way.knobs]


def ends_ns(ir: KernelIR, way: Way, keys: str, target: Target) -> float:
    """When the last of a product's turns is over, in nanoseconds from the first; infinitely late where not all blocks
    of clusters run at once. ``keys``: the loop's tile."""
    count, most = programs(ir, way.knobs) * way.blocks, at_once(target, way.blocks)
    turns = -(-tile_length(ir, keys) // (_block(ir, way, keys) * way.blocks))
    if count <= most:
        return turns * way.tile.turn_ns + way.join_ns
    if way.blocks > 1:
        return math.inf
    waves = -(-count // (way.tile.at_once * most))
    return waves * turns * (way.tile.beside_ns or way.tile.turn_ns)


def ends_over(ir: KernelIR, way: Way, keys: str, target: Target) -> Expr:
    """The same over the call's sizes, of tiles of one block each, of which there are as many as fit."""
    waves = programs_over(ir, way.knobs).cdiv(way.tile.at_once * target.sm_count)
    return waves * length_over(ir, keys).cdiv(_block(ir, way, keys)) * (way.tile.beside_ns or way.tile.turn_ns)


def shared_over(ir: KernelIR, way: Way, keys: str) -> Expr:
    """The same of blocks that all run at once, each by itself on its multiprocessor."""
    return length_over(ir, keys).cdiv(_block(ir, way, keys) * way.blocks) * way.tile.turn_ns + way.join_ns


def all_at_once(ir: KernelIR, way: Way, target: Target) -> Expr:
    """Whether all blocks run at once, as a condition on the call's sizes."""
    return (programs_over(ir, way.knobs) * way.blocks).le(at_once(target, way.blocks))


def soonest(ir: KernelIR, ways: Sequence[Way], keys: str, target: Target) -> Way | None:
    """The way that ends first; None of none."""
    return min(ways, key=lambda way: ends_ns(ir, way, keys, target), default=None)


def _block(ir: KernelIR, way: Way, keys: str) -> int:
    """Numbers that a turn sums over."""
    sizes = {name: choice for name, choice in way.knobs.items() if isinstance(choice, int)}
    return ir.tiles[keys].block.evaluate(sizes)


def sides(ir: KernelIR, found: Single, rows: int, columns: int, inner: int) -> dict[str, Choice]:
    """The knobs of a tile with such sides, and of turns over so many numbers, unless the author chose their length;
    none where no knobs change them alone, as of a whole dimension, which has a size of the call's."""
    block = ir.tiles[found.rows].block
    chosen: dict[str, Choice] = {block.args[0]: rows} if block.op == "sym" else {}
    dims = [(found.columns, columns), (found.inner, inner)]
    free = [(dim, size) for dim, size in dims if dim is not found.inner or dim.extent.constant is None]
    for dim, size in free:
        chosen |= {symbol(dim): max(size // times(dim), 1)} if symbol(dim) else {}
    return chosen if len(chosen) == 1 + len(free) and all(map(is_knob, chosen)) else {}


def is_half_full(ir: KernelIR, found: Single, tile: Tile) -> bool:
    """Whether more than half of a tile lies in the result; of few rows or columns pipelined blocks are as small."""
    sides = ((found.rows, tile.rows), (found.columns.tile, tile.columns))
    return all(name is not None and tile_length(ir, name) > size // 2 for name, size in sides)


def _way(ir: KernelIR, found: Single, tile: Tile, blocks: int, target: Target) -> Way:
    """A way, of a tile that has a multiprocessor for itself where two have no room; without knobs where no knobs change
    its sides alone, or where it does not fit."""
    size = itemsize(found.product.values[0].type.dtype)
    stages = _stages(found, tile, blocks, size, target)
    if stages < 2 and tile.beside_ns:
        tile = replace(tile, beside_ns=0)
        stages = _stages(found, tile, blocks, size, target)
    chosen = sides(ir, found, tile.rows, tile.columns, TURN_BYTES // size)
    if not chosen or stages < 2:
        return Way(tile, blocks, {})
    chosen |= {NUM_STAGES.name(ir): stages, PING_PONG.name(ir): False, CONSUMERS.name(ir): tile.groups}
    if found.is_split:
        chosen[PRECISION.name(site_of(found.product))] = PARTS
    if shares_turns(ir, found, target):
        chosen[LOOP_CTAS.name(loop_site(ir, found.keys))] = blocks
    return Way(tile, blocks, chosen | {GROUP.name(ir): BAND})


def _stages(found: Single, tile: Tile, blocks: int, size: int, target: Target) -> int:
    """As many as fit beside a piece of each group's result and what other blocks give: boxes, and the parts that
    float32 ones are split into."""
    left, right = tile.rows, tile.columns
    if found.is_split:
        left, right = 2 * left, 2 * right
    sums, room = tile.rows * tile.columns * 4, target.smem_per_block
    stored = tile.groups * PIECE_BYTES if blocks == 1 else sums // blocks
    if tile.at_once > 1:
        room = min(room, target.smem_per_sm // tile.at_once - _RESERVED)
    room -= stored + sums - sums // blocks + 2 * OVERHEAD
    return min(room // ((left + right) * TURN_BYTES), _MOST_STAGES[size])
