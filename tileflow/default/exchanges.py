"""Warps of programs whose lanes exchange what they have again and again: each exchange of several warps is two barriers
and a way through shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ..config import Choice
from ..ir.attributes import AccessAttrs, AxisAttrs
from ..ir.graph import KernelIR, Op, TileIndex, walk
from ..ir.kinds import OpKind
from ..ir.types import Dim, Value, itemsize
from ..space.knobs import NUM_WARPS
from ..target import Target
from .sizes import pow2, programs

WARPS = 4  # of which some are given up
FEW = 2
BUSY = 2  # programs of a multiprocessor
EXCHANGES = 4  # from which on fewer warps are faster
IN_A_LANE = 8  # elements that a lane reduces itself
MOST_LIVE = 4  # tiles in two warps' registers
MOST_LIVE_ROWS = 5  # beside which a warp is alone with its rows
MOST_LIVE_UNSTORED = 6  # where no row is stored
LONG_ROW = 60  # elements
CHOSEN = 4  # halves or quarters of a row, of which one is chosen by a sum
LEAST_OF_A_LANE = 16  # elements of a program that is one warp
SHORT_COLUMN = 128  # elements
MOST_OF_A_COLUMN = 128  # registers of a lane that sorts one
ROUND_OF_A_LANE = 64  # elements of the tiles that a warp alone reduces in each turn
LEAST_OF_A_ROUND = 8  # of one such tile: a lane would hold a smaller one by itself
_COLLECTIVE = frozenset({OpKind.REDUCE, OpKind.SCAN, OpKind.COMBINE, OpKind.COMBINE_SCAN, OpKind.SORT, OpKind.GATHER})
_BESIDE_ROUNDS = frozenset({OpKind.LOAD, OpKind.STORE, OpKind.ATOMIC, OpKind.FOR, OpKind.WHILE, OpKind.DOT})


def lone_warp_config(ir: KernelIR, sizes: Mapping[str, int], warps: Choice, target: Target) -> dict[str, Choice]:
    """One warp, or two, in place of more, where turns of loops compute no more than these have lanes, which others
    would only repeat: a volatility's likelihood over 1000 steps took 15.2 ms by four and 4.5 by one (H100, 2026-11-26),
    epidemics of 64 regions a program 520 us by four and 289 by two (2026-11-28)."""
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    most = max((_most(ir, sizes, loop) for loop in loops), default=WARPS * target.warp_size)
    enough = max(most // target.warp_size, 1)
    is_less = enough < WARPS and isinstance(warps, int) and enough < warps
    return {NUM_WARPS.name(ir): enough} if is_less and _is_busy(ir, sizes, target) else {}


def exchange_config(
    ir: KernelIR, sizes: Mapping[str, int], live: int, warps: Choice, target: Target
) -> dict[str, Choice]:
    """Two warps in place of four, where a program without loops reduces again and again. By four and by two on an H100
    (2026-11-26): reads' qualities 3926 and 3097 us, an autocorrelation 843 and 727, rays through a volume 268 and 164;
    of a series' deepest fall 144 and 150. ``live``: tiles at a time."""
    has_loop = any(op.kind is OpKind.FOR for op in ir.walk())
    if warps != WARPS or live > MOST_LIVE or has_loop or not _is_busy(ir, sizes, target):
        return {}
    return {NUM_WARPS.name(ir): FEW} if len(list(_exchanges(ir, sizes))) >= EXCHANGES else {}


