"""First block sizes of regions that move bytes: whole contiguous runs, many loads in flight, no idle multiprocessor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.attributes import AxisAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, walk
from ..ir.kinds import OpKind
from ..ir.pressure import live_tiles
from ..passes.cluster_loops import shared_loops
from ..passes.roll import rollable
from ..space.knobs import NUM_STAGES, NUM_WARPS
from ..target import Target
from .chunks import chunk_sizes, chunks
from .columns import reduced_column_config, shared_column_config
from .contended_sums import contended_config
from .exchanges import (
    column_config,
    exchange_config,
    lone_warp_config,
    rounds_config,
    row_warp_config,
    sorted_column_config,
)
from .few_programs import CHUNK_WARPS, MIN_WARPS, block_limits
from .gathers import gather_config, kept_place_config
from .held_rows import LIVE_ELEMENTS, held_rows, whole_elements, whole_elements_beside
from .histograms import histogram_config
from .lanes import crossing_config, own_rows_config
from .memory_recurrences import memory_recurrence_config
from .pairs import carried_pair_config, pair_config, pair_limits
from .ragged import STAGES, ragged_config, ragged_limits, short_row_config
from .recurrences import busy_config, carries_chunks, recurrence_config, recurrences, warps_that_fill
from .runs import (
    AS_LONG,
    SECTOR,
    WORD,
    blocks_along_memory,
    element_bytes,
    reduces_runs,
    runs_along,
    runs_per_transaction,
)
from .shared_choices import shared_choice_config
from .shared_sums import shared_sum_config
from .sizes import chosen_sizes, meetings, pow2, programs, register_elements
from .slow_paths import slow_path_config
from .small_tiles import holds_matrices, matrix_elements, warps_for_loads, woven_limits
from .step_sums import step_sum_config
from .tables import table_config
from .whole_tiles import whole_tile_warps
from .windows import neighbour_config, window_config, window_loads

PROGRAM_BYTES = 1 << 13  # of the tensor with the shortest elements
BYTES_PER_THREAD = 128  # eight loads of the widest kind in flight
LIVE_REGISTERS = 128  # that a thread spends on tiles, as a rule
ROW_REGISTERS = 256  # where rows are reduced: what the next sum needs is computed anew or read again
MOST_FILLING = 8  # warps of a program with loops, where programs are few
FEW_WARPS = 8  # of a multiprocessor, which wait for the same turns' loads and reductions
LONG_TURN = 64  # elements of a lane in turns that are made longer
SCANNED = 1 << 15  # elements of whole columns or rows of which a lane has as many as it can: a barrier for each warp
LANE_LOADS = 16  # elements that a lane loads, where what it makes of them is summed at once
RUN = 32  # neighbours that a block takes although another one was first
NO_LIMITS: Mapping[str, int] = MappingProxyType({})
LEAST_WINDOW = 5  # loads of elements apart from which on they decide


def streaming_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The knobs of a region without products that should not have their plain defaults."""
    if columns := reduced_column_config(ir, target) or shared_column_config(ir, target):
        return columns
    wanted: dict[str, Choice] = {}
    chunked = chunks(ir)
    live = max(live_tiles(ir), 1)
    wanted |= held_rows(ir, live)
    row = whole_elements(ir, wanted)
    if row == 1 and not chunked and window_loads(ir) >= LEAST_WINDOW:
        return wanted | window_config(ir, target, [(b.symbol, b.length) for b in blocks_along_memory(ir)])
    per_thread = _loaded_by_a_thread(ir, live, row)
    scans = row > 1 and any(op.kind is OpKind.SCAN for op in ir.walk())
    is_summed = row > 1 and live * element_bytes(ir) <= WORD and not scans  # what a thread loads is summed at once
    matrices = holds_matrices(ir, row)
    budget = PROGRAM_BYTES * per_thread // BYTES_PER_THREAD
    budget = matrix_elements(ir, row, element_bytes(ir), target) if matrices else budget
    most = min(LIVE_ELEMENTS // live, target.smem_per_block // element_bytes(ir))  # one may be turned around there
    room = _Room(budget, most, whole_elements_beside(ir, wanted))
    run = RUN if is_summed else max(SECTOR // element_bytes(ir), 1)
    run = 2 * run if scans and 2 * run * row <= SCANNED else run
    sizes = block_sizes(ir, chunked, room, run)
    ragged = ragged_limits(ir, sizes, target)
    limits = _least(block_limits(ir, sizes, row, target), pair_limits(ir, sizes), woven_limits(ir, sizes), ragged)
    if limits:
        sizes = block_sizes(ir, chunked, room, run, limits)
    wanted |= sizes
    used = max(room.beside(tile) * prod(sizes.get(s, 1) for s in tile) for tile in [*meetings(ir), frozenset[str]()])
    share = pow2(ROW_REGISTERS // live + 1) // 2 if scans else per_thread * (2 if is_summed else 1)
    warps = 1 if matrices else _warps_for(used, share, target)
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
    wanted |= histogram_config(ir, wanted, target)
    rules = (table_config, kept_place_config, short_row_config, busy_config)  # which say that a loop has one stage
    return wanted | {knob: choice for rule in rules for knob, choice in rule(ir, wanted, target).items()}


def _loaded_by_a_thread(ir: KernelIR, live: int, row: int) -> int:
    """Elements that a thread loads at once: as many bytes as are worth having on their way, as far as it has registers
    for ``live`` tiles of them."""
    registers = ROW_REGISTERS if row > 1 or reduces_runs(ir) else LIVE_REGISTERS
    per_thread = min(BYTES_PER_THREAD // element_bytes(ir), pow2(registers // live + 1) // 2 or 1)
    return max(per_thread // runs_per_transaction(ir), 1)


def _warps_for(used: int, share: int, target: Target) -> int:
    """Warps for so many elements, of which a thread has its share; not few for more than those few could hold."""
    warps = max(min(used // (target.warp_size * share), 1024 // target.warp_size), 1)
    return max(warps, MIN_WARPS if used >= MIN_WARPS * target.warp_size else 1)


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
    tiles, blocks, longest = (
        meetings(ir),
        [b for b in blocks_along_memory(ir) if b.symbol not in chunked],
        runs_along(ir).total(),
    )
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
