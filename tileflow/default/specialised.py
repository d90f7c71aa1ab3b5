"""Where the default is warp-specialised: as measured on an H200 (docs/measurements/warp-specialisation.md)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import mean_length, tile_length
from ..ir.attributes import AccessAttrs, PointwiseAttrs
from ..ir.graph import KernelIR, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.types import itemsize
from ..passes.unit_batches import as_matrices
from ..schedule.chained import Chained
from ..schedule.computed import Computed
from ..schedule.gradient_loop import GradientLoop
from ..schedule.single import Single
from ..schedule.structure import find_structure
from ..space.knobs import CONSUMERS, GROUP, NUM_STAGES, PING_PONG, SCHEDULE
from ..space.schedules import refusal
from ..target import Target
from .computed_products import computed_config
from .copied_operands import is_worth_copying
from .operands import comes_by_element
from .sizes import programs, symbol
from .specialised_rows import rows_config
from .split_products import split_config
from .ways import Tile, Way, ends_ns, sides, soonest, ways_of

K = OpKind
GROUP_ROWS = 64  # of a consumer group
CONSUMER_ROWS = 128  # of two consumer groups
COLUMNS, COLUMNS_DEALT = 256, 128  # of all products' tiles, whose rows they share, or of their own
# of copies: what a turn takes was read from products of many tiles
DEALT_TILE, SHARED_TILE = Tile(128, 128, 1, 500), Tile(128, 256, 2, 1000)
TURN_BYTES = 128  # of a row of an operand, in a turn
STAGES, STAGES_DEALT = 4, 6
NEARLY = 0.9  # of the multiprocessors have a tile
FEWER = 1.05  # less work by smaller tiles that is worth reading more
SHORT = 1024  # numbers that a product sums over, by which its epilogue weighs
MANY_WAVES = 8  # of 128 x 256 tiles
MOST_DEALT = 10  # arithmetic of an element beside additions and products: a sigmoid has 9, a tanh 12
MANY_ROWS, LONG = 1024, 8192  # of ragged groups: rows of one, and numbers that are summed
BAND_OF_GROUPS = 8
BAND = 4  # tiles of 128 x 128 in a band: 1.03 times the speed of 8 in the mean on an H100, 1.00 on an H200
# what an epilogue of one group has beside the other's products: more of it and four more warps are faster
_CHEAP = frozenset({
    K.POINTWISE, K.CAST, K.STORE, K.LOAD, K.UNSQUEEZE, K.EXPAND, K.SIZE, K.SCALAR, K.TILE_BEGIN, K.TILE_INDEX,
})  # fmt: skip
_CHEAP_FUNCTIONS = ("add", "sub", "mul")


def specialised_config(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """The knobs of the warp-specialised schedule where it was faster than the pipelined one of ``wanted``; else
    none."""
    if refusal(ir, target):
        return {}
    ir = as_matrices(ir)
    found = find_structure(ir)
    if isinstance(found, Computed):
        chosen = computed_config(ir, found, target)
    elif isinstance(found, Single):
        chosen = _ragged(ir, found, target) if found.is_ragged else _plain(ir, found, wanted, target)
    else:
        assert isinstance(found, Chained | GradientLoop)  # or it would have been refused
        chosen = rows_config(ir, found, target)
    return chosen | {SCHEDULE.name(ir): "warp_specialised"} if chosen else {}


# ---- one product ---------------------------------------------------------------------------------


def _ragged(ir: KernelIR, found: Single, target: Target) -> dict[str, Choice]:
    """At 1.05 and 1.06 times the pipelined default's speed for 8 even and 64 uneven groups whose tiles are dealt out,
    1.01 and 1.12 for a program a group's columns. Of many rows a group, blocks of which are the grid's tiles, consumer
    groups have tiles of their own: 1.01 to 1.04 times that speed at four sizes, 0.94 to 0.98 at four of 256 to 512
    rows, whose bands reach over several groups' operands, and 0.96 where 14336 numbers are summed (H200)."""
    is_long = _rows_of_a_group(ir, found) >= MANY_ROWS and tile_length(ir, found.keys) <= LONG
    is_grids = mean_length(ir, found.rows) < CONSUMER_ROWS
    chosen = _own_tiles(ir, found) if is_long and is_grids and _is_light(found) else _shared(ir, found, BAND_OF_GROUPS)
    chosen |= {GROUP.name(ir): BAND_OF_GROUPS} if chosen else {}
    return chosen if chosen and programs(ir, chosen) >= NEARLY * target.sm_count else {}


def _rows_of_a_group(ir: KernelIR, found: Single) -> int:
    """Rows of a ragged group in the mean: those of the left operand's tensor, shared by as many groups as there are
    right operands."""
    left, right = AccessAttrs.of(found.left), AccessAttrs.of(found.right)
    of_left = zip(left.index, ir.tensor(left.tensor).shape, strict=True)
    of_right = zip(right.index, ir.tensor(right.tensor).shape, strict=True)
    rows = prod(ir.hint(size) for item, size in of_left if isinstance(item, TileIndex) and item.tile == found.rows)
    groups = prod(ir.hint(size) for item, size in of_right if isinstance(item, ValueIndex))
    return rows // max(groups, 1)


