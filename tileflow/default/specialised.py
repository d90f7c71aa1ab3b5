"""Where the default is warp-specialised: as measured on an H200 (docs/measurements/warp-specialisation.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.types import Dim, itemsize
from ..schedule.chained import Chained
from ..schedule.computed import Computed
from ..schedule.gradient_loop import GradientLoop
from ..schedule.single import Single
from ..schedule.structure import find_structure
from ..schedule.types import WARPS_OF_A_GROUP
from ..space.knobs import CONSUMERS, GROUP, NUM_STAGES, PERSISTENT, PING_PONG, SCHEDULE
from ..space.schedule_checks import ends_with_rows, grows_with_rows
from ..space.schedules import refusal
from ..target import Target
from .sizes import pow2, programs, symbol, times

K = OpKind
GROUP_ROWS = 64  # of a consumer group
CONSUMER_ROWS = 128  # of two consumer groups
COLUMNS, COLUMNS_DEALT = 256, 128  # of all products' tiles, whose rows they share, or of their own
WIDE_HEAD = 128  # columns of a head whose programs walk
NARROW_HEAD = 64  # columns of a head whose exponentials take as long as its products
TURN_BYTES = 128  # of a row of an operand, in a turn
STAGES, STAGES_DEALT = 4, 6
NEARLY = 0.9  # of the multiprocessors have a tile
FEWER = 1.05  # less work by smaller tiles that is worth reading more
SHORT = 1024  # numbers that a product sums over, by which its epilogue weighs
MOST_UNEVEN = 1.1  # the longest walking program's work, as a multiple of the mean
MOST_COUNTED = 1 << 15  # tiles
MANY_WAVES = 8  # of 128 x 256 tiles
MOST_DEALT = 10  # arithmetic of an element beside additions and products: a sigmoid has 9, a tanh 12
PLAIN_WORK = 3  # of a softmax, on a thread's part of a key: a scale, a difference and an exponential a score
MOST_WORK = 2048  # arithmetic of a thread in a turn, each copy of the turn counted
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
    found = find_structure(ir)
    if isinstance(found, Computed):
        chosen = _computed(ir, found, target)
    elif isinstance(found, Single):
        chosen = _ragged(ir, found, target) if found.is_ragged else _plain(ir, found, wanted, target)
    else:
        assert isinstance(found, Chained | GradientLoop)  # or it would have been refused
        chosen = _of_rows(ir, found, target)
    return chosen | {SCHEDULE.name(ir): "warp_specialised"} if chosen else {}


# ---- one product ---------------------------------------------------------------------------------


def _computed(ir: KernelIR, found: Computed, target: Target) -> dict[str, Choice]:
    """At 1.43 times the pipelined default's speed for packed weights beside 4096 rows: both groups read a box of 256
    columns, and unpack 64 rows of weights each."""
    chosen = _shared(ir, found, band=16)
    return chosen if chosen and programs(ir, chosen) >= NEARLY * target.sm_count else {}


def _ragged(ir: KernelIR, found: Single, target: Target) -> dict[str, Choice]:
    """At 1.05 and 1.06 times the pipelined default's speed for 8 even and 64 uneven groups whose tiles are dealt out,
    1.01 and 1.12 for a program a group's columns."""
    chosen = _shared(ir, found, band=8)
    return chosen if chosen and programs(ir, chosen) >= NEARLY * target.sm_count else {}


