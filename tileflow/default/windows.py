"""First block sizes of regions that read windows: several loads whose lanes are some elements apart in memory.

A block of many elements gives each thread neighbours, stored as one vector. Loads of every second element then touch as
many sectors as there are lanes, and each of a window's loads touches them anew. So a thread has few elements, fewer the
more loads there are of each. Measured on an H200 for windows of 8 to 27 elements, two and three apart: pooling at 2 to
9 times the speed that vectors of the store had.

A row that fits is taken whole: lanes past its end read nothing and cost little, where each program more costs its
start, and each edge of a block the sectors that its neighbour reads too. Maxima of 3 x 3, float32 and bfloat16, beside
the blocks with the fewest idle lanes (by hand, H200, 2026-11-24): rows of 73 results at 1.30 and 1.34 times the speed
in 2 x 128 beside 8 x 32, of 129 results at 1.25 and 1.48 times in 2 x 256 beside 4 x 64, of 224 results at 1.03 and
0.99 times in 2 x 256 beside 1 x 256, of 301 results at 1.05 and 1.23 times in 1 x 512 beside 2 x 128.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ..config import Choice
from ..ir.analysis import likely_turns
from ..ir.attributes import AccessAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..space.knobs import NUM_STAGES, NUM_WARPS
from ..target import Target
from .sizes import pow2

LOADS_IN_FLIGHT = 24  # of a thread: 8 loads of each of 2 or 3 elements, 27 of one
WARPS = 4
WITH_ROWS = 2  # a block of whole rows may have so many times the elements of another
LEAST_RUN = 32  # lanes of a block along memory: a warp
MOST_IDLE = 1.25  # lanes of all tiles of an axis, to those of the best size
MANY_NEIGHBOURS = 16  # loads of a program, from which on a lane has half of its elements
_MOVED = ("add", "sub", "mul")
_BESIDE = ("add", "sub", "minimum", "maximum")


def window_config(ir: KernelIR, target: Target, axes: list[tuple[str, int]]) -> dict[str, Choice]:
    """The knobs of a region of windows. ``axes``: the block symbols and how far each runs, along memory first."""
    each = max(pow2(LOADS_IN_FLIGHT // window_loads(ir) + 1) // 2, 1)
    left = each * WARPS * target.warp_size
    wanted: dict[str, Choice] = {NUM_WARPS.name(ir): WARPS, NUM_STAGES.name(ir): 3}
    for number, (symbol, length) in enumerate(axes):
        takes_rows = number == 0 and len(axes) > 1 and pow2(length) <= WITH_ROWS * left
        size = pow2(length) if takes_rows else fitting(length, left)
        wanted[symbol] = size
        left = WITH_ROWS * left // size if takes_rows and size >= left else max(left // size, 1)
    return wanted


def window_loads(ir: KernelIR) -> int:
    """How many loads take elements some places apart along memory, by an index that the kernel multiplies."""
    return sum(_is_apart(ir, op.inputs, AccessAttrs.of(op)) for op in ir.walk() if op.kind is OpKind.LOAD)


def neighbour_config(ir: KernelIR, sizes: Mapping[str, int], warps: Choice, target: Target) -> dict[str, Choice]:
    """The block along memory, of half as many elements a lane, where a program loads many neighbours of each element:
    no such load is a lane's vector, and of four elements a lane each touches four lines. By hand (H100, 2026-11-26):
    statistics of the last twenty values 346 and 187 us, flows of 5 x 5 pixels 318 and 189, openings of 20 neighbours
    474 and 312, the sides of 70 573 and 505, censuses of 40 1262 and 1195; of five to nine neighbours 189 and 208, 423
    and 516, 61 and 66, and where rows of 128 lie beside each other in a block 347 and 432. Empty for others."""
    counts: Counter[str] = Counter()
    for op, turns in _with_turns(ir, ir.body, 1):
        if op.kind is OpKind.LOAD and (tile := _neighbour_of(ir, op)):
            is_of_a_block = ir.tiles[tile].is_grid and ir.tiles[tile].block.op == "sym"
            counts.update({ir.tiles[tile].block.args[0]: turns} if is_of_a_block else {})
    (block, loads), *_ = counts.most_common(1) or [("", 0)]
    has_two = sizes.get(block, 1) >= 2 * int(warps) * target.warp_size  # for each lane: all lie along memory
    return {block: sizes[block] // 2} if loads >= MANY_NEIGHBOURS and has_two and target.vendor == "nvidia" else {}


def _with_turns(ir: KernelIR, block: Block, turns: int) -> Iterator[tuple[Op, int]]:
    """Every op with how often a program does it."""
    for op in block.ops:
        yield op, turns
        inner = turns * likely_turns(ir, TileAttrs.of(op).tile) if op.kind is OpKind.FOR else turns
        for region in op.regions:
            yield from _with_turns(ir, region, inner)


def _neighbour_of(ir: KernelIR, load: Op) -> str:
    """The tile some places beside which a load takes elements along memory; empty where it takes others."""
    access = AccessAttrs.of(load)
    for item, stride in zip(access.index, ir.tensor(access.tensor).strides, strict=True):
        if isinstance(item, ValueIndex) and item.axes and stride.constant == 1:
            return _moved_tile(ir, load.inputs[item.input])
    return ""


def _moved_tile(ir: KernelIR, index: Operand) -> str:
    """The tile whose index one is, but for what is the same for all lanes."""
    while isinstance(index, Value) and (op := ir.definitions.get(index)) is not None:
        if op.kind is OpKind.TILE_INDEX:
            return TileAttrs.of(op).tile
        lanes = [x for x in op.inputs if isinstance(x, Value) and x.dims]
        if op.kind is not OpKind.POINTWISE or PointwiseAttrs.of(op).fn not in _BESIDE or len(lanes) != 1:
            break
        (index,) = lanes
    return ""


def fitting(length: int, most: int) -> int:
    """The largest power of two, at most ``most``, whose tiles over ``length`` have few idle lanes."""
    sizes = [1 << n for n in range(min(most, pow2(length)).bit_length())]
    sizes = [size for size in sizes if size >= LEAST_RUN] or sizes[-1:]
    lanes = {size: -(-length // size) * size for size in sizes}
    return max(size for size in sizes if lanes[size] <= MOST_IDLE * min(lanes.values()))


def _is_apart(ir: KernelIR, inputs: tuple[Operand, ...], attrs: AccessAttrs) -> bool:
    strides = ir.tensor(attrs.tensor).strides
    return any(
        isinstance(item, ValueIndex) and item.axes and stride.constant == 1 and _is_multiple(ir, inputs[item.input])
        for item, stride in zip(attrs.index, strides, strict=True)
    )


def _is_multiple(ir: KernelIR, index: Operand) -> bool:
    """Whether an index is a tile's, multiplied, and perhaps moved."""
    found = False
    while isinstance(index, Value):
        op = ir.definitions.get(index)
        if op is None or op.kind is OpKind.TILE_INDEX:
            return found and op is not None
        if op.kind is not OpKind.POINTWISE or PointwiseAttrs.of(op).fn not in _MOVED:
            return False
        found |= PointwiseAttrs.of(op).fn == "mul"
        index = next((x for x in op.inputs if isinstance(x, Value) and x.dims), op.inputs[0])
    return False