def row_warp_config(
    ir: KernelIR, sizes: Mapping[str, int], live: int, warps: Choice, target: Target
) -> dict[str, Choice]:
    """One warp for its share of the rows that four would exchange, where all of what a program reduces are whole rows:
    each lane holds as much, and no row waits for another's warps. Of 60 kernels that exchange (H100, by hand,
    2026-11-26) 13 such ones took 0.26 to 1.03 of the time: maxima of groups of 128 761 and 199 us, deltas of 128
    summed up 271 and 70, reads of 151 qualities 3133 and 1655; what sums over rows, too, took up to 6.9 times as long.
    Since then (2026-11-28) rows of which halves are chosen: Fourier transforms of 1024 53.5 ms by four warps and 12.8
    by one; and six tiles where no row is stored: gains of loudspeakers 110 us and 43, while survival curves, which
    are, took 157 and 196. Empty for others."""
    most = MOST_LIVE_ROWS if _stores_rows(ir) else MOST_LIVE_UNSTORED
    if warps != WARPS or live > most or not _is_busy(ir, sizes, target):
        return {}
    widest, now = max(((s, sizes.get(s, 1)) for s in _row_blocks(ir)), key=lambda its: its[1], default=("", 1))
    if now < FEW:
        return {}
    others = max(_elements(ir, sizes, v) for op in ir.walk() for v in op.outputs) // now
    least = pow2(-(-LEAST_OF_A_LANE * target.warp_size // others))
    return {widest: max(now // WARPS, min(least, now)), NUM_WARPS.name(ir): 1}


def column_config(
    ir: KernelIR, sizes: Mapping[str, int], live: int, warps: Choice, target: Target
) -> dict[str, Choice]:
    """Two warps and a block of twice as many neighbours in place of four warps, where a program without loops reduces
    short whole dimensions in front of them: a lane has four times as much of them, and fewer partial results to
    exchange. On an H100 (2026-11-27) a norm over 96 channels took 167 us by four and 107 so; anomalies of 32 seasons
    130 both ways. Empty for others."""
    if warps != WARPS or live > MOST_LIVE or any(op.kind is OpKind.FOR for op in ir.walk()):
        return {}
    found = [_columns(ir, sizes, op) for op in ir.walk() if op.kind is OpKind.REDUCE]
    if not found or len(set(found)) > 1 or not (block := found[0]):
        return {}
    wider = {block: 2 * sizes[block]}
    return {**wider, NUM_WARPS.name(ir): FEW} if _is_busy(ir, {**sizes, **wider}, target) else {}


def sorted_column_config(
    ir: KernelIR, sizes: Mapping[str, int], live: int, warps: Choice, target: Target
) -> dict[str, Choice]:
    """One warp with a whole column in each lane, where a program without loops sorts columns: what lies beside a column
    in memory are its neighbours, which lanes take first, so that several warps would share a column and meet in each of
    its sort's steps. Scores of an ensemble of 51 took 6464 us by four warps over 32 columns, and 388 by one (H200,
    2026-11-29). Empty for others, and where a column takes more than half of a lane's registers."""
    columns = [op.values[0] for op in ir.walk() if op.kind is OpKind.SORT]
    if not columns or any(op.kind is OpKind.FOR for op in ir.walk()):
        return {}
    beside = {block for column in columns for block in _blocks_beside(ir, column)} & sizes.keys()
    others = {s for column in columns for d in column.dims[:-1] for s in d.extent.symbols()} & sizes.keys()
    if len(beside) != 1 or not all(column.dims[-1].extent.symbols() <= ir.hints.keys() for column in columns):
        return {}
    (block,) = beside
    longest = max(_length(ir, sizes, column.dims[-1]) for column in columns)
    registers = longest * max(itemsize(column.type.dtype) for column in columns) // 4
    alone = {**dict.fromkeys(others, 1), block: target.warp_size * max(LEAST_OF_A_LANE // longest, 1)}
    is_held = registers <= MOST_OF_A_COLUMN and _is_busy(ir, {**sizes, **alone}, target)
    return {**alone, NUM_WARPS.name(ir): 1} if is_held else {}


def _blocks_beside(ir: KernelIR, column: Value) -> Iterator[str]:
    """The blocks that index the nearest elements of the tensors which a sorted value is made of."""
    waiting, seen = [column], set[Value]()
    while waiting:
        value = waiting.pop()
        op = ir.definitions.get(value)
        if op is None or value in seen:
            continue
        seen.add(value)
        if op.kind is not OpKind.LOAD:
            waiting += op.values
            continue
        access = AccessAttrs.of(op)
        for item, stride in zip(access.index, ir.tensor(access.tensor).strides, strict=True):
            if isinstance(item, TileIndex) and stride.constant == 1:
                yield from ir.tiles[item.tile].block.symbols()


def rounds_config(
    ir: KernelIR, sizes: Mapping[str, int], live: int, warps: Choice, target: Target
) -> dict[str, Choice]:
    """One warp and as many whole tiles as it has registers for, in place of four warps, where the turns of a loop load
    nothing and reduce whole tiles along two dimensions: rounds of a game, pairs of bodies. By four warps and by one, of
    as much a lane (H100, by hand, 2026-11-27): players of 32 x 32 games 551 and 170 us, nine planets' steps 14.3 and
    5.7 ms, 2 of either a program. Empty for others, and where tiles are small enough for a lane."""
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    if warps != WARPS or live > MOST_LIVE or not loops or not all(map(_is_round, loops)):
        return {}
    reduced = [op for loop in loops for op in walk(loop.regions[0]) if op.kind is OpKind.REDUCE]
    axes = {len(op.values[0].dims) - AxisAttrs.of(op).axis for op in reduced}
    blocks = {s for op in reduced for d in op.values[0].dims for s in d.extent.symbols() - ir.hints.keys()}
    if len(axes) < 2 or len(blocks) != 1 or not blocks <= sizes.keys():
        return {}
    (block,) = blocks
    whole = max(_elements(ir, sizes, op.values[0]) for op in reduced) // sizes[block]
    mine = {block: max(ROUND_OF_A_LANE * target.warp_size // whole, 1)}
    if not LEAST_OF_A_ROUND * target.warp_size <= whole <= ROUND_OF_A_LANE * target.warp_size:
        return {}
    return {**mine, NUM_WARPS.name(ir): 1} if _is_busy(ir, {**sizes, **mine}, target) else {}


def _is_round(loop: Op) -> bool:
    """Whether the turns of a loop have all that they need in registers, and leave it there."""
    return not any(op.kind in _BESIDE_ROUNDS for op in walk(loop.regions[0]))


def _columns(ir: KernelIR, sizes: Mapping[str, int], op: Op) -> str:
    """The block of neighbours behind a short whole dimension that an op reduces; empty for others."""
    *_, last = dims = op.values[0].dims
    reduced, block = dims[AxisAttrs.of(op).axis], last.extent.args[0] if last.extent.op == "sym" else ""
    if reduced == last or not reduced.extent.symbols() <= ir.hints.keys() or block not in sizes:
        return ""
    return block if IN_A_LANE * FEW <= _length(ir, sizes, reduced) <= SHORT_COLUMN else ""


def _row_blocks(ir: KernelIR) -> set[str]:
    """The blocks of rows, where everything that lanes exchange is along whole rows, and some of these are long."""
    found, longest = set[str](), 0
    for op in ir.walk():
        if op.kind is OpKind.SPLIT and _is_turned(ir, op.values[0]):  # halves of a row, which other lanes have
            whole = [d for d in op.values[0].dims if d.extent.symbols() <= ir.hints.keys()]
            longest = max(longest, prod(ir.hint(d.extent) for d in whole))
            found |= {s for d in op.values[0].dims for s in d.extent.symbols() - ir.hints.keys()}
            continue
        if op.kind not in _COLLECTIVE or not op.values:
            continue
        axis = AxisAttrs.of(op).axis
        outer, (dim, *behind) = op.values[0].dims[:axis], op.values[0].dims[axis:]
        is_whole = all(d.extent.symbols() <= ir.hints.keys() for d in (dim, *behind))
        if not is_whole or (behind and ir.hint(dim.extent) > CHOSEN):
            return set()
        longest = max(longest, prod(ir.hint(d.extent) for d in (dim, *behind)))
        found |= {s for d in outer for s in d.extent.symbols() - ir.hints.keys()}
    return found if longest >= LONG_ROW else set()


def _is_turned(ir: KernelIR, value: Value) -> bool:
    """Whether the dimensions of a value lie in another order than before."""
    op = ir.definitions.get(value)
    return op is not None and op.kind is OpKind.PERMUTE


def _stores_rows(ir: KernelIR) -> bool:
    """Whether a program stores whole rows as it holds them: by one warp, lines at a time, beside all that it keeps."""
    stored = [op.inputs[0] for op in ir.walk() if op.kind is OpKind.STORE]
    lasts = [value.dims[-1].extent for value in stored if isinstance(value, Value) and len(value.dims) > 1]
    return any(extent.symbols() <= ir.hints.keys() and ir.hint(extent) >= LONG_ROW for extent in lasts)


def _is_busy(ir: KernelIR, sizes: Mapping[str, int], target: Target) -> bool:
    """Whether the warps of one program are not all that a multiprocessor has; on the devices where it was measured."""
    return target.vendor == "nvidia" and programs(ir, sizes) >= BUSY * target.sm_count


def _exchanges(ir: KernelIR, sizes: Mapping[str, int]) -> Iterator[Op]:
    """The ops for which lanes need others' elements."""
    for op in ir.walk():
        if op.kind in _COLLECTIVE and op.values:
            axis = AxisAttrs.of(op).axis
            if _length(ir, sizes, op.values[0].dims[axis]) > IN_A_LANE:
                yield op


def _most(ir: KernelIR, sizes: Mapping[str, int], loop: Op) -> int:
    """Elements of the largest tile of a turn."""
    (turn,) = loop.regions
    return max((_elements(ir, sizes, v) for op in walk(turn) for v in op.outputs), default=1)


def _elements(ir: KernelIR, sizes: Mapping[str, int], value: Value) -> int:
    return prod(_length(ir, sizes, dim) for dim in value.dims)


def _length(ir: KernelIR, sizes: Mapping[str, int], dim: Dim) -> int:
    known = {**ir.hints, **sizes}
    return pow2(dim.extent.evaluate(known)) if dim.extent.symbols() <= known.keys() else 1
