"""First blocks of all pairs: what is loaded for one side is shared by many of the other.

A tile of 1 x 1024 pairs loads a number for each pair; a square one of as many loads a sixteenth of that. So blocks are
as for products, though no matrix unit has the algebra: shortest paths, distances, densities, forces. By hand on an H100
(2026-11-26, torch 2.11, Triton 3.6.0; docs/measurements/default-rules.md): 1.3 to 24 times the speed of blocks that
only follow memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.attributes import AccessAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, SliceIndex, TileIndex, walk
from ..ir.kinds import OpKind
from ..ir.pressure import live_tiles
from ..ir.types import Value
from ..passes.roll import roll, rollable
from ..space.knobs import NUM_STAGES, NUM_WARPS
from ..target import Target
from .recurrences import loads_ahead
from .sizes import block_symbols, pow2, programs

Symbols = frozenset[str]


class LargeSquare(NamedTuple):
    """A square of which each lane has 128 or 64 pairs: the fewest loads for each. ``live``: the most values alive at
    once beside which a lane has registers. ``busy``: the warps of a multiprocessor that are enough."""

    sides: tuple[int, int]
    warps: int
    live: int
    busy: int


LARGE_SQUARES = (LargeSquare((64, 128), 2, 3, 24), LargeSquare((64, 64), 1, 5, 24), LargeSquare((32, 64), 1, 5, 8))
SQUARES = ((64, 64), (32, 64), (32, 32), (16, 32), (16, 16))  # the first of which programs are enough
SQUARE_WARPS = (4, 8)  # of one, fewer where that is enough: a thread with more pairs loads less for each
BUSY = 32  # warps of a multiprocessor whose loads hide one another; of 64 that it has room for
LIVE_REGISTERS = 160  # of a thread, for what is there at once
CARRIED = (32, 128)  # pairs that a warp hands from turn to turn
LEAST_SIDE = 8
KEPT = 8  # rows that a program keeps while it goes through all others
KEPT_ELEMENTS = 64  # pairs a lane: each turn's extrema are across lanes, once for so many
MOST_KEPT = 8  # values at a time beside which a lane has registers for them
LANE_SUMS = (4, 4, 4)  # rows, pairs a lane, warps, where lanes sum for themselves: more programs, of fewer registers
SCHEDULERS = 4  # of a multiprocessor
NEARLY = 0.9  # of them have a warp
MOST_WARPS = 8
SHARED = 4  # neighbours of a tile of pairs without a loop that share what is loaded for one
ACROSS = 4  # loads of neighbours that take as long as one of elements that do not lie side by side
LONG = 128  # elements of a block from which on some may be given for that


def pair_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The knobs of a region whose loops, or those that its reductions may become, load one side of their pairs each;
    empty for others."""
    for site in ("", *rollable(ir)):
        looped = roll(ir, site) if site else ir
        if _holds_rows(looped):
            continue
        loops = [(op, tuple(walk(op.regions[0])), outer) for op, outer in _loops(looped, looped.body, _grid(looped))]
        loops = [(op, turn, outer) for op, turn, outer in loops if loads_ahead(op.regions[0], TileAttrs.of(op).tile)]
        for loop, turn, outer in loops:
            if pair := next(_pairs(looped, turn, outer), None):
                own = _own(looped, loop, turn, frozenset(pair))
                return _square(looped, target, pair, own, _are_across(looped, turn, pair))
        for loop, turn, _ in loops:
            if kept := _summed_pairs(looped, loop, turn):
                return _kept(looped, target, *kept, is_written=not site)
    return {}


def carried_pair_config(ir: KernelIR, turns: Sequence[Block], target: Target) -> dict[str, Choice]:
    """The square of a recurrence that hands on pairs of two of the grid's blocks, of which each turn loads the sides: a
    lane keeps many pairs, since all that a turn does for a side is done once for the pairs beside it. 4096 x 8192
    weights between cells that fire took 1620 us by rows of 1024, six turns ahead, 865 by 32 x 128 (H200, found by a
    search, 2026-11-28). Empty for others."""
    for turn in turns:
        pair = next(_pairs(ir, tuple(walk(turn)), _grid(ir)), None)
        if pair and any(block_symbols(ir, p) == frozenset(pair) for p in turn.params):
            sides = {s: min(side, pow2(_length(ir, s))) for s, side in zip(pair, CARRIED, strict=True)}
            while programs(ir, sides) < BUSY * target.sm_count and max(sides.values()) > LEAST_SIDE:
                sides[max(sides, key=sides.__getitem__)] //= 2
            return {**sides, NUM_WARPS.name(ir): 1, NUM_STAGES.name(ir): 1}
    return {}


