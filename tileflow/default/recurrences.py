"""First blocks of recurrences: loops whose turns need what the turn before left, as a state-space scan step by step.

A turn is short and waits: for its loads, which therefore run several turns ahead, and for each sum over the state that
goes by way of other warps. Where a turn has such sums a program is one warp, which needs no barrier, with few elements
of a tile a lane; programs are enough for a warp of each scheduler. Measured on an H200
(docs/measurements/default-rules.md): 1.3 to 1.9 times the speed of four warps with loads two turns ahead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from ..config import Choice
from ..ir.analysis import stepped_tiles
from ..ir.attributes import AccessAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, TileIndex, walk
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES, OPS
from ..ir.opdef import Trait
from ..ir.types import Dim, Value, itemsize
from ..space.knobs import NUM_STAGES, NUM_WARPS
from ..target import Target
from .lanes import is_long, own_rows_config
from .sizes import chosen_sizes, pow2, programs

LANE_ELEMENTS = 32  # of the largest tile
OWN_LANE_ELEMENTS = 64  # where that is the author's own size
STAGES = 6
FILLING_WARPS = 15  # of a multiprocessor
BUSY_WARPS = 28  # of a multiprocessor
WARPS_OF_ROWS = 3  # of a scheduler
MOST_WARPS = 16
SCHEDULERS = 4  # of a multiprocessor
NEARLY = 0.9  # of them have a warp
LEAST_RUN = 8  # neighbours of a block
FEWEST_ELEMENTS = 4  # of a lane, where a program has more warps than its sums want
SHARING_ELEMENTS = 16  # of a lane, of tiles for which turns load numbers alone
MOST_OF_A_LANE = 8  # numbers that a lane sums by itself
ASYNC_BYTES = 4  # that a lane copies at least, for a copy that need not be waited for
_SUMS = ("add", "maximum", "minimum", "mul", "bitwise_or", "bitwise_and", "bitwise_xor", "logical_or", "logical_and")


def recurrences(ir: KernelIR) -> list[Op]:
    """The loops step by step that can load ahead, and change a tile of theirs by more than one sum or extremum each."""
    return [op for op in ir.walk() if op.kind is OpKind.FOR and _is_recurrence(ir, op)]


def carries_chunks(ir: KernelIR) -> bool:
    """Whether a loop over blocks hands on a tile that is no sum or extremum of what its turns make: each turn waits."""
    for op in ir.walk():
        if op.kind is not OpKind.FOR or ir.tiles[TileAttrs.of(op).tile].block.constant is not None:
            continue
        (turn,) = op.regions
        if any(p.dims and not is_sum(turn, p, r) for p, r in zip(turn.params, turn.results, strict=True)):
            return True
    return False


def recurrence_config(ir: KernelIR, blocks: Mapping[str, int], target: Target) -> dict[str, Choice]:
    """The knobs of recurrences that should not be as for moving bytes. ``blocks``: the sizes for that, which stay where
    no turn sums over the state: lanes that are alone wait for no other warp."""
    stages: dict[str, Choice] = {NUM_STAGES.name(ir): STAGES}
    turns = [loop.regions[0] for loop in recurrences(ir)]
    if not _sums_up(turns):
        own = own_rows_config(ir, target) or _warps_that_load_ahead(ir, turns, blocks, target)
        return stages | (own or _lone_elements(ir, blocks, target))
    if uniform := _uniform_config(ir, turns, target):
        return uniform
    sizes = dict(blocks)
    grid = {ir.tiles[name].block.args[0] for name in ir.grid if ir.tiles[name].block.op == "sym"} & sizes.keys()
    wanted = NEARLY * SCHEDULERS * target.sm_count
    most = (LANE_ELEMENTS if grid else OWN_LANE_ELEMENTS) * target.warp_size
    enough = wanted * (WARPS_OF_ROWS if _are_apart(ir, turns, grid) and target.vendor == "nvidia" else 1)
    while _largest(ir, sizes) > most or programs(ir, sizes) < enough:
        widest = max(grid, key=sizes.__getitem__, default="")
        if not widest or sizes[widest] <= LEAST_RUN:
            break
        sizes[widest] //= 2
    warps = max(pow2(_largest(ir, sizes) // most), 1)
    if 2 * (count := programs(ir, sizes)) <= wanted:
        lanes = pow2(_largest(ir, sizes)) // (FEWEST_ELEMENTS * target.warp_size)
        warps = max(warps, min(pow2(int(wanted) // count), lanes))
    elif enough > wanted and warps == 1 and count >= enough:
        stages = {NUM_STAGES.name(ir): 1}
    return {**sizes, **stages, NUM_WARPS.name(ir): warps}


def busy_config(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """One stage, where a multiprocessor has so many warps of a recurrence without sums that others compute while one
    waits: what loads ahead is left out. Of kernels of others (H100, 2026-11-28) a likelihood of volatilities took 4.52
    ms and 3.69 so, matched pictures 1196 us and 986, a grid of occupied cells 1047 and 916, ten more 0.95 to 1.02 of
    the time. ``wanted``: the blocks and warps."""
    turns = [loop.regions[0] for loop in recurrences(ir)]
    warps = wanted.get(NUM_WARPS.name(ir))
    if not turns or target.vendor != "nvidia" or not isinstance(warps, int) or _sums_up(turns):
        return {}
    is_busy = programs(ir, wanted) * warps >= BUSY_WARPS * target.sm_count
    return {NUM_STAGES.name(ir): 1} if is_busy else {}


def _sums_up(turns: Sequence[Block]) -> bool:
    return any(OPS[op.kind].traits & Trait.COLLECTIVE for turn in turns for op in walk(turn))


def _are_apart(ir: KernelIR, turns: Sequence[Block], blocks: Collection[str]) -> bool:
    """Whether there are blocks, of which turns take no neighbours: rows that each lane reads by itself. A queue at
    several servers took 1513 us by 64 rows a warp and 786 by 16 without stages, a decoder of 8 states 1123 and 833 by
    32 for 64, parcels that are packed 74 and 58 by 8 for 16 (H100, 2026-11-28)."""
    accesses = [(op, AccessAttrs.of(op)) for turn in turns for op in walk(turn) if op.kind in ACCESSES]
    beside = {
        symbol
        for op, access in accesses
        for item, stride in zip(access.index, ir.tensor(access.tensor).strides, strict=True)
        if stride.constant == 1
        for tile in stepped_tiles(ir, op, item)
        for symbol in ir.tiles[tile].block.symbols()
    }
    return bool(blocks) and beside.isdisjoint(blocks)


def _uniform_config(ir: KernelIR, turns: Sequence[Block], target: Target) -> dict[str, Choice]:
    """Where all lanes load the same few numbers and each sums over few of its own, as all rays meet all spheres:
    nothing is copied ahead, and a lane has one row (262144 rays, 512 spheres: 952 us, and 1835 by eight rows a lane in
    one warp, six turns ahead; H200, by hand, 2026-11-26). Empty for others."""
    grid = {ir.tiles[name].block.args[0] for name in ir.grid if ir.tiles[name].block.op == "sym"}
    ops = [op for turn in turns for op in walk(turn)]
    loads = [op.output for op in ops if op.kind is OpKind.LOAD and op.output.dims]
    summed = [d for op in ops if OPS[op.kind].traits & Trait.COLLECTIVE for d in op.values[0].dims]
    few = [d.extent.constant for d in summed if not d.extent.symbols() & grid]
    if len(grid) != 1 or not loads or any(d.extent.symbols() & grid for v in loads for d in v.dims):
        return {}
    if not all(n is not None and n <= MOST_OF_A_LANE for n in few):
        return {}
    (block,) = grid
    warps = 4
    while warps > 1 and programs(ir, {block: warps * target.warp_size}) < SCHEDULERS * target.sm_count:
        warps //= 2
    return {block: warps * target.warp_size, NUM_WARPS.name(ir): warps, NUM_STAGES.name(ir): 1}


def _warps_that_load_ahead(
    ir: KernelIR, turns: Sequence[Block], blocks: Mapping[str, int], target: Target
) -> dict[str, Choice]:
    """Few enough that a lane's elements of the narrowest tile that turns load are copied without waiting: one flag of
    a byte for each lane is waited for in every turn, four are not (256 turns of 16384 lanes: 136 us, and 42 by a warp
    for each 128). Where turns load numbers alone, more lanes share each (512 turns: 569 us, and 517), if there are as
    many. Both on an H100, by hand, 2026-11-25."""
    loads = [op for turn in turns for op in walk(turn) if op.kind is OpKind.LOAD]
    tiles = [op for op in loads if op.output.dims]
    if not tiles:
        warps = _largest(ir, blocks) // (SHARING_ELEMENTS * target.warp_size)
        if not warps:
            return warps_that_fill(ir, blocks, target)
    else:
        narrowest = min(itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype) for op in tiles)
        if narrowest >= ASYNC_BYTES:
            return warps_that_fill(ir, blocks, target)
        elements = max(_elements(ir, op.output.dims, blocks) for op in tiles)
        warps = elements * narrowest // (ASYNC_BYTES * target.warp_size)
    if warps >= NUM_WARPS.default:
        return warps_that_fill(ir, blocks, target)
    return {NUM_WARPS.name(ir): max(pow2(warps + 1) // 2, 1)}


def _lone_elements(ir: KernelIR, blocks: Mapping[str, int], target: Target) -> dict[str, Choice]:
    """Blocks of an element a lane of one warp, where schedulers would have no second warp to compute meanwhile: 8192
    carriers' loops took 540 us by 128 programs of 64, and 335 by 256 of 32 (H200, 2026-11-30). Empty for others."""
    grid = {ir.tiles[name].block.args[0] for name in ir.grid if ir.tiles[name].block.op == "sym"} & blocks.keys()
    if len(grid) != 1 or target.vendor != "nvidia":
        return {}
    (block,) = grid
    warps, size = max(blocks[block] // target.warp_size, 1), target.warp_size
    if warps == 1 or programs(ir, {**blocks, block: size}) > SCHEDULERS * target.sm_count:
        return {}
    return {block: size, NUM_WARPS.name(ir): 1}


def warps_that_fill(
    ir: KernelIR, blocks: Mapping[str, int], target: Target, most: int = MOST_WARPS
) -> dict[str, Choice]:
    """More warps of fewer elements a lane, where programs are too few for others to work while one waits for its turn's
    loads: 262144 spiking neurons by 256 programs of four warps 409 us, of eight 205; the fluxes of 131072 columns by
    128 programs of four 212, of sixteen 160; means of 8192 resamples by 128 programs of four 638, of eight 372 (H100,
    2026-11-26). ``most``: warps of a program."""
    warps, lanes = NUM_WARPS.default, _largest(ir, blocks)
    while warps < most and programs(ir, blocks) * warps < FILLING_WARPS * target.sm_count:
        if lanes < 2 * warps * target.warp_size:
            break
        warps *= 2
    return {NUM_WARPS.name(ir): warps} if warps > NUM_WARPS.default else {}


def fills_warps(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> bool:
    """Whether other warps of a multiprocessor compute while one waits for its turn's loads. ``wanted``: the blocks and
    warps."""
    warps = wanted.get(NUM_WARPS.name(ir), NUM_WARPS.default)
    return isinstance(warps, int) and programs(ir, wanted) * warps >= FILLING_WARPS * target.sm_count


def _is_recurrence(ir: KernelIR, loop: Op) -> bool:
    name = TileAttrs.of(loop).tile
    if not is_long(ir, name):
        return False
    (turn,) = loop.regions
    if not loads_ahead(turn, name):
        return False
    pairs = zip(turn.params, turn.results, strict=True)
    return any(param.dims and not is_sum(turn, param, result) for param, result in pairs)


def loads_ahead(turn: Block, tile: str) -> bool:
    """Whether each turn loads from places of its own, which do not follow from what the one before left, as a search's
    do. ``tile``: the loop's."""
    follows, own = set(turn.params), set[Value]()
    for op in walk(turn):
        is_own = not own.isdisjoint(op.values) or _names(op, tile)
        if not follows.isdisjoint(op.values):
            follows.update(op.outputs)
        elif is_own and op.kind is OpKind.LOAD:
            return True
        elif is_own:
            own.update(op.outputs)
    return False


def _names(op: Op, tile: str) -> bool:
    """Whether an op says the loop's tile: its number, or a place in a tensor."""
    if isinstance(op.attrs, AccessAttrs):
        return any(isinstance(item, TileIndex) and item.tile == tile for item in op.attrs.index)
    return isinstance(op.attrs, TileAttrs) and op.attrs.tile == tile


def is_sum(turn: Block, param: Value, result: object) -> bool:
    """Whether a turn only adds to what it carries, or keeps it: then no turn waits for another."""
    readers = [op for op in walk(turn) if param in op.values]
    if not readers:
        return True
    (reader, *others) = readers
    is_one = not others and reader.kind is OpKind.POINTWISE and reader.outputs == (result,)
    return is_one and PointwiseAttrs.of(reader).fn in _SUMS


def _largest(ir: KernelIR, sizes: Mapping[str, int]) -> int:
    """Elements of the largest tile: of the state, or of what turns read of outside."""
    return max(_elements(ir, v.dims, sizes) for op in ir.walk() for v in op.outputs)


def _elements(ir: KernelIR, dims: Sequence[Dim], sizes: Mapping[str, int]) -> int:
    values = chosen_sizes(ir, sizes)
    return prod(pow2(d.extent.evaluate(values)) for d in dims)
