"""First block sizes of regions with matrix products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import in_full_precision
from ..ir.attributes import AccessAttrs, TileAttrs, site_of
from ..ir.graph import KernelIR, Op, ValueIndex
from ..ir.kinds import OpKind
from ..ir.pressure import beside_products
from ..ir.types import Dim, Value, itemsize
from ..passes.subtile import epilogue, subtilable
from ..passes.transpose import is_loaded, transposable
from ..passes.unit_batches import batch_blocks
from ..schedule.parts import parts_of
from ..space.access import access_knobs
from ..space.grids import growing_tiles
from ..space.knobs import (
    DESCENDING,
    FLATTEN,
    GROUP,
    LOAD_ACCESS,
    MAXNREG,
    NUM_STAGES,
    NUM_WARPS,
    ORDER,
    PERSISTENT,
    PRECISION,
    STORE_ACCESS,
    SUBTILE,
    TRANSPOSED,
    definition,
)
from ..space.precisions import parts_of_product
from ..space.warp_groups import LEAST_COLUMNS, ROWS_OF_A_WARP
from ..target import Target
from .as_loops import as_loops
from .gathers import gather_config
from .longest_first import longest_first
from .operands import comes_by_element, contiguous_along, needs_box
from .sizes import pow2, programs, symbol, times
from .specialised import specialised_config
from .streaming import chunk_sizes, extent_length

FEW_ROWS = 64
HALF_OF_REGISTERS = 128
MOST_SUMS = 192  # registers of a thread for products and what is alive beside them
MOST_PIPELINED = 2  # products in a turn of a loop whose operands AMD's registers hold a turn ahead
Shapes = tuple[tuple[int, int, int], ...]  # rows, columns and warps of output blocks, the best first
DIRECT: Shapes = ((128, 256, 8), (128, 128, 8), (64, 256, 4), (64, 128, 4), (64, 64, 4))
# tall where the right operand is made in registers, which each program does anew
COMPUTED: Shapes = ((256, 64, 4), (128, 64, 4))
# small enough for two blocks a multiprocessor: one unpacks while the other multiplies
TURNED: Shapes = ((128, 128, 8), (128, 64, 4))
# in full precision: where the inner dimension is cut into blocks, and where it is whole
PRECISE: Shapes = ((128, 128, 8), (128, 64, 8), (64, 64, 4))
PRECISE_WHOLE: Shapes = ((64, 64, 8),)
PRECISE_INNER = 16
# in parts, by the matrix units
TF32_PARTS: Shapes = ((128, 64, 4), (64, 64, 4))
BF16_PARTS: Shapes = ((128, 128, 8), (128, 64, 4), (64, 64, 4))
PARTS_INNER = 32
# where a program holds more sums than those have registers for: other products', or whole rows of the result
MANY_SUMS_IN_PARTS: Shapes = ((64, 64, 8), (32, 64, 8), (16, 64, 8))
MOST_SUMS_IN_PARTS = 96  # registers of a thread: beside 64, operands that are split take another 146
# where operands come an element at a time: few elements for each of many threads, which have registers for all of them
BY_ELEMENT: Shapes = ((128, 64, 8), (64, 64, 8))
LEFT_BY_ELEMENT: Shapes = ((64, 128, 8), (64, 64, 8))
# both operands so, of 16 bits: 32 or 24 elements a thread each turn
BOTH_BY_ELEMENT: Shapes = ((128, 128, 16), (128, 64, 16))
BOTH_AT_RUN_TIME: Shapes = ((128, 64, 16),)
RIGHT_AT_RUN_TIME: Shapes = ((64, 128, 16),)  # where the right operand alone lies along the inner dimension
INNER_WITH_MASKS = 32
PARTS_BY_ELEMENT: Shapes = ((64, 64, 4),)
PARTS_AT_RUN_TIME = (128, 64, 8)
AS_MANY_AS_IT_TAKES = 168  # registers: with a limit ptxas uses those below it for loads in flight, without one it saves
REGISTERS = 256  # that a thread has at most
MOST_WARPS = 8
WIDE_HEAD = 128  # from here on the operands of chained products fill the registers of a smaller block
MATRIX_ROWS = 16  # of a tile that one warp multiplies
LANE_SUMS = 64  # of such a tile
MANY_PROGRAMS = 16  # of a multiprocessor
FEWEST_ROWS = 64  # of a block that a warp group multiplies
FEWEST_COLUMNS, FEWEST_COMPUTED = 16, 32  # of a block of few rows; where its right operand is computed
LEAST_STAGES = 3  # of operands, for a program to walk over tiles
LONG = 16  # turns from which on they may be twice as long
FEW_TURNS = 8  # the same, of turns that wait for elements
PART_LENGTH = 512  # least numbers that a part of the inner dimension sums over


def product_config(ir: KernelIR, target: Target, pipelined: bool = False, unaligned: bool = False) -> dict[str, Choice]:
    """The knobs of a region with products that should not have their plain defaults. ``unaligned``: of a variant that
    assumes nothing of where rows begin and end."""
    wanted = chunk_sizes(ir, target.sm_count, {})
    looped = as_loops(ir)
    dots = [op for op in looped.walk() if op.kind is OpKind.DOT]
    chained = _chained(dots)
    wanted |= _chain(looped, chained, target) if chained else _lone(looped, dots[0], target, unaligned)
    wanted |= _parts_of_inner(ir, wanted, target)
    wanted |= _warps_for_sums(looped, dots, wanted, target) or _warps_of_few_rows(looped, dots, target)
    wanted |= gather_config(ir, target)
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
    rows = max(ir.hint(_operands(op)[0].dims[-2].extent) for op in dots)
    sums = max(_elements(op.output, ir.hints) for op in dots)
    enough = programs(ir, {}) >= MANY_PROGRAMS * target.sm_count
    is_small = rows <= MATRIX_ROWS and sums <= LANE_SUMS * target.warp_size
    return {NUM_WARPS.name(ir): 1} if enough and is_small else {}


def _operands(op: Op) -> tuple[Value, Value]:
    a, b = op.inputs[:2]
    assert isinstance(a, Value) and isinstance(b, Value)
    return a, b


def _chained(dots: list[Op]) -> Op | None:
    """The first product whose columns are what another one sums over, as scores are in attention."""
    inner = {symbol(_operands(op)[0].dims[-1]) for op in dots} - {""}
    return next((op for op in dots if symbol(_operands(op)[1].dims[-1]) in inner), None)


def _chain(ir: KernelIR, scores: Op, target: Target) -> dict[str, Choice]:
    """Attention's shape (FlashAttention-2; Dao, 2023, arXiv:2307.08691): few rows a program, so that several programs
    share a multiprocessor and one's exponentials run beside another's products."""
    a, b = _operands(scores)
    wide = pow2(extent_length(ir, a.dims[-1].tile, a.dims[-1].extent)) >= WIDE_HEAD
    loops = [
        op for op in ir.walk() if op.kind is OpKind.FOR and any(inner.kind is OpKind.DOT for inner in op.regions[0].ops)
    ]
    products = max((sum(inner.kind is OpKind.DOT for inner in op.regions[0].ops) for op in loops), default=0)
    if target.vendor == "nvidia" and in_full_precision(scores):
        return _precise_chain(ir, scores, 32 if products > MOST_PIPELINED and not wide else 64, target)
    # half of a causal tile on the diagonal is masked: 64 keys waste less of it, at 1.0 to 1.2 times the speed of 128
    # for heads of 64 (H200, 2026-11-26)
    is_causal = target.has_wgmma and products == MOST_PIPELINED and len(loops) == 1 and bool(growing_tiles(ir))
    narrow = wide or is_causal or _has_gathered(ir, scores)
    rows, columns, warps, stages = (64, 64, 4, 3) if narrow else (64, 128, 4, 2)
    blocks = {symbol(a.dims[-2]): rows, symbol(b.dims[-1]): columns}
    if wide and products > MOST_PIPELINED:  # gradients: two tiles of scores at a time
        if products == MOST_PIPELINED + 1:  # with one sum, not two, in registers
            rows, columns, warps = 128, 32, 8
        elif target.has_wgmma and _two_share(ir, blocks, 2, target):
            stages = 2
        else:
            columns = 32
    elif len(loops) > 1 or (target.has_wgmma and not _two_share(ir, blocks, stages, target)):
        # programs of two loops are of unequal length, as a rule, and the second loop short: fewer and larger ones
        rows, warps, stages = 128, 8, 2
    if target.vendor == "amd":  # where what is loaded ahead waits in registers
        stages = 2 if products <= MOST_PIPELINED else 1
    wanted: dict[str, Choice] = dict.fromkeys(batch_blocks(ir), 1)
    wanted |= {symbol(a.dims[-2]): rows, symbol(b.dims[-1]): columns}
    wanted[NUM_WARPS.name(ir)] = warps
    wanted[NUM_STAGES.name(ir)] = stages
    wanted[DESCENDING.name(ir)] = True
    return wanted | _boxes(ir, target)


def _has_gathered(ir: KernelIR, scores: Op) -> bool:
    """Whether something as wide as the scores is gathered for them, as a bias from a table is: an address for each
    takes the registers of scores (560 spilled bytes a thread at 64 x 128 on an H200, none at 64 x 64)."""
    own = {symbol(d) for d in scores.output.dims[-2:]}
    return any(_gathers(op, 2) and own <= {symbol(d) for d in op.output.dims} for op in ir.walk())


def _gathers(op: Op, axes: int) -> bool:
    """Whether an op loads what a tile of ints of so many dimensions names."""
    if op.kind is not OpKind.LOAD:
        return False
    return any(isinstance(item, ValueIndex) and len(item.axes) >= axes for item in AccessAttrs.of(op).index)


def _precise_chain(ir: KernelIR, scores: Op, columns: int, target: Target) -> dict[str, Choice]:
    """Chained products in full precision: operands that are split take registers, of which a block of 128 x 128 would
    leave none (10 KB spilled a thread), and two parts of 32 bits take more than three of 16. On an H200 attention has
    1.3 to 1.8 times the speed of torch's so, with smaller errors; by multiply-adds a third of it."""
    a, b = _operands(scores)
    wanted: dict[str, Choice] = dict.fromkeys(batch_blocks(ir), 1)
    wanted |= {symbol(a.dims[-2]): 64, symbol(b.dims[-1]): columns}
    wanted |= {NUM_WARPS.name(ir): 4, NUM_STAGES.name(ir): 2, DESCENDING.name(ir): True}
    offered = {
        PRECISION.name(site_of(op)): parts_of_product(ir, op, target) for op in ir.walk() if op.kind is OpKind.DOT
    }
    parts = {name: "bf16x6" if "bf16x6" in found else found[0] for name, found in offered.items() if found}
    return wanted | parts | _boxes(ir, target)


