"""First blocks of a product that none is chained to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..config import Choice
from ..ir.analysis import in_full_precision
from ..ir.attributes import AccessAttrs, site_of
from ..ir.graph import CUT, KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.pressure import beside_products
from ..ir.types import Value, itemsize
from ..passes.subtile import epilogue, subtilable
from ..passes.transpose import is_loaded, transposable
from ..space.knobs import FLATTEN, GROUP, NUM_STAGES, NUM_WARPS, ORDER, PERSISTENT, SUBTILE, TRANSPOSED
from ..space.warp_groups import LEAST_COLUMNS, ROWS_OF_A_WARP
from ..target import Target
from .by_element import by_element_config
from .few_rows import FEWEST_ROWS, LONG, few_rows_config
from .full_precision import precise_config
from .operands import boxes_config, comes_by_element, gathers, loaded_operands, one_matrix, operands_of
from .output_blocks import HALF_OF_REGISTERS, MOST_WARPS, Shapes, in_registers, output_block, sides_of
from .sizes import chosen_sizes, extent_length, pow2, programs, register_elements, symbol, times

FEW_ROWS = 64  # of a product that only streams its right operand (:mod:`few_rows`)
DIRECT: Shapes = ((128, 256, 8), (128, 128, 8), (64, 256, 4), (64, 128, 4), (64, 64, 4))
# tall where the right operand is made in registers, which each program does anew
COMPUTED: Shapes = ((256, 64, 4), (128, 64, 4))
# small enough for two blocks a multiprocessor: one unpacks while the other multiplies
TURNED: Shapes = ((128, 128, 8), (128, 64, 4))
# rows, columns, warps: of 64 x 128256 x 2048, 1024 x 32000 x 1024, 4096 x 32000 x 2048 and 512 x 32000 x 768 the best
# or up to 1.4 times as long (H200, 2026-12-01, 32 configs each); four warps are 2 to 4 % faster, with no room for more
STREAMED = (64, 256, 8)
LEAST_STAGES = 3  # of operands, for a program to walk over tiles
SEVERAL = 2  # programs that share a multiprocessor in place of one that walks
SUMS_OF_SEVERAL = 64  # registers of a thread, half of what two such programs of eight warps leave it


def lone_config(ir: KernelIR, op: Op, target: Target, unaligned: bool) -> dict[str, Choice]:
    """A region whose first product none takes columns of."""
    return _single(ir, op, target, unaligned) | _plane(ir, op)


def _single(ir: KernelIR, op: Op, target: Target, unaligned: bool) -> dict[str, Choice]:
    """One product: an output block as large as leaves every multiprocessor a program. A multiprocessor with one small
    block waits for memory, so that its turns are twice as long: at 1.3 to 1.4 times the speed for 128 x 4096 x 4096 and
    128 x 8192 x 8192 in bfloat16."""
    a, b = operands_of(op)
    dims = a.dims[-2], b.dims[-1], a.dims[-1]
    lengths = [extent_length(ir, d.tile, d.extent) for d in dims]
    batch = 1
    for d in op.output.dims[:-2]:
        batch *= extent_length(ir, d.tile, d.extent)
    for name in ir.grid:
        if ir.tiles[name].block.constant == 1:
            batch *= extent_length(ir, name, ir.tiles[name].block)
    direct = is_loaded(b, ir.definitions)
    turned = site_of(op) in transposable(ir) and target.has_wgmma
    if target.vendor == "nvidia" and in_full_precision(op):
        return precise_config(ir, op, lengths, batch, target, unaligned)
    if direct and target.has_wgmma and _streams_columns(ir, a, b):
        return _streamed(ir, op, target)
    if pow2(lengths[0]) <= FEW_ROWS:
        return few_rows_config(ir, op, lengths, direct, turned, target)
    by_element = [comes_by_element(ir, v, target, unaligned) for v in (a, b)]
    if direct and target.has_wgmma and any(by_element):
        return by_element_config(ir, op, lengths, batch, target, by_element, unaligned)
    together = beside_products(ir)
    shapes = in_registers(ir, op, DIRECT if direct else TURNED if turned else COMPUTED, target)
    shapes = in_registers(ir, op, _rows_beside_few_columns(ir, target), target) or shapes
    m, n, warps = output_block(sides_of(ir, dims, lengths), batch, shapes, target)
    k = 128 // itemsize(a.type.dtype) if target.vendor == "nvidia" else 64
    tiles = batch * -(-lengths[0] // m) * -(-lengths[1] // n)
    has_blocks = symbol(dims[1]) in {block.name for block in ir.blocks}
    is_lone = tiles <= target.sm_count and has_blocks and lengths[2] >= LONG * k
    if direct and target.has_wgmma and m == FEWEST_ROWS and is_lone:
        k *= 2
    wanted = one_matrix(op)
    sizes = m, n, min(k, max(pow2(lengths[2]), 16))
    wanted |= {symbol(d): max(size // times(d), 1) for d, size in zip(dims, sizes, strict=True)}
    wanted[TRANSPOSED.name(site_of(op))] = turned
    wanted[NUM_WARPS.name(ir)] = warps
    wanted[NUM_STAGES.name(ir)] = (4 if direct or turned else 3) if target.vendor == "nvidia" else 2
    wanted[GROUP.name(ir)] = 8
    if m * n >= HALF_OF_REGISTERS * warps * target.warp_size:
        wanted |= _halves(ir)
    walks = programs(ir, wanted) > target.sm_count and not turned  # transposed products are slower so
    walks = walks and not _several_fit(ir, op, wanted, target)
    if walks and boxes_config(ir, target) and _has_stages_beside_stores(ir, wanted, target):
        wanted |= _persistent(ir)
        # one loop has the sums of a tile and of the next, which leaves no registers for other products or for addresses
        gathered = any(gathers(ir.definitions[v], 1) for v in (a, b) if v in ir.definitions)
        wanted[FLATTEN.name(ir)] = max(map(len, together)) == 1 and not gathered
    return wanted | boxes_config(ir, target)


def _streams_columns(ir: KernelIR, a: Value, b: Value) -> bool:
    """Whether a program goes over a product's columns in a loop, and sums over the inner dimension by parts: scores
    over a vocabulary, of rows too long to stay."""
    tile = ir.tiles.get(b.dims[-1].tile or "")
    return tile is not None and not tile.is_grid and symbol(a.dims[-1]).startswith(CUT) and itemsize(a.type.dtype) == 2


def _streamed(ir: KernelIR, op: Op, target: Target) -> dict[str, Choice]:
    """Rows and columns of a turn: programs are as many as blocks of rows, so that these are the least of a warp group,
    which clusters share the columns of."""
    a, b = operands_of(op)
    m, n, warps = STREAMED
    sizes = {a.dims[-2]: m, b.dims[-1]: n, a.dims[-1]: 128 // itemsize(a.type.dtype)}
    wanted = one_matrix(op) | {symbol(d): max(size // times(d), 1) for d, size in sizes.items()}
    return wanted | {NUM_WARPS.name(ir): warps, NUM_STAGES.name(ir): 3} | boxes_config(ir, target)


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
    a, b = operands_of(op)
    own = [n for n, name in enumerate(ir.grid) if name in (a.dims[-2].tile, b.dims[-1].tile)]
    others = [n for n in range(len(ir.grid)) if n not in own]
    if len(own) < 2 or not others:
        return {}
    return {ORDER.name(ir): ",".join(map(str, (*others, *own)))}


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
    return _shared_bytes(ir, wanted, LEAST_STAGES) <= target.smem_per_block


def _several_fit(ir: KernelIR, op: Op, wanted: Mapping[str, Choice], target: Target) -> bool:
    """Whether a multiprocessor holds two programs or more, of products whose author has the inner dimension whole:
    while one of them loads, another multiplies. Walking, four kernels of others took 1.1 to 1.9 times as long, as
    hashes by 32 planes (183 us and 95; H100, 2026-11-28; docs/measurements/default-rules.md). Behind a loop, what is
    stored lies where the stages were (27 neighbours of 200003 voxels: 295 us walking, 180 so; H200, 2026-11-30)."""
    if (inner := symbol(operands_of(op)[0].dims[-1])) and not inner.startswith(CUT):
        return False
    sizes = chosen_sizes(ir, wanted)
    warps = wanted[NUM_WARPS.name(ir)]
    assert isinstance(warps, int)
    loops = [one for one in ir.walk() if one.kind is OpKind.FOR]
    handed_on = {value for loop in loops for turn in loop.regions for value in turn.results}
    held = [one.output for one in ir.walk() if one.kind is OpKind.DOT and one.output not in handed_on]
    sums = sum(register_elements(v, sizes) for v in (*held, *(out for loop in loops for out in loop.outputs)))
    has_loop = bool(loops)
    shared = _shared_bytes(ir, wanted, LEAST_STAGES if has_loop else 1, stores_apart=not has_loop)
    return sums <= SUMS_OF_SEVERAL * warps * target.warp_size and SEVERAL * shared <= target.smem_per_block


def _shared_bytes(ir: KernelIR, wanted: Mapping[str, Choice], stages: int, *, stores_apart: bool = True) -> int:
    """Bytes of shared memory of so many stages of operands, of what is loaded beside them, and of what is stored,
    beside the stages or in their place."""
    sizes = chosen_sizes(ir, wanted)
    halved = subtilable(ir)
    stored = sum(
        register_elements(value, sizes)
        * itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype)
        // (2 if site_of(op) in halved else 1)
        for op in ir.body.ops
        if op.kind is OpKind.STORE and isinstance(value := op.inputs[0], Value)
    )
    operands = loaded_operands(ir)
    loaded = [op.output for op in ir.body.ops if op.kind is OpKind.LOAD and op.output not in operands]
    beside = max((register_elements(v, sizes) * itemsize(v.type.dtype) for v in loaded), default=0)
    staged = sum(register_elements(v, sizes) * itemsize(v.type.dtype) for v in operands)
    return (stages * staged + stored if stores_apart else max(stages * staged, stored)) + beside


def _halves(ir: KernelIR) -> dict[str, Choice]:
    """The choice to compute by halves where an epilogue needs a value twice: two tiles are alive at a time then, and an
    accumulator alone fills half a thread's registers."""
    wanted: dict[str, Choice] = {}
    for site, store in subtilable(ir).items():
        reads = Counter(v for op in epilogue(ir, store) or () for v in op.values if len(v.dims) > 1)
        if any(count > 1 for count in reads.values()):
            wanted[SUBTILE.name(site)] = 2
    return wanted
