"""First blocks of chained products, as attention has them: what one gives is what another one sums over."""

from __future__ import annotations

from ..config import Choice
from ..ir.analysis import in_full_precision
from ..ir.attributes import site_of
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.pressure import beside_products
from ..ir.types import itemsize
from ..passes.unit_batches import batch_blocks
from ..space.grids import growing_tiles
from ..space.knobs import DESCENDING, NUM_STAGES, NUM_WARPS, PRECISION
from ..space.precisions import parts_of_product
from ..target import Target
from .operands import boxes_config, comes_by_element, gathers, loaded_operands, operands_of
from .sizes import extent_length, pow2, register_elements, symbol

MOST_PIPELINED = 2  # products in a turn of a loop whose operands AMD's registers hold a turn ahead
WIDE_HEAD = 128  # from here on the operands of chained products fill the registers of a smaller block


def chained_product(dots: list[Op]) -> Op | None:
    """The first product whose columns are what another one sums over, as scores are in attention."""
    inner = {symbol(operands_of(op)[0].dims[-1]) for op in dots} - {""}
    return next((op for op in dots if symbol(operands_of(op)[1].dims[-1]) in inner), None)


def chain_config(ir: KernelIR, scores: Op, target: Target) -> dict[str, Choice]:
    """Attention's shape (FlashAttention-2; Dao, 2023, arXiv:2307.08691): few rows a program, so that several programs
    share a multiprocessor and one's exponentials run beside another's products."""
    a, b = operands_of(scores)
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
    return wanted | boxes_config(ir, target)


def _has_gathered(ir: KernelIR, scores: Op) -> bool:
    """Whether something as wide as the scores is gathered for them, as a bias from a table is: an address for each
    takes the registers of scores (560 spilled bytes a thread at 64 x 128 on an H200, none at 64 x 64)."""
    own = {symbol(d) for d in scores.output.dims[-2:]}
    return any(gathers(op, 2) and own <= {symbol(d) for d in op.output.dims} for op in ir.walk())


def _precise_chain(ir: KernelIR, scores: Op, columns: int, target: Target) -> dict[str, Choice]:
    """Chained products in full precision: operands that are split take registers, of which a block of 128 x 128 would
    leave none (10 KB spilled a thread), and two parts of 32 bits take more than three of 16. On an H200 attention has
    1.3 to 1.8 times the speed of torch's so, with smaller errors; by multiply-adds a third of it.

    Operands that come an element at a time are not copied ahead: they are split in registers, and there as it is
    (rows of 55 numbers: 1796 us two stages ahead, 644 so; H200, 2026-11-30)."""
    a, b = operands_of(scores)
    operands = [v for op in ir.walk() if op.kind is OpKind.DOT for v in operands_of(op)]
    stages = 1 if any(comes_by_element(ir, v, target) for v in operands) else 2
    wanted: dict[str, Choice] = dict.fromkeys(batch_blocks(ir), 1)
    wanted |= {symbol(a.dims[-2]): 64, symbol(b.dims[-1]): columns}
    wanted |= {NUM_WARPS.name(ir): 4, NUM_STAGES.name(ir): stages, DESCENDING.name(ir): True}
    offered = {
        PRECISION.name(site_of(op)): parts_of_product(ir, op, target) for op in ir.walk() if op.kind is OpKind.DOT
    }
    parts = {name: "bf16x6" if "bf16x6" in found else found[0] for name, found in offered.items() if found}
    return wanted | parts | boxes_config(ir, target)


def _two_share(ir: KernelIR, blocks: dict[str, int], stages: int, target: Target) -> bool:
    """Whether two programs under such blocks share a multiprocessor whose warp groups take operands from shared memory,
    those of a loop once a stage. A quarter of its registers is for addresses and the like."""
    sizes = {**dict.fromkeys((block.name for block in ir.blocks), 1), **ir.hints, **blocks}
    held = max(sum(register_elements(v, sizes) for v in tiles) for tiles in beside_products(ir))
    turns = [op.regions[0] for op in ir.walk() if op.kind is OpKind.FOR]
    repeated = {op.output for turn in turns for op in turn.ops if op.kind is OpKind.LOAD}
    staged = sum(
        register_elements(v, sizes) * itemsize(v.type.dtype) * (stages if v in repeated else 1)
        for v in loaded_operands(ir)
    )
    return 2 * held <= target.regs_per_sm * 3 // 4 and 2 * staged <= target.smem_per_sm