def _two_share(ir: KernelIR, blocks: dict[str, int], stages: int, target: Target) -> bool:
    """Whether two programs under such blocks share a multiprocessor whose warp groups take operands from shared memory,
    those of a loop once a stage. A quarter of its registers is for addresses and the like."""
    sizes = {**dict.fromkeys((block.name for block in ir.blocks), 1), **ir.hints, **blocks}
    held = max(sum(_elements(v, sizes) for v in tiles) for tiles in beside_products(ir))
    turns = [op.regions[0] for op in ir.walk() if op.kind is OpKind.FOR]
    repeated = {op.output for turn in turns for op in turn.ops if op.kind is OpKind.LOAD}
    staged = sum(_elements(v, sizes) * itemsize(v.type.dtype) * (stages if v in repeated else 1) for v in _loads(ir))
    return 2 * held <= target.regs_per_sm * 3 // 4 and 2 * staged <= target.smem_per_sm


def _loads(ir: KernelIR) -> set[Value]:
    """What products take as a load brought it, perhaps permuted."""
    makers = ir.definitions
    operands = {v for op in ir.walk() if op.kind is OpKind.DOT for v in _operands(op)}
    sources = {makers[v].values[0] if v in makers and makers[v].kind is OpKind.PERMUTE else v for v in operands}
    return {v for v in sources if v in makers and makers[v].kind is OpKind.LOAD}


