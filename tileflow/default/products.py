"""First block sizes of regions with matrix products: by what the first product is (:mod:`chained_products`,
:mod:`single_products`), and what all of them are together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.attributes import AccessAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, ValueIndex
from ..ir.kinds import OpKind
from ..passes.transpose import is_loaded
from ..schedule.parts import parts_of
from ..space.knobs import NUM_STAGES, NUM_WARPS, STAGES
from ..space.names import loop_site
from ..target import Target
from .as_loops import as_loops
from .chained_products import chain_config, chained_product
from .chunks import chunk_sizes
from .few_rows import MANY_PROGRAMS
from .gathers import gather_config
from .longest_first import longest_first
from .operands import operands_of
from .output_blocks import MOST_WARPS
from .single_products import lone_config
from .sizes import pow2, programs, register_elements, symbol, times
from .small_tiles import MANY_SUMS, sums_after_loops
from .specialised import specialised_config

REGISTERS = 256  # that a thread has at most
MATRIX_ROWS = 16  # of a tile that one warp multiplies
LANE_SUMS = 64  # of such a tile
PART_LENGTH = 512  # least numbers that a part of the inner dimension sums over


def product_config(ir: KernelIR, target: Target, pipelined: bool = False, unaligned: bool = False) -> dict[str, Choice]:
    """The knobs of a region with products that should not have their plain defaults. ``unaligned``: of a variant that
    assumes nothing of where rows begin and end."""
    wanted = chunk_sizes(ir, target.sm_count, {})
    looped = as_loops(ir)
    dots = [op for op in looped.walk() if op.kind is OpKind.DOT]
    scores = chained_product(dots)
    wanted |= chain_config(looped, scores, target) if scores else lone_config(looped, dots[0], target, unaligned)
    wanted |= _parts_of_inner(ir, wanted, target)
    wanted |= _warps_for_sums(looped, dots, wanted, target) or _warps_of_few_rows(looped, dots, target)
    wanted |= _warp_of_small_sums(looped, dots, target)
    wanted |= gather_config(ir, target) | _vectors_ahead(ir, wanted, target)
    if not pipelined:
        wanted |= specialised_config(ir, wanted, target)
    return wanted | longest_first(looped, wanted, target)


def warps_of_products(regions: Sequence[KernelIR]) -> dict[str, int]:
    """The most warps of each region with products, by the knob's name: where tiles take more registers than these have,
    blocks shrink. By 32 warps of 64 registers each, rows of 512 numbers by 32 others' took 44.5 ms, 64 by 64 by 8 warps
    8.2 (1024 x 100000, bfloat16, H100, by hand, 2026-11-26)."""
    return {NUM_WARPS.name(ir): MOST_WARPS for ir in regions if any(op.kind is OpKind.DOT for op in ir.walk())}


def _warps_for_sums(
    ir: KernelIR, dots: Sequence[Op], wanted: Mapping[str, Choice], target: Target
) -> dict[str, Choice]:
    """More warps where sizes that are the author's, not blocks, make sums that no thread of fewer has registers for:
    scores of 256 x 256 spill 600 bytes a thread of eight warps, 1936 of four."""
    warps = wanted.get(NUM_WARPS.name(ir), NUM_WARPS.default)
    fixed = [op.output for op in dots if all(d.extent.constant is not None for d in op.output.dims[-2:])]
    sums = max((prod(pow2(d.extent.evaluate({})) for d in v.dims[-2:]) for v in fixed), default=0)
    assert isinstance(warps, int)
    few = sums > REGISTERS * warps * target.warp_size
    return {NUM_WARPS.name(ir): MOST_WARPS} if few and warps < MOST_WARPS else {}


def _warps_of_few_rows(ir: KernelIR, dots: list[Op], target: Target) -> dict[str, Choice]:
    """One warp, where each program has products of few rows whose sizes are all the author's, as of a group of heads
    with chosen keys, and programs are many: several warps would share one tile of the matrix unit's rows, and meet at a
    barrier for each sum over columns. 1072 us by four warps, 885 by one (16 x 64 x 128, H200, by hand, 2026-11-26)."""
    if ir.blocks or any(d.extent.symbols() - ir.hints.keys() for op in dots for v in op.values for d in v.dims):
        return {}
    rows = max(ir.hint(operands_of(op)[0].dims[-2].extent) for op in dots)
    sums = max(register_elements(op.output, ir.hints) for op in dots)
    enough = programs(ir, {}) >= MANY_PROGRAMS * target.sm_count
    is_small = rows <= MATRIX_ROWS and sums <= LANE_SUMS * target.warp_size
    return {NUM_WARPS.name(ir): 1} if enough and is_small else {}


def _warp_of_small_sums(ir: KernelIR, dots: list[Op], target: Target) -> dict[str, Choice]:
    """One warp, with two elements a lane of each turn, where sums of sizes that are the author's are one tile of the
    matrix unit or less, and are taken apart afterwards, as normal equations are that each program solves: each element
    that is chosen of them is a sum across warps, which all wait for. Ridges of four unknowns over 65536 rows of 124
    numbers, us: 683 by four warps, 386 by two, 292 by one, with 64 numbers a turn 662 by four, 137 by one (H100,
    2026-11-29)."""
    if any(d.extent.symbols() - ir.hints.keys() for op in dots for d in op.output.dims):
        return {}
    sums = max(register_elements(op.output, ir.hints) for op in dots)
    enough = programs(ir, {}) >= MANY_PROGRAMS * target.sm_count
    if target.vendor != "nvidia" or not enough or sums > MATRIX_ROWS**2 or sums_after_loops(ir) < MANY_SUMS:
        return {}
    inner = [operands_of(op)[0].dims[-1] for op in dots]
    turns = {symbol(d): 2 * target.warp_size // times(d) for d in inner if symbol(d) and symbol(d) not in ir.hints}
    return {NUM_WARPS.name(ir): 1, **turns}


def _vectors_ahead(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """Stages of a loop's own, where its turns read vectors that no product takes, a number for each key, say: Triton
    loads these ahead only if the loop itself says so. Two vectors beside scores of 128 x 128: 799 us by the launch's
    stages, 474 by the loop's; one beside 255 registers 1.01 times as long (H200, 2026-11-30). What is gathered, and
    matrices, were slower so (1.0 to 2.5 times)."""
    found: dict[str, Choice] = {}
    stages = wanted.get(NUM_STAGES.name(ir), NUM_STAGES.default)
    for loop in ir.walk() if target.vendor == "nvidia" and stages != 1 else ():
        if loop.kind is not OpKind.FOR:
            continue
        tile, (turn,) = TileAttrs.of(loop).tile, loop.regions
        vectors = any(op.kind is OpKind.LOAD and _is_vector_of(op, tile) for op in turn.ops)
        if vectors and any(op.kind is OpKind.DOT for op in turn.ops):
            found[STAGES.name(loop_site(ir, tile))] = stages
    return found


def _is_vector_of(load: Op, tile: str) -> bool:
    """Whether it has an element of memory for each of the tile, next to each other."""
    names = [item for item in AccessAttrs.of(load).index if isinstance(item, ValueIndex)]
    return not names and [dim.tile for dim in load.output.dims] == [tile]


def _parts_of_inner(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """As many parts of an inner dimension as there are multiprocessors for each tile of the result: each further one
    costs sums in memory and gains nothing (split-K of 64 x 8192 in four parts had 0.77 of cuBLAS's speed on an H200, in
    one 0.99).

    Where the author has a tunable for the number of parts, and operands are as they were loaded: where they are
    computed, further parts share that work, too.
    """
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    divided = [found for op in loops if (found := parts_of(ir, TileAttrs.of(op).tile)) is not None]
    operands = [v for op in ir.walk() if op.kind is OpKind.DOT for v in operands_of(op)]
    if len(divided) != 1 or not all(is_loaded(v, ir.definitions) for v in operands):
        return {}
    (whole,) = divided
    count = ir.tiles[whole.tile].end
    if not isinstance(count, Expr) or count.op != "sym" or not count.args[0].startswith("tunable:"):
        return {}
    parts = min(target.sm_count // max(programs(ir, wanted), 1), ir.hint(whole.whole) // PART_LENGTH)
    return {count.args[0]: pow2(parts + 1) // 2 if parts > 1 else 1}
