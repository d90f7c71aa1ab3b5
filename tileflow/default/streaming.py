"""First block sizes of regions that move bytes: whole contiguous runs, many loads in flight, no idle multiprocessor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import follows_a_load, likely_length, stepped_tiles, tile_length
from ..ir.attributes import AccessAttrs, AxisAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, SliceIndex, TileIndex, ValueIndex, walk
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES
from ..ir.pressure import live_tiles, on_the_way
from ..ir.types import Dim, Value, itemsize
from ..passes.cluster_loops import shared_loops
from ..passes.folds import folded
from ..passes.roll import roll, rollable
from ..space.knobs import NUM_STAGES, NUM_WARPS, ROW
from ..target import Target
from .columns import reduced_column_config, shared_column_config, tall_dims
from .contended_sums import contended_config
from .exchanges import (
    column_config,
    exchange_config,
    lone_warp_config,
    rounds_config,
    row_warp_config,
    sorted_column_config,
)
from .gathers import gather_config, kept_place_config
from .lanes import crossing_config, own_rows_config
from .memory_recurrences import memory_recurrence_config
from .pairs import carried_pair_config, pair_config, pair_limits
from .ragged import STAGES, ragged_config, ragged_limits
from .recurrences import busy_config, carries_chunks, recurrence_config, recurrences, warps_that_fill
from .shared_choices import shared_choice_config
from .shared_sums import shared_sum_config
from .sizes import block_symbols, chosen_sizes, pow2, programs, register_elements
from .slow_paths import slow_path_config
from .small_tiles import holds_matrices, matrix_elements, warps_for_loads, woven_limits
from .step_sums import step_sum_config
from .tables import table_config
from .whole_tiles import whole_tile_warps
from .windows import neighbour_config, window_config, window_loads

ONE_PIECE = 1 << 15  # elements of a row that a program keeps in registers
JOINED_PIECE = 1 << 14  # where a loop reads them once as well
JOINED_BLOCK = 1 << 13
LIVE_ELEMENTS = 1 << 17  # that it keeps in all: what is not used at once shares registers
LOOP_BLOCK = 1 << 12
PROGRAM_BYTES = 1 << 13  # of the tensor with the shortest elements
BYTES_PER_THREAD = 128  # eight loads of the widest kind in flight
LIVE_REGISTERS = 128  # that a thread spends on tiles, as a rule
ROW_REGISTERS = 256  # where rows are reduced: what the next sum needs is computed anew or read again
CHUNK_WARPS = 16  # of all chunks of a multiprocessor together, where one has fewer and registers suffice
MIN_WARPS = 4
MOST_FILLING = 8  # warps of a program with loops, where programs are few
FEW_WARPS = 8  # of a multiprocessor, which wait for the same turns' loads and reductions
LONG_TURN = 64  # elements of a lane in turns that are made longer
SCANNED = 1 << 15  # elements of whole columns or rows of which a lane has as many as it can: a barrier for each warp
LANE_LOADS = 16  # elements that a lane loads, where what it makes of them is summed at once
RUN = 32  # neighbours that a block takes although another one was first
SECTOR = 32  # bytes that memory moves at least
WORD = 4  # bytes of a register
TRANSACTION = 128  # bytes of a warp's narrowest whole one
NO_LIMITS: Mapping[str, int] = MappingProxyType({})
RARE = 256  # times as many bytes has a tensor beside which the runs of others do not count
LONG_ROWS = 4  # elements of a lane from which on one row is enough for a program
AS_LONG = 4  # runs count as equal up to this ratio
SHORT_VECTOR = 64  # elements
MANY_GATHERS = 6  # loads of gathered elements
LEAST_WINDOW = 5  # loads of elements apart from which on they decide


def streaming_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The knobs of a region without products that should not have their plain defaults."""
    if columns := reduced_column_config(ir, target) or shared_column_config(ir, target):
        return columns
    wanted: dict[str, Choice] = {}
    chunked = chunks(ir)
    live = max(live_tiles(ir), 1)
    wanted |= _rows(ir, live)
    row = _whole(ir, wanted)
    if row == 1 and not chunked and window_loads(ir) >= LEAST_WINDOW:
        return wanted | window_config(ir, target, [(b.symbol, b.length) for b in _blocks(ir)])
    registers = ROW_REGISTERS if row > 1 or _reduces_runs(ir) else LIVE_REGISTERS
    per_thread = min(BYTES_PER_THREAD // _element(ir), pow2(registers // live + 1) // 2 or 1)
    per_thread = max(per_thread // _runs_per_transaction(ir), 1)
    scans = row > 1 and any(op.kind is OpKind.SCAN for op in ir.walk())
    is_summed = row > 1 and live * _element(ir) <= WORD and not scans  # what a thread loads is summed at once
    matrices = holds_matrices(ir, row)
    budget = PROGRAM_BYTES * per_thread // BYTES_PER_THREAD
    budget = matrix_elements(ir, row, _element(ir), target) if matrices else budget
    most = min(LIVE_ELEMENTS // live, target.smem_per_block // _element(ir))  # one may be turned around there
    room = _Room(budget, most, _wholes(ir, wanted))
    run = RUN if is_summed else max(SECTOR // _element(ir), 1)
    run = 2 * run if scans and 2 * run * row <= SCANNED else run
    sizes = block_sizes(ir, chunked, room, run)
    ragged = ragged_limits(ir, sizes, target)
    limits = _least(_limits(ir, sizes, row, target), pair_limits(ir, sizes), woven_limits(ir, sizes), ragged)
    if limits:
        sizes = block_sizes(ir, chunked, room, run, limits)
    wanted |= sizes
    used = max(room.beside(tile) * prod(sizes.get(s, 1) for s in tile) for tile in [*_meetings(ir), frozenset[str]()])
    share = pow2(ROW_REGISTERS // live + 1) // 2 if scans else per_thread * (2 if is_summed else 1)
    warps = max(min(used // (target.warp_size * share), 1024 // target.warp_size), 1)
    warps = max(warps, MIN_WARPS if used >= MIN_WARPS * target.warp_size else 1)
    warps = 1 if matrices else warps
    if not sizes and not chunked:
        warps = min(warps, max(warps_for_loads(ir, target, LANE_LOADS), MIN_WARPS))
        wanted |= whole_tile_warps(ir, target, warps)
    wanted.setdefault(NUM_WARPS.name(ir), warps)
    wanted[NUM_STAGES.name(ir)] = STAGES if ragged else 3
    wanted |= {} if chunked else shared_sum_config(ir, sizes, used)
    wanted |= _of_its_loops(ir, wanted, sizes, live, bool(ragged), bool(chunked), target)
    wanted |= slow_path_config(ir, wanted, target)
    wanted |= {} if chunked else _turns_of_few_warps(ir, wanted, target)
    resident = max(min(CHUNK_WARPS // warps, target.regs_per_sm // (used * live)), 1)
    wanted |= chunk_sizes(ir, resident * target.sm_count, wanted)
    wanted |= shared_choice_config(ir, target) | contended_config(ir, target)
    rules = (table_config, kept_place_config, busy_config)  # which say that a loop has one stage
    return wanted | {knob: choice for rule in rules for knob, choice in rule(ir, wanted, target).items()}


def _least(*limits: Mapping[str, int]) -> dict[str, int]:
    """Limits of blocks that hold together: of a block that several limit, the least."""
    found: dict[str, int] = {}
    for symbol, size in (item for its in limits for item in its.items()):
        found[symbol] = min(found.get(symbol, size), size)
    return found


def _of_its_loops(
    ir: KernelIR,
    wanted: Mapping[str, Choice],
    sizes: Mapping[str, int],
    live: int,
    is_ragged: bool,
    is_chunked: bool,
    target: Target,
) -> dict[str, Choice]:
    """The knobs that what a program repeats says, beside those ``wanted`` for moving bytes."""
    own = _of_its_turns(ir, wanted, sizes, live, is_ragged, is_chunked, target)
    warps = {**wanted, **own}[NUM_WARPS.name(ir)]
    return own if is_ragged else own | lone_warp_config(ir, sizes, warps, target)


def _of_its_turns(
    ir: KernelIR,
    wanted: Mapping[str, Choice],
    sizes: Mapping[str, int],
    live: int,
    is_ragged: bool,
    is_chunked: bool,
    target: Target,
) -> dict[str, Choice]:
    """The same but for warps that would only repeat what others do."""
    if waiting := recurrences(ir):
        turns = [loop.regions[0] for loop in waiting]
        return carried_pair_config(ir, turns, target) or recurrence_config(ir, sizes, target)
    if own_rows := own_rows_config(ir, target):
        return own_rows
    if through_memory := memory_recurrence_config(ir, sizes, target):
        return through_memory | gather_config(ir, target)
    if is_chunked:
        return {}
    own = _of_a_kind(ir, sizes, target)
    if not (own or is_ragged or any(wanted[site] for site in rollable(ir))):
        exchanging = (ir, sizes, live, wanted[NUM_WARPS.name(ir)], target)
        rules = (sorted_column_config, row_warp_config, column_config, exchange_config, rounds_config)
        own = next(filter(None, (rule(*exchanging) for rule in rules)), {})
    if not (own or is_ragged or carries_chunks(ir) or wanted[NUM_WARPS.name(ir)] != MIN_WARPS):
        own = _loops_filled(ir, sizes, target)
    own |= neighbour_config(ir, sizes, {**wanted, **own}[NUM_WARPS.name(ir)], target)
    return own | gather_config(ir, target)


def _loops_filled(ir: KernelIR, sizes: Mapping[str, int], target: Target) -> dict[str, Choice]:
    """More warps for programs whose loops carry something, where these are few; on the devices where it was
    measured."""
    carries = any(op.kind is OpKind.FOR and op.outputs for op in ir.walk())
    return warps_that_fill(ir, sizes, target, MOST_FILLING) if carries and target.vendor == "nvidia" else {}


def _turns_of_few_warps(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """Turns twice as long, where a multiprocessor has few warps, and a lane registers for it: what each turn waits for
    is waited for half as often (five kernels of others 0.70 to 0.89 of the time, two 1.01 and 1.06; H100, 2026-11-28).
    Heads that are turned, of which none waits for another, stay as they were measured (`examples.rope`)."""
    warps, sizes = wanted[NUM_WARPS.name(ir)], chosen_sizes(ir, wanted)
    assert isinstance(warps, int)
    count = programs(ir, wanted)
    if count * warps > FEW_WARPS * target.sm_count or target.vendor != "nvidia" or recurrences(ir):
        return {}
    if 2 * count <= target.sm_count and target.has_clusters and shared_loops(ir) is not None:
        return {}  # blocks of a cluster share the turns, of which there are enough
    grid = {ir.tiles[name].block for name in ir.grid}
    loops = [ir.tiles[TileAttrs.of(op).tile] for op in ir.walk() if op.kind is OpKind.FOR and _waits(ir, op, target)]
    turns = {t.block.args[0]: t.name for t in loops if t.block.op == "sym" and t.block not in grid}
    longer = {s: 2 * sizes[s] for s, name in turns.items() if 2 * sizes[s] <= pow2(tile_length(ir, name))}
    most = max((register_elements(v, {**sizes, **longer}) for op in ir.walk() for v in op.outputs), default=0)
    return {**longer} if most <= LONG_TURN * warps * target.warp_size else {}


def _waits(ir: KernelIR, loop: Op, target: Target) -> bool:
    """Whether a turn hands something on to the next, the lanes of a warp meet in it, or a loaded number says how many
    there are."""
    met = [op.values[0].dims[AxisAttrs.of(op).axis] for op in walk(loop.regions[0]) if op.kind is OpKind.REDUCE]
    meets = any(d.extent.symbols() <= ir.hints.keys() and ir.hint(d.extent) >= target.warp_size for d in met)
    return bool(loop.outputs) or meets or not isinstance(ir.tiles[TileAttrs.of(loop).tile].end, Expr)


def _of_a_kind(ir: KernelIR, sizes: Mapping[str, int], target: Target) -> dict[str, Choice]:
    """The knobs of the first kind of kernel with rules of its own that the region is of; empty for others."""
    return (
        ragged_config(ir, sizes, target)
        or pair_config(ir, target)
        or step_sum_config(ir, sizes, target)
        or crossing_config(ir, sizes, target)
    )


def chunks(ir: KernelIR) -> dict[str, str]:
    """The grid's tiles whose block no register tile has, by their block symbol: how much work a program does."""
    in_registers = {
        s
        for op in ir.walk()
        for v in (*op.inputs, *op.outputs)
        if isinstance(v, Value)
        for d in v.dims
        for s in d.extent.symbols()
    }
    blocks = {ir.tiles[name].block: name for name in ir.grid}
    return {e.args[0]: name for e, name in blocks.items() if e.op == "sym" and e.args[0] not in in_registers}


def chunk_sizes(ir: KernelIR, programs: int, blocks: Mapping[str, Choice]) -> dict[str, Choice]:
    """Sizes of the chunks that give about so many programs: few, since what they leave behind (partial sums, as a rule)
    must be summed again. ``blocks``: the sizes chosen for the grid's other axes."""
    chunked = chunks(ir)
    others = prod(_tiles(ir, name, blocks) for name in ir.grid if name not in chunked.values())
    wanted = max(programs // max(others, 1), 1)
    return {symbol: pow2(-(-tile_length(ir, name) // wanted)) for symbol, name in chunked.items()}


def _tiles(ir: KernelIR, name: str, blocks: Mapping[str, Choice]) -> int:
    """How many tiles of the chosen size an axis of the grid has; 1 where none is chosen yet."""
    block = ir.tiles[name].block
    size = block.constant or (blocks.get(block.args[0]) if block.op == "sym" else None)
    return -(-tile_length(ir, name) // size) if isinstance(size, int) else 1


def _element(ir: KernelIR) -> int:
    """Bytes of an element of what most of the loads of tiles read."""
    sizes = [itemsize(op.output.type.dtype) for op in ir.walk() if op.kind is OpKind.LOAD and op.output.dims]
    return max(set(sizes), key=sizes.count, default=4)


def _runs_per_transaction(ir: KernelIR) -> int:
    """How many contiguous runs a warp's narrowest transaction of memory is made of: 1 as a rule, more where an author's
    own block takes a shorter run of each row. A thread then loads as many times fewer elements at once."""
    runs = [1]
    for op in ir.walk():
        if op.kind is not OpKind.LOAD:
            continue
        access = AccessAttrs.of(op)
        tensor = ir.tensor(access.tensor)
        for item, size, stride in zip(access.index, tensor.shape, tensor.strides, strict=True):
            if isinstance(item, TileIndex) and stride.constant == 1 and (block := ir.tiles[item.tile].block.constant):
                is_whole = ir.hint(size) <= block  # then rows follow one another
                runs.append(1 if is_whole else TRANSACTION // (block * itemsize(tensor.dtype)))
    return max(runs)


def _reduces_runs(ir: KernelIR) -> bool:
    """Whether the author's own loops reduce rows, a block of neighbours at a time."""
    runs = _runs(ir)
    reduced = (op.values[0].dims[AxisAttrs.of(op).axis] for op in ir.walk() if op.kind is OpKind.REDUCE)
    longest = max(runs.values(), default=0)
    return any(AS_LONG * runs[symbol] >= longest > 0 for dim in reduced for symbol in dim.extent.symbols())


def _rows(ir: KernelIR, live: int) -> dict[str, int]:
    """How much of each whole dimension is held at once: 0 for all of it, as far as registers hold that. What a row
    that is only stored does at once all lives at once, and a loop over it reads nothing again."""
    wanted: dict[str, int] = {}
    tall, paired = tall_dims(ir, live, LIVE_ELEMENTS), _paired_rows(ir)
    for site, dim in rollable(ir).items():
        beside = _beside(ir, dim)
        size, kept = pow2(ir.hint(dim.extent)), LIVE_ELEMENTS // (2 if ROW.matches(site) else 1)
        # of two whole dimensions the longer one is rolled, of two as long the one that is farther apart in memory
        is_other = beside > size or (beside == size and _is_last(ir, dim))
        fits = beside * size <= ONE_PIECE or is_other
        wanted[site] = 0 if fits and size * live <= kept else max(LOOP_BLOCK // beside, 1)
        if dim in tall and wanted[site] == 0 and size > LOOP_BLOCK // RUN:
            wanted[site] = max(LOOP_BLOCK // (beside * RUN), 1)
        if size > JOINED_PIECE and _is_read_once(ir, site):
            wanted[site] = max(JOINED_BLOCK // beside, 1)
        if site == paired:
            wanted[site] = 1
    return wanted


def _paired_rows(ir: KernelIR) -> str:
    """The first of two whole dimensions, of which a tile has all pairs that one piece does not hold, where neither is
    farther apart in memory: a turn of its loop has one element, beside all of the other (losses of 200 x 200 quantiles
    12.7 ms by both whole, 0.55 so; H100, by hand, 2026-11-26). Empty where there is none."""
    last = {site: dim for site, dim in rollable(ir).items() if _is_last(ir, dim)}
    tiles = {frozenset(v.dims) for op in ir.walk() for v in op.outputs}
    for site, dim in last.items():
        size = pow2(ir.hint(dim.extent))
        others = [other for other in last.values() if other != dim and pow2(ir.hint(other.extent)) == size]
        is_met = any({dim, other} <= tile for other in others for tile in tiles)
        if is_met and _beside(ir, dim) == size and size**2 > ONE_PIECE:
            return site
    return ""


def _is_last(ir: KernelIR, dim: Dim) -> bool:
    """Whether loads have a dimension as their last."""
    return any(op.output.dims[-1:] == (dim,) for op in ir.walk() if op.kind is OpKind.LOAD)


def _beside(ir: KernelIR, dim: Dim) -> int:
    """The most elements of a register tile for each that it has along a whole dimension, blocks aside."""
    found = [1]
    for op in ir.walk():
        for dims in (v.dims for v in op.outputs if dim in v.dims and v not in on_the_way(ir)):
            whole = [d.extent for d in dims if d != dim and d.extent.symbols() <= ir.hints.keys()]
            found.append(prod(pow2(ir.hint(e)) for e in whole))
    return max(found)


def _is_read_once(ir: KernelIR, site: str) -> bool:
    """Whether reductions over a dimension that need one another are one loop over it. In one piece all of a row is
    there before the first of them ends, and a multiprocessor has no other loads meanwhile: logarithms of sums of
    exponentials of 4096 x 32768 numbers took 102 us so and take 68 (bfloat16, H200, by hand, 2026-11-26)."""
    if _loops(roll(ir, site)) != _loops(ir) + 1:
        return False
    follows, dim = set[Value](), rollable(ir)[site]
    for op in ir.walk():
        follows_one = not follows.isdisjoint(op.values)
        reduces = folded(op) == dim
        if reduces and follows_one:
            return True
        if reduces or follows_one:
            follows.update(op.outputs)
    return False


def _loops(ir: KernelIR) -> int:
    return sum(op.kind is OpKind.FOR for op in ir.walk())


def _whole(ir: KernelIR, wanted: Mapping[str, Choice]) -> int:
    """Elements of the largest register tile over dimensions that no block size changes; ``wanted``: how much of those
    that loops may be made for is held at once. A short vector that no tile of blocks has along with them is none of
    it: of the blocks each program has one more tile, not each element a row."""
    return max(_wholes(ir, wanted).values(), default=1)


def _wholes(ir: KernelIR, wanted: Mapping[str, Choice]) -> dict[frozenset[str], int]:
    """The same of the tiles that have certain blocks, by the symbols of these."""
    blocks = {dim: int(wanted[site]) for site, dim in rollable(ir).items()}
    sizes: dict[frozenset[str], int] = {}
    for op in ir.walk():
        for value in op.outputs:
            whole = [d for d in value.dims if d.extent.symbols() <= ir.hints.keys()]
            size = prod(blocks.get(d) or pow2(ir.hint(d.extent)) for d in whole)
            is_tile = size > SHORT_VECTOR or len(whole) < len(value.dims) or not ir.blocks
            if is_tile and value not in on_the_way(ir):
                symbols = block_symbols(ir, value)
                sizes[symbols] = max(sizes.get(symbols, 1), size)
    return sizes


@dataclass(frozen=True, slots=True)
class _Room:
    """The elements that a register tile has room for. ``most``: those up to which a block along memory has a run,
    whatever the ``budget``. ``wholes``: of tiles that have certain blocks, those of their whole dimensions."""

    budget: int
    most: int
    wholes: Mapping[frozenset[str], int]

    def beside(self, tile: frozenset[str]) -> int:
        """The elements of the whole dimensions of tiles that have these block symbols, and perhaps others. Those of a
        loop over a row of which all was reduced before have none."""
        return max((size for symbols, size in self.wholes.items() if tile <= symbols), default=1)


def block_sizes(
    ir: KernelIR, chunked: Collection[str], room: _Room, run: int, limits: Mapping[str, int] = NO_LIMITS
) -> dict[str, int]:
    """Blocks such that no register tile has more elements than its budget, those first along which most bytes lie next
    to each other. Where some tensors run along one block and others, of the same size, along another, as when a matrix
    is turned, each keeps a run of at least ``run``. ``limits``: of blocks."""
    tiles, blocks, longest = _meetings(ir), [b for b in _blocks(ir) if b.symbol not in chunked], _runs(ir).total()
    sizes: dict[str, int] = {}
    for block in blocks:
        beside = [tile - {block.symbol} for tile in tiles if block.symbol in tile]
        taken = max((prod(sizes.get(s, 1) for s in others) for others in beside), default=1)
        met = frozenset().union(*beside)
        kept = [
            min(RUN, pow2(b.length))
            for b in blocks
            if b.symbol in met - sizes.keys() and 0 < block.run <= AS_LONG * b.run
        ]
        budget, most = (whole // room.beside(frozenset({block.symbol})) for whole in (room.budget, room.most))
        size = min(max(max(budget, 1) // (taken * prod(kept)), 1), pow2(block.length))
        if longest <= AS_LONG * block.run and block.run:
            least = min(run, pow2(block.length))
            while taken * least > most and least > size:
                least //= 2
            size = max(size, least)
        sizes[block.symbol] = min(size, limits.get(block.symbol, size))
    return sizes


def _limits(ir: KernelIR, sizes: Mapping[str, int], row: int, target: Target) -> dict[str, int]:
    """Sizes of the grid's blocks by which programs that run through loops are enough for half of the multiprocessors,
    where that leaves each block as long as a transaction of memory. So do programs without loops that gather elements,
    down to an element a thread: a gather is a load of its own for each element, and the next to it no neighbour. Of
    many gathers a thread has one element from the start, and fewer registers wait: pictures that are warped took 137 us
    by four elements and 85 by one (12 loads), an advected field 660 and 501 (64), a round of a colouring 380 and 284
    (32), two more 0.92 and 0.99 of the time (H100, 2026-11-28). Where each turn needs what the one before left, two
    programs a multiprocessor wait in turns, down to a lane a neighbour: a gated recurrence in chunks took 658 us in 80
    programs and 187 in 640 (H200, by hand, 2026-11-26). Programs that hold long rows may hold one: two of 128256 words
    by 32 programs took 474 us, one by 64 293 (H200, 2026-11-29).
    ``row``: elements of a tile beside its blocks."""
    blocks = {ir.tiles[name].block.args[0] for name in ir.grid if ir.tiles[name].block.op == "sym"}
    limits = {symbol: size for symbol, size in sizes.items() if symbol in blocks}
    has_loop = any(op.kind is OpKind.FOR for op in ir.walk())
    lanes = MIN_WARPS * target.warp_size
    has_rows = not has_loop and row >= LONG_ROWS * lanes
    if not limits or chunks(ir) or not (has_loop or has_rows or _gathers(ir)):
        return {}  # chunks are as many as it takes
    while not has_loop and row == 1 and _gathers(ir) >= MANY_GATHERS and prod(limits.values()) > lanes:
        limits[max(limits, key=limits.__getitem__)] //= 2
    least = TRANSACTION // _element(ir) if has_loop or has_rows else lanes
    enough, runs = target.sm_count // 2, _runs(ir)
    if has_rows:  # few bytes lie along the others
        runs = Counter({symbol: run for symbol, run in runs.items() if runs.total() <= AS_LONG * run})
    if carries_chunks(ir):
        least, enough = min(least, target.warp_size), 2 * target.sm_count
    while prod(_tiles(ir, name, limits) for name in ir.grid) <= enough:
        above = {
            symbol: size
            for symbol, size in limits.items()
            if size > (least if runs[symbol] or not (has_loop or has_rows) else 1)
        }
        if not above:
            break
        limits[max(above, key=above.__getitem__)] //= 2
    if has_loop:
        limits |= _rows_for_warps(ir, {**sizes, **limits}, row, limits.keys(), target)
    return limits if any(sizes[symbol] > limit for symbol, limit in limits.items()) else {}


def _rows_for_warps(
    ir: KernelIR, sizes: Mapping[str, int], row: int, blocks: Collection[str], target: Target
) -> dict[str, int]:
    """Where no multiprocessor has two programs: the grid's blocks that take no neighbours, so short that it has warps
    to run while others wait, or that a thread has one element. Blocks of 128 rows of an author's 16 bytes each took 145
    us where those of 16 take 90 (16384 x 2048 bytes, H100, by hand, 2026-11-25)."""
    runs, found = _runs(ir), dict(sizes)
    rows = [symbol for symbol in blocks if not runs[symbol]]
    if prod(_tiles(ir, name, found) for name in ir.grid) > target.sm_count:
        return {}

    def used(symbol: str) -> int:
        return row * max((prod(found.get(s, 1) for s in tile) for tile in _meetings(ir) if symbol in tile), default=1)

    while rows and MIN_WARPS * prod(_tiles(ir, name, found) for name in ir.grid) < CHUNK_WARPS * target.sm_count:
        widest = max(rows, key=found.__getitem__)
        if found[widest] == 1 or used(widest) < 2 * MIN_WARPS * target.warp_size:
            break
        found[widest] //= 2
    return {symbol: found[symbol] for symbol in rows}


def _gathers(ir: KernelIR) -> int:
    """How many loads take elements along memory by an index that was loaded itself."""
    return sum(_is_gather(ir, op) for op in ir.walk() if op.kind is OpKind.LOAD)


def _is_gather(ir: KernelIR, load: Op) -> bool:
    access = AccessAttrs.of(load)
    items = zip(access.index, ir.tensor(access.tensor).strides, strict=True)
    return any(
        isinstance(item, ValueIndex)
        and item.axes
        and stride.constant == 1
        and follows_a_load(ir, load.inputs[item.input])
        for item, stride in items
    )


def _meetings(ir: KernelIR) -> list[frozenset[str]]:
    """The block symbols of each register tile: what two loops, one after the other, hold is never there together."""
    found = {block_symbols(ir, v) for op in ir.walk() for v in op.outputs}
    return sorted(found - {frozenset()}, key=sorted)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block symbol. ``length``: how far its loops run. ``run``: bytes of the tensors whose neighbours it takes.
    ``stride``: in the largest tensor that it indexes, between its lanes."""

    symbol: str
    length: int
    run: int
    stride: int


def _blocks(ir: KernelIR) -> list[_Block]:
    """Those along which most bytes lie next to each other first, then those of short strides."""
    lengths: dict[str, int] = {}
    for name, tile in ir.tiles.items():
        if tile.block.op == "sym":
            symbol = tile.block.args[0]
            lengths[symbol] = max(lengths.get(symbol, 1), likely_length(ir, name))
    runs, strides = _runs(ir), dict[str, tuple[int, int]]()
    for symbol, size, stride in _accesses(ir):
        strides[symbol] = min(strides.get(symbol, (0, 0)), (-size, ir.hint(stride)))
    longest = max((runs[symbol] for symbol in lengths), default=0)
    if RARE * longest < _woven_bytes(ir):
        runs, longest = Counter(), 0
    found = [_Block(s, n, runs[s], strides.get(s, (0, 0))[1]) for s, n in lengths.items()]
    return sorted(found, key=lambda b: (-b.run if AS_LONG * b.run >= longest else 0, b.stride))


def _woven_bytes(ir: KernelIR) -> int:
    """Those of the largest tensor, where a block's neighbours share its sectors though they are some elements apart, as
    rows of a last dimension of few bytes are; 0 for others. A vector beside it, as of a number for each picture, has
    next to no bytes that lie side by side: of 4096 x 4096 pixels of three bytes, times a number for each row, a program
    took one pixel of 1024 rows, by 126 registers and 615 instructions, where it takes 1024 of one row by 48 and 396
    (sm_90a, Triton 3.6)."""
    found = [(size, ir.hint(stride) * bytes_of) for symbol, size, stride, bytes_of in _indexed(ir) if symbol]
    largest = max((size for size, _ in found), default=0)
    return largest if any(size == largest and 0 < apart < SECTOR for size, apart in found) else 0


def _runs(ir: KernelIR) -> Counter[str]:
    """Bytes of the tensors whose neighbours each block takes; under no name, slices. Elements count as words: where a
    block takes none of its neighbours each one is a sector of its own, of whatever dtype (a gradient in float8 beside
    its transpose 1752 us by a row, 640 by four; H100, 2026-11-28)."""
    runs: Counter[str] = Counter()
    for symbol, size, stride, bytes_of in _indexed(ir):
        runs[symbol] += size // bytes_of * WORD * (stride.constant == 1)
    return runs


def _accesses(ir: KernelIR) -> Iterator[tuple[str, int, Expr]]:
    """The block symbol of each dimension that a tile or a slice indexes, the tensor's bytes, the stride."""
    return ((symbol, size, stride) for symbol, size, stride, _ in _indexed(ir))


def _indexed(ir: KernelIR) -> Iterator[tuple[str, int, Expr, int]]:
    """The same with the bytes of an element."""
    for op in ir.walk():
        if op.kind not in ACCESSES:
            continue
        tensor = ir.tensor(AccessAttrs.of(op).tensor)
        size = prod(ir.hint(n) for n in tensor.shape) * itemsize(tensor.dtype)
        for item, stride in zip(AccessAttrs.of(op).index, tensor.strides, strict=True):
            for tile in sorted(stepped_tiles(ir, op, item)):
                if (block := ir.tiles[tile].block).op == "sym":
                    yield block.args[0], size, stride, itemsize(tensor.dtype)
            if isinstance(item, SliceIndex):
                yield "", size, stride, itemsize(tensor.dtype)


def extent_length(ir: KernelIR, tile: str | None, extent: Expr) -> int:
    """How far a dimension runs in the traced example; of a block, how far the loops over such blocks do."""
    if tile is not None:
        return tile_length(ir, tile)
    if extent.symbols() <= ir.hints.keys():
        return ir.hint(extent)
    return max((tile_length(ir, n) for n, t in ir.tiles.items() if t.block.symbols() & extent.symbols()), default=1)