def _elements(value: Value, sizes: Mapping[str, int]) -> int:
    """Elements of a tile in registers, where each dimension is a power of two."""
    return prod(pow2(d.extent.evaluate(sizes)) for d in value.dims)


def _boxes(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """Descriptors wherever the target has a copy engine."""
    return {k.name: "descriptor" for k in access_knobs(ir, target) if definition(k.name) in (LOAD_ACCESS, STORE_ACCESS)}


def _lone(ir: KernelIR, op: Op, target: Target, unaligned: bool) -> dict[str, Choice]:
    """A region whose first product none takes columns of."""
    return _single(ir, op, target, unaligned) | _plane(ir, op)


def _single(ir: KernelIR, op: Op, target: Target, unaligned: bool) -> dict[str, Choice]:
    """One product: an output block as large as leaves every multiprocessor a program. A multiprocessor with one small
    block waits for memory, so that its turns are twice as long: at 1.3 to 1.4 times the speed for 128 x 4096 x 4096 and
    128 x 8192 x 8192 in bfloat16."""
    a, b = _operands(op)
    dims = a.dims[-2], b.dims[-1], a.dims[-1]
    lengths = [extent_length(ir, d.tile, d.extent) for d in dims]
    batch = 1
    for d in a.dims[:-2]:
        batch *= extent_length(ir, d.tile, d.extent)
    for name in ir.grid:
        if ir.tiles[name].block.constant == 1:
            batch *= extent_length(ir, name, ir.tiles[name].block)
    direct = is_loaded(b, ir.definitions)
    turned = site_of(op) in transposable(ir) and target.has_wgmma
    if target.vendor == "nvidia" and in_full_precision(op):
        return _precise(ir, op, lengths, batch, target, unaligned)
    if pow2(lengths[0]) <= FEW_ROWS:
        return _skinny(ir, op, lengths, direct, turned, target)
    by_element = [comes_by_element(ir, v, target, unaligned) for v in (a, b)]
    if direct and target.has_wgmma and any(by_element):
        return _by_element(ir, op, lengths, batch, target, by_element, unaligned)
    together = beside_products(ir)
    shapes = _in_registers(ir, op, DIRECT if direct else TURNED if turned else COMPUTED, target)
    shapes = _in_registers(ir, op, _rows_beside_few_columns(ir, target), target) or shapes
    m, n, warps = _output_block(_across(ir, dims, lengths), batch, shapes, target)
    k = 128 // itemsize(a.type.dtype) if target.vendor == "nvidia" else 64
    tiles = batch * -(-lengths[0] // m) * -(-lengths[1] // n)
    has_blocks = symbol(dims[1]) in {block.name for block in ir.blocks}
    is_lone = tiles <= target.sm_count and has_blocks and lengths[2] >= LONG * k
    if direct and target.has_wgmma and m == FEWEST_ROWS and is_lone:
        k *= 2
    wanted: dict[str, Choice] = {symbol(d): 1 for d in a.dims[:-2]}
    sizes = m, n, min(k, max(pow2(lengths[2]), 16))
    wanted |= {symbol(d): max(size // times(d), 1) for d, size in zip(dims, sizes, strict=True)}
    wanted[TRANSPOSED.name(site_of(op))] = turned
    wanted[NUM_WARPS.name(ir)] = warps
    wanted[NUM_STAGES.name(ir)] = (4 if direct or turned else 3) if target.vendor == "nvidia" else 2
    wanted[GROUP.name(ir)] = 8
    if m * n >= HALF_OF_REGISTERS * warps * target.warp_size:
        wanted |= _halves(ir)
    walks = programs(ir, wanted) > target.sm_count and not turned  # transposed products are slower so
    if walks and _boxes(ir, target) and _has_stages_beside_stores(ir, wanted, target):
        wanted |= _persistent(ir)
        # one loop has the sums of a tile and of the next, which leaves no registers for other products or for addresses
        gathered = any(_gathers(ir.definitions[v], 1) for v in (a, b) if v in ir.definitions)
        wanted[FLATTEN.name(ir)] = max(map(len, together)) == 1 and not gathered
    return wanted | _boxes(ir, target)


def _rows_beside_few_columns(ir: KernelIR, target: Target) -> Shapes:
    """Rows enough for two warp groups to share a product of fewer columns than an instruction has, as a network's last
    layer is: with 64 rows such a launch has two warps, and none of its products a warp group (1048576 positions through
    layers of 64, four columns last: 313 us so, 101 by 256 rows in eight warps; H100, by hand, 2026-11-26)."""
    dots = [op for op in ir.walk() if op.kind is OpKind.DOT] if target.has_warp_groups else []
    lengths = {d.extent: extent_length(ir, d.tile, d.extent) for op in dots for d in op.output.dims[-1:]}
    columns, widest = pow2(min(lengths.values(), default=LEAST_COLUMNS)), pow2(max(lengths.values(), default=0))
    rows = MOST_WARPS * ROWS_OF_A_WARP * LEAST_COLUMNS // columns
    return ((rows, widest, MOST_WARPS),) if columns < LEAST_COLUMNS else ()


def _plane(ir: KernelIR, op: Op) -> dict[str, Choice]:
    """Rows and columns of the result as the two fastest axes, wherever the author has others: bands of tiles are of
    these two. Those of columns and parts of the inner dimension shared no rows in the second-level cache."""
    a, b = _operands(op)
    own = [n for n, name in enumerate(ir.grid) if name in (a.dims[-2].tile, b.dims[-1].tile)]
    others = [n for n in range(len(ir.grid)) if n not in own]
    if len(own) < 2 or not others:
        return {}
    return {ORDER.name(ir): ",".join(map(str, (*others, *own)))}


def _by_element(
    ir: KernelIR, op: Op, lengths: list[int], batch: int, target: Target, which: list[bool], unaligned: bool
) -> dict[str, Choice]:
    """A product with an operand that comes an element at a time, through registers: blocks short along it, two programs
    a multiprocessor to wait in turns, and pointers for the other operand too, whose box's barrier would cost the
    assembler the registers of all loads but a few at a time (:mod:`operands`). Where both come so, larger blocks load
    less, one program a multiprocessor has enough to do, and 16 warps of it have registers for all loads in flight: at
    1.0 to 2.6 times the speed of 8 (by hand, H200, 2026-11-24, 16 bits, ten problems of odd sizes in four layouts).
    Strides of run time: 0.95 to 1.6 times that of 64 x 64 by 8 (H100, 2026-11-26, three problems in four layouts).

    Turns are twice as long where programs are few, or strides are known at run time alone: 1.05 to 1.46 times the speed
    (H100, 2026-11-27, 16 problems); not where both operands lie along the inner dimension, whose elements' masks would
    be spilled."""
    a, b = _operands(op)
    both = all(which) and itemsize(a.type.dtype) == itemsize(b.type.dtype) == 2
    by_element = BOTH_BY_ELEMENT if both else BY_ELEMENT if which[1] else LEFT_BY_ELEMENT
    at_run_time = any(stride.constant is None for tensor in ir.tensors for stride in tensor.strides)
    if both and (unaligned or at_run_time):  # each element has an address of its own in registers
        right = contiguous_along(ir, b, -2) and not contiguous_along(ir, a, -1)
        by_element = RIGHT_AT_RUN_TIME if right else BOTH_AT_RUN_TIME

    def tiles(shape: tuple[int, int, int]) -> int:
        return batch * -(-lengths[0] // shape[0]) * -(-lengths[1] // shape[1])

    shapes = _in_registers(ir, op, by_element, target)
    if both and not shapes:
        both, by_element = False, BY_ELEMENT
    elif both and 2 * tiles(by_element[-1]) < target.sm_count:
        shapes = BY_ELEMENT[-1:]
    shapes = shapes or by_element[-1:]
    if unaligned and not both:
        shapes = by_element[-1:]
    least = 0.9 * target.sm_count if all(which) else 2 * target.sm_count

    m, n, warps = next((shape for shape in shapes if tiles(shape) >= least), shapes[-1])
    k = min(128 // itemsize(a.type.dtype), max(pow2(lengths[2]), 16))
    is_largest = (m, n, warps) == BOTH_BY_ELEMENT[0]
    if is_largest and _has_masks_of_rows(ir, op, lengths, (m, n)):
        k = min(k, INNER_WITH_MASKS)
    if not is_largest and not _lie_along_inner(ir, op) and not unaligned and lengths[2] >= FEW_TURNS * k:
        # of fewer programs of 8 warps two share each multiprocessor, as blocks of clusters (:mod:`cluster_sums`)
        alone = warps > MOST_WARPS and tiles((m, n, warps)) <= target.sm_count
        paired = warps == MOST_WARPS and target.sm_count < tiles((m, n, warps)) <= 2 * target.sm_count
        k *= 2 if alone or paired or (both and at_run_time) else 1
    wanted: dict[str, Choice] = {symbol(d): 1 for d in a.dims[:-2]}
    dims = a.dims[-2], b.dims[-1], a.dims[-1]
    wanted |= {symbol(d): max(size // times(d), 1) for d, size in zip(dims, (m, n, k), strict=True)}
    boxes = {name: choice for name, choice in _boxes(ir, target).items() if definition(name) is STORE_ACCESS}
    launch = {NUM_WARPS: warps, NUM_STAGES: 4, GROUP: 8}
    limit = {} if both else {MAXNREG: AS_MANY_AS_IT_TAKES}  # 16 warps cannot have as many
    return wanted | {knob.name(ir): choice for knob, choice in (launch | limit).items()} | boxes


def _has_masks_of_rows(ir: KernelIR, op: Op, lengths: list[int], block: tuple[int, int]) -> bool:
    """Whether both operands lie along the inner dimension and have rows beyond the last: each row that a thread loads
    of takes a mask's registers then (152 bytes a thread spilled at 128 x 128 x 64, and half the speed: 157 us at
    4097 x 1111 x 777 where half the inner block takes 86, H200, by hand, 2026-11-24)."""
    return _lie_along_inner(ir, op) and all(length % size for length, size in zip(lengths, block, strict=False))


def _lie_along_inner(ir: KernelIR, op: Op) -> bool:
    a, b = _operands(op)
    return contiguous_along(ir, a, -1) and contiguous_along(ir, b, -2)


def _precise(
    ir: KernelIR, op: Op, lengths: list[int], batch: int, target: Target, unaligned: bool
) -> dict[str, Choice]:
    """A product in full precision. By multiply-adds of each thread it is written out for the whole inner block, so that
    this one is short, or the others are; the matrix units take it in parts."""
    a, b = _operands(op)
    is_whole = not symbol(a.dims[-1])
    parts = "" if is_whole else _parts(ir, op, target)
    shapes = PRECISE_WHOLE if is_whole else PRECISE if not parts else TF32_PARTS if parts == "tf32x3" else BF16_PARTS
    # split in registers on their way to the matrix units: elements that come one at a time need no copy before
    by_element = bool(parts) and comes_by_element(ir, b, target, unaligned)
    shapes = PARTS_BY_ELEMENT if by_element else shapes
    fitting = _in_registers(ir, op, shapes, target, MOST_SUMS_IN_PARTS if parts else MOST_SUMS)
    inner = PARTS_INNER if parts else PRECISE_INNER
    if parts and not fitting:
        inner = PRECISE_INNER
        wide = _in_registers(ir, op, MANY_SUMS_IN_PARTS, target, MOST_SUMS_IN_PARTS) or MANY_SUMS_IN_PARTS[-1:]
        m, n, warps = wide[0]
    else:
        m, n, warps = _output_block(_across(ir, (a.dims[-2], b.dims[-1]), lengths), batch, fitting, target)
    wanted: dict[str, Choice] = {symbol(d): 1 for d in a.dims[:-2]}
    if by_element and fitting and not unaligned and lengths[2] >= FEW_TURNS * inner:
        tiles = batch * -(-lengths[0] // m) * -(-lengths[1] // n)
        (m, n, warps), inner, limit = _deep_by_element(ir, op, (m, n, warps), inner, tiles <= 2 * target.sm_count)
        wanted[MAXNREG.name(ir)] = limit
    dims = a.dims[-2], b.dims[-1], a.dims[-1]
    wanted |= {symbol(d): max(size // times(d), 1) for d, size in zip(dims, (m, n, inner), strict=True)}
    wanted[NUM_WARPS.name(ir)] = warps
    wanted[NUM_STAGES.name(ir)] = 1 if by_element else 3
    wanted[GROUP.name(ir)] = 8
    if is_whole:  # else the assembler may load all operands at once, and then gives up
        wanted[MAXNREG.name(ir)] = HALF_OF_REGISTERS
    if parts:  # of each product: multiply-adds beside the matrix units would be as long as without them
        wanted |= _all_in_parts(ir, target)
    boxes = parts == "tf32x3" or (parts and any(needs_box(ir, v, target) for v in (a, b)))
    return wanted | (_boxes(ir, target) if boxes and not by_element else {})


def _deep_by_element(
    ir: KernelIR, op: Op, shape: tuple[int, int, int], inner: int, is_few: bool
) -> tuple[tuple[int, int, int], int, int]:
    """The block, the inner block and the limit of registers of a product in parts whose operands come an element at a
    time: turns twice as long where programs are few, which wait for memory, or where strides are known at run time
    alone, and each element has an address to compute. 1.1 to 1.48 times the speed (H100, 2026-11-27, 16 problems of
    odd sizes); where both operands lie along the inner dimension, elements and masks of 64 would be spilled, and at run
    time more warps take them (1.02 to 1.3)."""
    a, b = _operands(op)
    left, right = contiguous_along(ir, a, -1), contiguous_along(ir, b, -2)
    at_run_time = any(stride.constant is None for tensor in ir.tensors for stride in tensor.strides)
    if left and right:
        return (PARTS_AT_RUN_TIME, 2 * inner, 0) if at_run_time else (shape, inner, 0)
    if not left and not right and at_run_time:
        return (shape, 2 * inner, AS_MANY_AS_IT_TAKES) if is_few else (shape, inner, 0)
    return (shape, 2 * inner, 0) if is_few or at_run_time else (shape, inner, 0)


def _all_in_parts(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """Every product that the matrix units may take in parts: multiply-adds beside others' would be as long as without
    them."""
    chosen = {PRECISION.name(site_of(op)): _parts(ir, op, target) for op in ir.walk() if op.kind is OpKind.DOT}
    return {name: parts for name, parts in chosen.items() if parts}


def _parts(ir: KernelIR, op: Op, target: Target) -> str:
    """The parts that the matrix units take operands in; empty where they take none. They take tf32 along the inner
    dimension only, so that a right operand which lies otherwise is turned in registers: bfloat16 is faster then
    (measured on an H200), and the only choice for short sums."""
    offered = parts_of_product(ir, op, target)
    if "tf32x3" not in offered:
        return offered[0] if offered else ""
    return "tf32x3" if contiguous_along(ir, _operands(op)[1], -2) else "bf16x6"


def _in_registers(ir: KernelIR, op: Op, shapes: Shapes, target: Target, most: int = MOST_SUMS) -> Shapes:
    """The shapes whose programs have registers for every product and for what is alive beside it: the sums of other
    products, a product that is scaled before it is added. ``most``: registers of a thread for them."""
    a, b = _operands(op)
    together = beside_products(ir)

    def fits(shape: tuple[int, int, int]) -> bool:
        sizes = dict.fromkeys((block.name for block in ir.blocks), 1) | ir.hints
        sizes |= {symbol(d): max(n // times(d), 1) for d, n in zip((a.dims[-2], b.dims[-1]), shape, strict=False)}
        largest = max(sum(_elements(v, sizes) for v in tiles) for tiles in together)
        return largest <= most * shape[2] * target.warp_size

    return tuple(filter(fits, shapes))


def _persistent(ir: KernelIR) -> dict[str, Choice]:
    """A program a multiprocessor. One loop over tiles and their steps keeps the pipeline full from tile to tile, and a
    block stored by halves leaves shared memory for another stage of it."""
    wanted: dict[str, Choice] = {
        PERSISTENT.name(ir): 1,
        FLATTEN.name(ir): True,
        GROUP.name(ir): 16,
    }
    return wanted | {SUBTILE.name(site): 2 for site in subtilable(ir)}


def _has_stages_beside_stores(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> bool:
    """Whether a program that walks over tiles has shared memory for three stages of operands beside the blocks that it
    loads and stores behind the products meanwhile: loads take it for their boxes, or to get into a product's layout.
    Tiles of 64 rows and of 512 columns, the group of a norm, have two stages so, and three where each program has one
    tile: 177 and 113 us for 1024 x 8192 x 4096 in bfloat16 (H100, 2026-11-24)."""
    sizes = dict.fromkeys((block.name for block in ir.blocks), 1) | ir.hints
    sizes |= {name: choice for name, choice in wanted.items() if name in sizes and isinstance(choice, int)}
    halved = subtilable(ir)
    stored = sum(
        _elements(value, sizes)
        * itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype)
        // (2 if site_of(op) in halved else 1)
        for op in ir.body.ops
        if op.kind is OpKind.STORE and isinstance(value := op.inputs[0], Value)
    )
    operands = _loads(ir)
    loaded = [op.output for op in ir.body.ops if op.kind is OpKind.LOAD and op.output not in operands]
    beside = max((_elements(v, sizes) * itemsize(v.type.dtype) for v in loaded), default=0)
    staged = sum(_elements(v, sizes) * itemsize(v.type.dtype) for v in operands)
    return LEAST_STAGES * staged + stored + beside <= target.smem_per_block


def _halves(ir: KernelIR) -> dict[str, Choice]:
    """The choice to compute by halves where an epilogue needs a value twice: two tiles are alive at a time then, and an
    accumulator alone fills half a thread's registers."""
    wanted: dict[str, Choice] = {}
    for site, store in subtilable(ir).items():
        reads = Counter(v for op in epilogue(ir, store) or () for v in op.values if len(v.dims) > 1)
        if any(count > 1 for count in reads.values()):
            wanted[SUBTILE.name(site)] = 2
    return wanted


def _skinny(ir: KernelIR, op: Op, lengths: list[int], direct: bool, turned: bool, target: Target) -> dict[str, Choice]:
    """A product of so few rows that it only streams the right operand: narrow blocks, so that every multiprocessor has
    a program, and long ones, so that much is in flight. Transposed, the columns are a warp group's rows.

    Where programs are few still, blocks are narrower, and twice as long where operands are only loaded. By hand on an
    H100 (2026-11-25): 16 x 2048 x 8192 took 26.6 us by 32 programs of 64 columns and takes 18.2 by 128 of 16; 32 x 4096
    x 4096 22.5 and 16.9; 4-bit weights of 4096 columns whose zeros and scales are gathered 411 by 32 programs, 208 by
    64, 135 by 128."""
    a, b = _operands(op)
    k = (256 if target.vendor == "nvidia" else 128) // itemsize(a.type.dtype)
    dims = a.dims[-2], b.dims[-1], a.dims[-1]

    def sizes(columns: int, inner: int) -> dict[str, Choice]:
        own = zip(dims, (pow2(lengths[0]), columns, inner), strict=True)
        return {symbol(d): max(size // times(d), 1) for d, size in own}

    columns = 64 if direct else 128 if turned else 32
    if direct and 2 * programs(ir, sizes(2 * columns, k)) >= MANY_PROGRAMS * target.sm_count:
        columns *= 2  # where all are busy for long, fewer ones load the left operand less often
    fewest = FEWEST_COLUMNS if direct else FEWEST_COMPUTED
    may_narrow = target.vendor == "nvidia" and not _has_own_parts(ir)
    while may_narrow and columns > fewest and 2 * programs(ir, sizes(columns, k)) <= target.sm_count:
        columns //= 2
    is_narrow = direct and columns < 64 and lengths[2] >= LONG * k
    wanted = sizes(columns, 2 * k if is_narrow else k)
    wanted[TRANSPOSED.name(site_of(op))] = turned and columns >= FEWEST_ROWS
    wanted[NUM_WARPS.name(ir)] = 4
    wanted[NUM_STAGES.name(ir)] = 5 if target.vendor == "nvidia" else 2
    return wanted | (_boxes(ir, target) if wanted[TRANSPOSED.name(site_of(op))] else {})


def _has_own_parts(ir: KernelIR) -> bool:
    """Whether a tunable of the author's says how many programs there are along some axis, as of an inner dimension that
    they sum parts of."""
    ends = [tile.end for name in ir.grid if isinstance((tile := ir.tiles[name]).end, Expr)]
    return any(symbol.startswith("tunable:") for end in ends for symbol in end.symbols())


def _parts_of_inner(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """As many parts of an inner dimension as there are multiprocessors for each tile of the result: each further one
    costs sums in memory and gains nothing (split-K of 64 x 8192 in four parts had 0.77 of cuBLAS's speed on an H200, in
    one 0.99).

    Where the author has a tunable for the number of parts, and operands are as they were loaded: where they are
    computed, further parts share that work, too.
    """
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    divided = [found for op in loops if (found := parts_of(ir, TileAttrs.of(op).tile)) is not None]
    operands = [v for op in ir.walk() if op.kind is OpKind.DOT for v in _operands(op)]
    if len(divided) != 1 or not all(is_loaded(v, ir.definitions) for v in operands):
        return {}
    (whole,) = divided
    count = ir.tiles[whole.tile].end
    if not isinstance(count, Expr) or count.op != "sym" or not count.args[0].startswith("tunable:"):
        return {}
    parts = min(target.sm_count // max(programs(ir, wanted), 1), ir.hint(whole.whole) // PART_LENGTH)
    return {count.args[0]: pow2(parts + 1) // 2 if parts > 1 else 1}


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows or the columns of a product: how many, and whether a loop of each program takes them in turns, as a
    contrastive loss does all others, so that they make no programs."""

    length: int
    is_looped: bool

    def fits(self, size: int) -> bool:
        return size <= pow2(self.length)

    def programs(self, size: int) -> int:
        return 1 if self.is_looped else -(-self.length // size)

    def work(self, size: int) -> int:
        """Elements that a program computes along it."""
        return self.length if self.is_looped else size


def _across(ir: KernelIR, dims: Sequence[Dim], lengths: Sequence[int]) -> tuple[_Side, _Side]:
    """The rows and the columns of a product."""
    looped = {TileAttrs.of(op).tile for op in ir.walk() if op.kind is OpKind.FOR}
    rows, columns = (_Side(n, d.tile in looped) for d, n in zip(dims[:2], lengths, strict=False))
    return rows, columns


def _output_block(sides: tuple[_Side, _Side], batch: int, shapes: Shapes, target: Target) -> tuple[int, int, int]:
    """The first of the output blocks that gives at least nine tenths of the multiprocessors a tile, and its warps; or
    one before it in which no multiprocessor has more to do.

    A multiprocessor that has two tiles of a block, since there are more tiles than multiprocessors, does as much for a
    block twice as large of which it has one. The larger one reads less for it.
    """
    across, along = sides
    fitting = [shape for shape in shapes if across.fits(shape[0]) and along.fits(shape[1])]

    def tiles(shape: tuple[int, int, int]) -> int:
        return batch * across.programs(shape[0]) * along.programs(shape[1])

    def work(shape: tuple[int, int, int]) -> int:
        """Elements of the output that the busiest multiprocessor computes."""
        return -(-tiles(shape) // target.sm_count) * across.work(shape[0]) * along.work(shape[1])

    smallest = min(64, pow2(across.length)), min(64, pow2(along.length)), 4
    enough = next((shape for shape in fitting if tiles(shape) >= 0.9 * target.sm_count), smallest)
    rows, columns, warps = next((shape for shape in fitting if work(shape) <= work(enough)), enough)
    return rows, columns, 4 if target.vendor == "amd" and rows == columns else warps
