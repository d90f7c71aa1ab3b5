"""Where it is worth a copy of a product's operands that it gets boxes of them, by default.

Rows that begin at any element have no boxes, and a pipelined kernel loads them an element at a time. A launch may copy
them first, with rows that begin at aligned bytes (:mod:`tileflow.runtime.aligned_copy`). The figures below are fits to
26 products of seven sizes that no 8 divides, of bfloat16 and float32 (H100, 2026-11-27, torch 2.11, Triton 3.6.0), in
nanoseconds: of the sizes of a call they are a guard too."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op
from ..ir.types import itemsize
from ..schedule.single import Single
from ..space.knobs import NUM_WARPS
from ..target import Target
from .cluster_loops import MOST_WARPS, shared_us
from .sizes import length_over, programs, programs_over, symbol, times

COPY_NS = 4000  # of an operand, beside its elements
ELEMENTS_NS, ELEMENTS = {2: 260, 4: 335}, 100_000  # of so many elements of up to so many bytes
BEGIN_NS = 4000  # of a product, beside its turns
# of a pipelined block's turn of 64 elements by itself: beside its sums, and for those of 128 x 128
BLOCK_NS, SUMS_NS = 1100, 800
BLOCK_SUMS, BLOCK_TURN = 128 * 128, 64
# of a float32 block of 64 x 64 in a turn of 32: by itself, and beside others on its multiprocessor
PRECISE_NS, PRECISE_BESIDE_NS = 1400, 870
PRECISE_SUMS, PRECISE_TURN = 64 * 64, 32
LARGEST = 32  # of the device's memory, the part that copies may take


def copies_fit(ir: KernelIR, operands: tuple[Op, ...], target: Target) -> Expr:
    """Whether copies of the operands leave the caller's tensors their memory, as a condition on the call's sizes."""
    tensors = {AccessAttrs.of(op).tensor: ir.tensor(AccessAttrs.of(op).tensor) for op in operands}
    bytes_ = [prod(tensor.shape, start=Expr.of(itemsize(tensor.dtype))) for tensor in tensors.values()]
    return sum(bytes_, Expr.of(0)).le(target.mem_gb * 10**9 // LARGEST)


def is_worth_copying(
    ir: KernelIR, found: Single, wanted: Mapping[str, Choice], product_ns: float, target: Target
) -> bool:
    """Whether copies and a product whose turns take ``product_ns`` end before the pipelined blocks of ``wanted`` do, of
    which blocks of clusters share the turns where they are few."""
    alone = pipelined_ns(ir, found, wanted, target).evaluate(ir.hints)
    warps = wanted.get(NUM_WARPS.name(ir))
    is_slow = found.is_split or (isinstance(warps, int) and warps <= MOST_WARPS)
    shared = 1000 * shared_us(alone / 1000, programs(ir, wanted), is_slow, target)
    if not copies_fit(ir, found.copied, target).holds(ir.hints):
        return False
    return copies_ns(ir, found.copied).evaluate(ir.hints) + product_ns < BEGIN_NS + shared


def copies_ns(ir: KernelIR, operands: tuple[Op, ...]) -> Expr:
    """What copies of the ``operands``, and to begin a product of them, take, over the call's sizes. A tensor that is
    both operands is copied once."""
    tensors = {AccessAttrs.of(op).tensor: op for op in operands}
    return sum((_copy_ns(ir, op) for op in tensors.values()), Expr.of(BEGIN_NS))


def pipelined_ns(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], target: Target) -> Expr:
    """What the turns of a pipelined product take whose operands come an element at a time."""
    sides = wanted.get(ir.tiles[found.rows].block.args[0], 1), wanted.get(symbol(found.columns), 1)
    sums = prod(side for side in sides if isinstance(side, int)) * times(found.columns) * len(found.products)
    length, blocks = length_over(ir, found.keys), programs_over(ir, wanted)
    if found.is_split:
        turn_ns = (blocks * (PRECISE_BESIDE_NS * sums // PRECISE_SUMS)) // target.sm_count
        return length * turn_ns.max(PRECISE_NS) // PRECISE_TURN
    return blocks.cdiv(target.sm_count) * length * (BLOCK_NS + SUMS_NS * sums // BLOCK_SUMS) // BLOCK_TURN


def _copy_ns(ir: KernelIR, op: Op) -> Expr:
    """What the copy of an operand's whole tensor takes."""
    tensor = ir.tensor(AccessAttrs.of(op).tensor)
    of_elements = ELEMENTS_NS[2 if itemsize(tensor.dtype) <= 2 else 4]
    return prod(tensor.shape, start=Expr.of(1)) * of_elements // ELEMENTS + COPY_NS