def pair_limits(ir: KernelIR, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes of the blocks of tiles of pairs, as of all boxes with all: where at least twice as many loads are along one
    block alone as along both, some of the other block share them. Of one box each with 1024 others, a thread loaded
    four numbers for each that it stored (0.45 times the speed on an H200, and half of it for all pairs of bodies)."""
    loads, weighed = _loads(ir, tuple(ir.walk())), _weighed_loads(ir)
    stores = [block_symbols(ir, v) for op in ir.walk() if op.kind is OpKind.STORE for v in op.values[:1]]
    limits: dict[str, int] = {}
    for tile in _tiles(ir, tuple(ir.walk())):
        ones = [s for s in tile if sizes.get(s) == 1 and _length(ir, s) >= SHARED]
        both = sum(tile <= symbols for symbols in (*loads, *stores))
        for symbol in tile - set(ones):
            alone = sum(symbols & tile == {symbol} for symbols in weighed)
            if len(ones) == 1 and alone >= 2 * max(both, 1) and sizes.get(symbol, 1) >= LONG:
                limits[symbol] = sizes[symbol] // SHARED
    return limits


def _holds_rows(ir: KernelIR) -> bool:
    """Whether a register tile has a whole dimension, beside which there is no room for many pairs."""
    dims = (d for op in ir.walk() for v in op.outputs for d in v.dims)
    return any(d.extent.symbols() <= ir.hints.keys() and ir.hint(d.extent) > 1 for d in dims)


def _grid(ir: KernelIR) -> Symbols:
    return frozenset(_block(ir, name) for name in ir.grid) - {""}


def _block(ir: KernelIR, tile: str) -> str:
    """A tile's block symbol; empty for one that has none of its own."""
    block = ir.tiles[tile].block
    return block.args[0] if block.op == "sym" else ""


def _loops(ir: KernelIR, block: Block, outer: Symbols) -> Iterator[tuple[Op, Symbols]]:
    """Each loop with the blocks of the grid and of the loops around it."""
    for op in block.ops:
        if op.kind is OpKind.FOR:
            yield op, outer
        inside = outer | {_block(ir, TileAttrs.of(op).tile)} - {""} if op.kind is OpKind.FOR else outer
        for region in op.regions:
            yield from _loops(ir, region, inside)


def _pairs(ir: KernelIR, turn: Sequence[Op], outer: Symbols) -> Iterator[tuple[str, str]]:
    """The two blocks of ``outer`` of which a turn makes pairs, from loads along each alone."""
    for tile in _tiles(ir, turn):
        pair = tile & outer
        if len(pair) == 2 and _is_of_sides(_loads(ir, turn), pair):
            left, right = (name for name in _tile_blocks(ir) if name in pair)
            yield left, right


def _own(ir: KernelIR, loop: Op, turn: Sequence[Op], pair: Symbols) -> str:
    """The loop's block, where a tile has that beside both: each pair is held for all of it at once."""
    own = _block(ir, TileAttrs.of(loop).tile)
    return own if own and any(pair | {own} <= tile for tile in _tiles(ir, turn)) else ""


def _summed_pairs(ir: KernelIR, loop: Op, turn: Sequence[Op]) -> tuple[str, str] | None:
    """The block that a program keeps and the loop's own, whose pairs each turn sums over the latter."""
    own, grid = _block(ir, TileAttrs.of(loop).tile), _grid(ir)
    if not own or len(grid) != 1:  # others are of one element each, as of a batch
        return None
    (kept,) = grid
    pair = frozenset((kept, own))
    is_summed = any(op.kind is OpKind.REDUCE and block_symbols(ir, op.values[0]) == pair for op in ir.walk())
    return (kept, own) if is_summed and _is_of_sides(_loads(ir, tuple(ir.walk())), pair) else None


def _is_of_sides(loads: Sequence[Symbols], pair: Symbols) -> bool:
    """Whether each side of ``pair`` is loaded alone, and no load is of pairs."""
    return all(any(load & pair == {side} for load in loads) for side in pair) and not any(pair <= s for s in loads)


def _are_across(ir: KernelIR, turn: Sequence[Op], pair: tuple[str, str]) -> bool:
    """Whether each load of a side takes elements that do not lie side by side, a transaction of memory for each."""
    return not any(
        isinstance(item, TileIndex) and _block(ir, item.tile) in pair and stride.constant == 1
        for op in turn
        if op.kind is OpKind.LOAD
        for item, stride in zip(AccessAttrs.of(op).index, ir.tensor(AccessAttrs.of(op).tensor).strides, strict=True)
    )


def _square(ir: KernelIR, target: Target, pair: tuple[str, str], own: str, is_across: bool) -> dict[str, Choice]:
    """A square of pairs, loaded without stages: copies of single elements cost more than they hide, and several
    programs of a multiprocessor hide them anyway. ``own``: the block of three dimensions, of which a turn has one.
    ``is_across``: as :func:`_are_across` says, so that it is loads that take long."""
    live, each = max(live_tiles(ir), 1), {**({own: 1} if own else {}), NUM_STAGES.name(ir): 1}
    found: dict[str, Choice] = {}
    for large in LARGE_SQUARES if is_across else ():
        sizes = dict(zip(pair, large.sides, strict=True))
        found = {**sizes, **each, NUM_WARPS.name(ir): large.warps}
        are_whole = all(_length(ir, s) >= size for s, size in sizes.items())
        is_busy = programs(ir, found) * large.warps >= large.busy * target.sm_count
        if live <= large.live and are_whole and is_busy:
            return found
    for sides in SQUARES:
        blocks = {s: min(size, pow2(_length(ir, s))) for s, size in zip(pair, sides, strict=True)}
        found = {**blocks, **each}
        for warps in SQUARE_WARPS:
            found[NUM_WARPS.name(ir)] = warps
            registers = live * blocks[pair[0]] * blocks[pair[1]] // (warps * target.warp_size)
            if registers <= LIVE_REGISTERS and programs(ir, found) * warps >= BUSY * target.sm_count:
                return found
    return found


def _kept(ir: KernelIR, target: Target, kept: str, own: str, is_written: bool) -> dict[str, Choice]:
    """Few rows and long blocks of the others, in as few warps as there are schedulers for; where no turn reduces, a
    block of few pairs a lane, without stages: five kernels of such sums (rays, bodies, densities, periodograms, waves)
    are at 1.00 to 1.17 of the best of 75 sizes then (H100, by hand, 2026-11-26). Others that are held whole and fill
    half a block at most are rows of a matrix: of three, a program of four rows had 12 pairs for 128 lanes.
    ``is_written``: as a loop, by the author."""
    rows, pairs, warps = min(KEPT, pow2(_length(ir, kept))), _kept_elements(ir), 1
    if not _turns_reduce(ir):
        least, pairs, warps = LANE_SUMS
        rows = min(least, rows)
    count, stages = programs(ir, {kept: rows}), 1 if warps > 1 else 3
    while warps < MOST_WARPS and count * warps < NEARLY * SCHEDULERS * target.sm_count:
        warps *= 2
    others = pairs * warps * target.warp_size // rows
    if not is_written and 2 * pow2(_length(ir, own)) <= others:
        return {}
    return {
        kept: rows,
        own: min(others, pow2(_length(ir, own))),
        NUM_WARPS.name(ir): warps,
        NUM_STAGES.name(ir): stages,
    }


def _turns_reduce(ir: KernelIR) -> bool:
    """Whether lanes meet in a loop, and not behind it alone."""
    turns = (region for op in ir.walk() if op.kind is OpKind.FOR for region in op.regions)
    return any(op.kind is OpKind.REDUCE for turn in turns for op in walk(turn))


def _kept_elements(ir: KernelIR) -> int:
    """Pairs a lane: fewer where many values are alive at once."""
    return KEPT_ELEMENTS if live_tiles(ir) <= MOST_KEPT else KEPT_ELEMENTS // 2


def _loads(ir: KernelIR, ops: Sequence[Op]) -> list[Symbols]:
    return [block_symbols(ir, op.output) for op in ops if op.kind is OpKind.LOAD]


def _weighed_loads(ir: KernelIR) -> list[Symbols]:
    """The same of all of a region, each as often as it takes transactions of memory beside one of neighbours."""
    found: list[Symbols] = []
    for op in ir.walk():
        if op.kind is OpKind.LOAD:
            found += [block_symbols(ir, op.output)] * (1 if _has_neighbours(ir, op) else ACROSS)
    return found


def _has_neighbours(ir: KernelIR, op: Op) -> bool:
    """Whether lanes of a load lie side by side, or are one."""
    access = AccessAttrs.of(op)
    strides = ir.tensor(access.tensor).strides
    pairs = zip(access.index, strides, strict=True)
    return not op.output.dims or any(isinstance(i, TileIndex | SliceIndex) and s.constant == 1 for i, s in pairs)


def _tile_blocks(ir: KernelIR) -> list[str]:
    """The block symbols of the region's tiles, the author's order first."""
    return list(dict.fromkeys(_block(ir, name) for name in ir.tiles))


def _tiles(ir: KernelIR, ops: Sequence[Op]) -> list[Symbols]:
    """The block symbols of each register tile that ops make."""
    found = {block_symbols(ir, v) for op in ops for v in op.outputs if isinstance(v, Value)}
    return sorted(found - {frozenset()}, key=sorted)


def _length(ir: KernelIR, symbol: str) -> int:
    """How far the loops over a block run."""
    return max((tile_length(ir, name) for name, tile in ir.tiles.items() if tile.block == Expr.sym(symbol)), default=1)