def _plain(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """A tile a program of the result's rows and columns, of which neither a batch nor a part is an axis of the
    grid."""
    others = [name for name in ir.grid if name not in (found.rows, found.columns.tile) and tile_length(ir, name) > 1]
    if others or not _is_one_part(ir, found, wanted):
        return {}
    if found.is_split:
        return split_config(ir, found, wanted, target)
    if found.copied:
        return _of_copies(ir, found, wanted, target)
    if len(found.products) > 1:
        return _beside_each_other(ir, found, target)
    return _dealt(ir, found, wanted, target) or _beside_loads(ir, found, target)


def _of_copies(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """Operands whose rows begin at any element: boxes of copies, where these are worth it."""
    if not _fits(ir, found, COLUMNS_DEALT if _is_light(found) else COLUMNS):
        return {}  # 18 us in place of 12 for 33 x 333 x 3333, whose right operand is read once
    ways = tiles_of_copies(ir, found)
    if _is_by_element(ir, found, target) and itemsize(found.product.values[0].type.dtype) == 2:
        most = target.sm_count  # of several waves a turn was not measured
        ways += [w for w in ways_of(ir, found, target) if programs(ir, w.knobs) <= w.tile.at_once * most]
    way = soonest(ir, ways, found.keys, target)
    if way is None or not is_worth_copying(ir, found, wanted, ends_ns(ir, way, found.keys, target), target):
        return {}
    return dict(way.knobs)


def _is_by_element(ir: KernelIR, found: Single, target: Target) -> bool:
    """Whether a pipelined kernel would load all that is copied an element at a time. Of rows at multiples of 4 or 8
    bytes it has several at once: 20 us for 130 x 1030 x 4100, 33 by copies."""
    operands = zip((found.left, *found.rights), found.product.values[:2], strict=False)
    return len(found.products) == 1 and all(
        comes_by_element(ir, value, target) for load, value in operands if load in found.copied
    )


def tiles_of_copies(ir: KernelIR, found: Single) -> list[Way]:
    """The tile of many tiles. Groups have tiles of their own, of which two fit a multiprocessor's waves better than one
    of 128 x 256 (1.04 to 1.23 times its speed at seven sizes, 0.97 at another), unless an epilogue computes much."""
    knobs = _own_tiles(ir, found) if _is_light(found) else _shared(ir, found, band=16)
    tile = DEALT_TILE if _is_light(found) else SHARED_TILE
    return [Way(tile, 1, knobs)] if knobs else []


def _dealt(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """Two groups with tiles of their own, 128 x 128, where that is less work for the busiest multiprocessor than the
    pipelined blocks are (1.08 times the speed of 128 x 256 at 4224 x 4352), or no more and one group's epilogue beside
    the other's products is worth it: sums are short (1.05 to 1.2 times), or operands have 8 bits (1.02). Of long sums
    and many tiles the hosts differ: 1.06 to 0.97 times at 8192 x 8192. An epilogue that computes much is slower so:
    0.7 times with a GELU."""
    rows = ir.tiles[found.rows].block
    dealt = _own_tiles(ir, found)
    if not dealt or not _is_light(found):
        return {}
    before = [wanted.get(name, 0) for name in (rows.args[0], symbol(found.columns))]
    sides = [size for size in before if isinstance(size, int) and size >= CONSUMER_ROWS]
    if len(sides) < 2:
        return _alone(ir, found, wanted, target)
    tiles = programs(ir, dealt)
    work = -(-tiles // target.sm_count) * CONSUMER_ROWS * CONSUMER_ROWS
    work_before = -(-programs(ir, wanted) // target.sm_count) * prod(sides)
    is_short, has_8_bits = tile_length(ir, found.keys) <= SHORT, itemsize(found.product.values[0].type.dtype) == 1
    weighs = is_short or (has_8_bits and programs(ir, wanted) < MANY_WAVES * target.sm_count)
    least = 1.0 if weighs else FEWER
    if tiles < 2 * target.sm_count or work_before < least * work:
        return {}
    return dealt


def _beside_each_other(ir: KernelIR, found: Single, target: Target) -> dict[str, Choice]:
    """Two products of one left operand, as a gate's: tiles of 128 x 128 of each in two groups, at 1.03 to 1.09 times
    the pipelined default's speed, and 1.07 to 1.22 times that of torch's two products and their gate (H100,
    2026-11-25). Where these come out uneven over the multiprocessors, groups have tiles of 128 x 64 of their own, at
    1.05 and 1.11 times the speed of 128 x 128; with a tanh in the epilogue they are at 0.87 times. Several results and
    rows as a whole do not spill either, but were not measured."""
    shared, dealt = _shared(ir, found, band=16), _own_tiles(ir, found)
    if not shared or not found.by_columns or _stores(found) > 1 or not _fits(ir, found, COLUMNS):
        return {}
    tiles, most = programs(ir, dealt), target.sm_count
    work, work_dealt = -(-programs(ir, shared) // most) * COLUMNS, -(-tiles // most) * COLUMNS_DEALT
    is_light = _is_cheap(found) and _arithmetic(found) <= MOST_DEALT
    if is_light and tiles >= 2 * most and work >= FEWER * work_dealt:
        return dealt
    return shared if programs(ir, shared) >= NEARLY * most else {}


def _fits(ir: KernelIR, found: Single, columns: int) -> bool:
    """Whether more than half of a tile of so many columns, of all products, lies in the result."""
    sides = ((found.rows, CONSUMER_ROWS), (found.columns.tile, columns // len(found.products)))
    return all(name is not None and tile_length(ir, name) > size // 2 for name, size in sides)


def _beside_loads(ir: KernelIR, found: Single, target: Target) -> dict[str, Choice]:
    """A tile of 128 x 256 in two groups where the epilogue loads a matrix of the result's sides: the producer fills
    the next tile's boxes meanwhile, and what is loaded needs no shared memory. At 1.00 to 1.02 times the speed of one
    pipelined tile a program for a residual, 1.03 to 1.1 for a gate, of which torch's product and its addition have 0.94
    to 0.98 (H100, 2026-11-25). A pipelined program that walks has no room for such a matrix beside its stages: 0.7
    times. More than one matrix is stored from registers that are full then (120 to 150 bytes a thread spilled)."""
    loads = [op for op in found.after if op.kind is K.LOAD and op.output.dims == found.product.output.dims]
    chosen = _shared(ir, found, band=16) if loads and _stores(found) == 1 and _fits(ir, found, COLUMNS) else {}
    return chosen if chosen and programs(ir, chosen) >= NEARLY * target.sm_count else {}


def _alone(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """One consumer group with the pipelined blocks of 64 rows, where a loop whose bounds a program finds is of one
    part: at 1.11 times the pipelined speed for 64 x 8192 x 8192. A plain product, whose bounds are known, gains
    nothing."""
    rows = ir.tiles[found.rows].block.args[0]
    if found.parts is None or wanted.get(rows) != GROUP_ROWS or programs(ir, wanted) < NEARLY * target.sm_count:
        return {}
    own: dict[str, Choice] = {NUM_STAGES.name(ir): STAGES_DEALT, PING_PONG.name(ir): False, CONSUMERS.name(ir): 1}
    return {name: wanted[name] for name in (rows, symbol(found.columns), symbol(found.inner)) if name in wanted} | own


def _is_cheap(found: Single) -> bool:
    """Whether the epilogue is little more than arithmetic and the store. So is the addition of a part's sums: it is
    there since the region is of the first number of parts that the author offers, and of one part the sums are
    stored."""
    cheap = _CHEAP | {K.ATOMIC} if found.parts is not None else _CHEAP
    return all(op.kind in cheap for op in found.after)


def _is_light(found: Single) -> bool:
    """Whether the epilogue has additions and products alone."""
    return _is_cheap(found) and not _arithmetic(found)


def _arithmetic(found: Single) -> int:
    """Arithmetic of an element of the result, beside the epilogue's additions and products."""
    functions = (PointwiseAttrs.of(op).fn for op in found.after if op.kind is K.POINTWISE)
    return sum(POINTWISE[fn].flops for fn in functions if fn not in _CHEAP_FUNCTIONS)


def _stores(found: Single) -> int:
    """How often an epilogue writes."""
    return sum(op.kind in (K.STORE, K.ATOMIC) for op in found.after)


def _is_one_part(ir: KernelIR, found: Single, wanted: Mapping[str, Choice]) -> bool:
    """Whether a tile sums over the whole inner dimension."""
    if found.parts is None:
        return True
    count = ir.tiles[found.parts.tile].end
    return isinstance(count, Expr) and count.op == "sym" and wanted.get(count.args[0]) == 1


def _shared(ir: KernelIR, found: Single, band: int) -> dict[str, Choice]:
    """Two groups that share a tile of 128 rows, and 256 columns of all products; none where no knobs change its sides
    alone."""
    blocks = _blocks(ir, found, CONSUMER_ROWS, COLUMNS)
    own: dict[str, Choice] = {NUM_STAGES.name(ir): STAGES, PING_PONG.name(ir): False, GROUP.name(ir): band}
    return blocks | own | {CONSUMERS.name(ir): 2} if blocks else {}


def _own_tiles(ir: KernelIR, found: Single) -> dict[str, Choice]:
    """Two groups that have tiles of their own, of 128 rows, and 128 columns of all products."""
    blocks = _blocks(ir, found, CONSUMER_ROWS, COLUMNS_DEALT)
    own: dict[str, Choice] = {NUM_STAGES.name(ir): STAGES_DEALT, PING_PONG.name(ir): True, GROUP.name(ir): BAND}
    return blocks | own | {CONSUMERS.name(ir): 2} if blocks else {}


def _blocks(ir: KernelIR, found: Single, rows: int, columns: int) -> dict[str, Choice]:
    """A tile of such sides, of all products beside each other, in turns of 128 bytes; none where no knobs change them
    alone."""
    inner = TURN_BYTES // itemsize(found.product.values[0].type.dtype)
    return sides(ir, found, rows, columns // len(found.products), inner)