def _plain(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """A tile a program of the result's rows and columns, of which neither a batch nor a part is an axis of the
    grid."""
    others = [name for name in ir.grid if name not in (found.rows, found.columns.tile) and tile_length(ir, name) > 1]
    if others or not _is_one_part(ir, found, wanted):
        return {}
    if len(found.products) > 1:
        return _beside_each_other(ir, found, target)
    return _dealt(ir, found, wanted, target) or _beside_loads(ir, found, target)


def _dealt(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """Two groups with tiles of their own, 128 x 128, where that is less work for the busiest multiprocessor than the
    pipelined blocks are (1.08 times the speed of 128 x 256 at 4224 x 4352), or no more and one group's epilogue beside
    the other's products is worth it: sums are short (1.05 to 1.2 times), or operands have 8 bits (1.02). Of long sums
    and many tiles the hosts differ: 1.06 to 0.97 times at 8192 x 8192. An epilogue that computes much is slower so:
    0.7 times with a GELU."""
    rows = ir.tiles[found.rows].block
    dealt = _own_tiles(ir, found)
    if not dealt or not _is_cheap(found) or _arithmetic(found):
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
    if not shared or not found.by_columns or _stores(found) > 1 or not _fits(ir, found):
        return {}
    tiles, most = programs(ir, dealt), target.sm_count
    work, work_dealt = -(-programs(ir, shared) // most) * COLUMNS, -(-tiles // most) * COLUMNS_DEALT
    is_light = _is_cheap(found) and _arithmetic(found) <= MOST_DEALT
    if is_light and tiles >= 2 * most and work >= FEWER * work_dealt:
        return dealt
    return shared if programs(ir, shared) >= NEARLY * most else {}


def _fits(ir: KernelIR, found: Single) -> bool:
    """Whether more than half of a tile that two groups share lies in the result."""
    columns = COLUMNS // len(found.products)
    sides = ((found.rows, CONSUMER_ROWS), (found.columns.tile, columns))
    return all(name is not None and tile_length(ir, name) > size // 2 for name, size in sides)


def _beside_loads(ir: KernelIR, found: Single, target: Target) -> dict[str, Choice]:
    """A tile of 128 x 256 in two groups where the epilogue loads a matrix of the result's sides: the producer fills
    the next tile's boxes meanwhile, and what is loaded needs no shared memory. At 1.00 to 1.02 times the speed of one
    pipelined tile a program for a residual, 1.03 to 1.1 for a gate, of which torch's product and its addition have 0.94
    to 0.98 (H100, 2026-11-25). A pipelined program that walks has no room for such a matrix beside its stages: 0.7
    times. More than one matrix is stored from registers that are full then (120 to 150 bytes a thread spilled)."""
    loads = [op for op in found.after if op.kind is K.LOAD and op.output.dims == found.product.output.dims]
    chosen = _shared(ir, found, band=16) if loads and _stores(found) == 1 and _fits(ir, found) else {}
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
    block = ir.tiles[found.rows].block
    chosen: dict[str, Choice] = {block.args[0]: rows} if block.op == "sym" else {}
    for dim, size in ((found.columns, columns // len(found.products)), (found.inner, inner)):
        chosen |= {symbol(dim): max(size // times(dim), 1)} if symbol(dim) else {}
    return chosen if len(chosen) == 3 else {}


# ---- attention and its gradients -----------------------------------------------------------------


def _of_rows(ir: KernelIR, found: Chained | GradientLoop, target: Target) -> dict[str, Choice]:
    """Consumer groups beside a producer, where each multiprocessor has a tile of their rows."""
    for groups in (4, 3, 2):
        rows: dict[str, Choice] = {ir.tiles[found.rows].block.args[0]: groups * GROUP_ROWS}
        tiles = programs(ir, dict.fromkeys((b.name for b in ir.blocks), 1) | rows)
        if tiles < target.sm_count or (groups > 2 and not (_is_even(tiles, target) and _is_filled(ir, found, groups))):
            continue
        if isinstance(found, GradientLoop):
            chosen = _gradients(ir, found, groups)
        elif groups > 2:
            chosen = _narrow_attention(ir, found, groups)
        else:
            chosen = _attention(ir, found)
        if chosen and isinstance(found, Chained):
            chosen |= _walking(ir, found, groups, tiles, target)
        if chosen:
            return chosen | rows
    return {}


def _is_even(tiles: int, target: Target) -> bool:
    """Whether the busiest multiprocessor has little more to do than the others."""
    return -(-tiles // target.sm_count) * target.sm_count <= FEWER * tiles


def _is_filled(ir: KernelIR, found: Chained | GradientLoop, groups: int) -> bool:
    """Whether tiles of so many groups have little beside a head's own rows: 192 rows for 256 are a third padding."""
    length, rows = tile_length(ir, found.rows), groups * GROUP_ROWS
    return -(-length // rows) * rows <= FEWER * length


def _narrow_attention(ir: KernelIR, found: Chained, groups: int) -> dict[str, Choice]:
    """Attention with heads of up to 64 columns, whose exponentials take as long as its products: the more groups,
    the more of both run beside each other. Three with 128 keys a turn are at 1.10 times the speed of torch's
    (walking 1.15), where two had 0.94 and pipelined programs 1.00. Of a causal loop, whose end is no multiple of
    128 then, four with 64 keys: 1.02 times (1.04), where two had 0.93 (0.97). Their threads have few registers, so
    that bodies with more than the softmax stay with two."""
    columns = _widest(ir, (found.query.output.dims[1], found.sums.output.dims[1]))
    keys, is_causal = found.scores.output.dims[1], ends_with_rows(ir, found.keys, found.rows)
    begins = ir.tiles[found.keys].begin
    wanted = {3: not is_causal, 4: is_causal}[groups] and isinstance(begins, Expr)
    size = {3: 128, 4: 64}[groups]
    is_plain = _work(found, size) <= PLAIN_WORK * size and not any(op.kind is K.LOAD for op in found.weigh)
    is_whole = _has_no_masks(ir, found, size)
    if columns > NARROW_HEAD or not wanted or not is_plain or not is_whole or not symbol(keys):
        return {}
    return {symbol(keys): size, NUM_STAGES.name(ir): 3}


def _has_no_masks(ir: KernelIR, found: Chained | GradientLoop, size: int) -> bool:
    """Whether no turn of ``size`` lies across the loop's end: threads of many groups have no registers for masks."""
    if not ir.shape_mode.is_static:
        return False
    loop = ir.tiles[found.keys]
    if isinstance(loop.begin, Expr) and isinstance(loop.end, Expr):
        return tile_length(ir, found.keys) % size == 0
    return ends_with_rows(ir, found.keys, found.rows)


def _walking(ir: KernelIR, found: Chained, groups: int, tiles: int, target: Target) -> dict[str, Choice]:
    """Programs that walk, of heads of 128 columns and of more groups, full ones and causal ones that come out even: at
    1.03 to 1.05 times the speed of one for each tile at 4096 rows and more, 1.06 at 2048, 1.16 at 1024. Two groups take
    turns."""
    columns = _widest(ir, (found.query.output.dims[1], found.sums.output.dims[1]))
    loop = ir.tiles[found.keys]
    alike = isinstance(loop.begin, Expr) and isinstance(loop.end, Expr)
    if not alike and grows_with_rows(ir, found.keys, found.rows):
        of_a_head = -(-tile_length(ir, found.rows) // (groups * GROUP_ROWS))
        alike = _longest(tiles, of_a_head, target.sm_count) <= MOST_UNEVEN
    has_rows = tile_length(ir, found.rows) >= groups * GROUP_ROWS  # else the blocks are smaller, and pipelined
    walks = (columns == WIDE_HEAD or groups > 2) and has_rows and alike and tiles > target.sm_count
    return {PING_PONG.name(ir): walks and groups == 2, PERSISTENT.name(ir): int(walks)}


def _longest(tiles: int, of_a_head: int, count: int) -> float:
    """Of ``count`` programs the work of the one that has most, as a multiple of the mean: of the ``of_a_head`` tiles of
    a head the first takes as many times as long as the last one, and they are dealt to and fro. The more tiles there
    are the less it is: no more than MOST_COUNTED are looked at."""
    work = [0] * count
    for number in range(min(tiles, MOST_COUNTED)):
        row, place = divmod(number, count)
        work[count - 1 - place if row % 2 else place] += of_a_head - number % of_a_head
    return max(work) * count / sum(work)


def _attention(ir: KernelIR, found: Chained) -> dict[str, Choice]:
    """At 1.18 to 1.29 times the pipelined default's speed for heads of 96 and more, 1.12 for causal ones of 64, and
    slower for full ones of 64."""
    columns = _widest(ir, (found.query.output.dims[1], found.sums.output.dims[1]))
    loop = ir.tiles[found.keys]
    alike = isinstance(loop.begin, Expr) and isinstance(loop.end, Expr)
    keys = 128 if columns <= WIDE_HEAD else 64
    if (alike and columns < WIDE_HEAD) or _work(found, keys) * (1 if alike else 2) > MOST_WORK:
        return {}
    return {symbol(found.scores.output.dims[1]): keys, NUM_STAGES.name(ir): 2 if columns >= WIDE_HEAD else 3}


def _work(found: Chained, keys: int) -> int:
    """Arithmetic of a consumer's thread on the scores of a turn. Where it is long, as with a tanh of each score, the
    other group's products are over long before: at 0.47 times the speed of two pipelined programs of 64 rows beside
    each other (causal, in two copies, one with masks), where a sigmoid is at 1.6 times."""
    scores = found.scores.output.dims
    each = (PointwiseAttrs.of(op).fn for op in found.weigh if op.kind is K.POINTWISE and op.output.dims == scores)
    return sum(POINTWISE[fn].flops for fn in each) * GROUP_ROWS * keys // (WARPS_OF_A_GROUP * 32)


def _gradients(ir: KernelIR, found: GradientLoop, groups: int) -> dict[str, Choice]:
    """Use the schedule of gradients for queries alone, up to heads of 128: at 1.09 to 1.17 times the speed of the
    whole call, with three groups at 128 columns another 1.00 to 1.04. Two sums a program, as keys and values have,
    leave no registers for turns as long, and gained nothing."""
    dims = (op.output.dims[1] for op in (*found.held, *found.blocks, *(s.product for s in found.sums)))
    widest = _widest(ir, dims)
    if found.added is not None:
        return (
            {symbol(found.columns): 64 if widest > NARROW_HEAD else 128, NUM_STAGES.name(ir): 2} if groups == 2 else {}
        )
    if len(found.sums) > 1 or widest > WIDE_HEAD:
        return {}
    if groups == 2:
        return {symbol(found.columns): 128, NUM_STAGES.name(ir): 2}
    if groups > 3 or widest < WIDE_HEAD or not _has_no_masks(ir, found, 64):
        return {}
    return {symbol(found.columns): 64, NUM_STAGES.name(ir): 3}


def _widest(ir: KernelIR, dims: Iterable[Dim]) -> int:
    """The most columns of some tiles in registers."""
    return pow2(max(d.extent.evaluate(ir.hints) for d in dims))
