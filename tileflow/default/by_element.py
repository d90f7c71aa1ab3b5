"""First blocks of products whose operands come from memory an element at a time (:mod:`operands`)."""

from __future__ import annotations

from ..config import Choice
from ..ir.graph import KernelIR, Op
from ..ir.types import itemsize
from ..space.knobs import GROUP, MAXNREG, NUM_STAGES, NUM_WARPS, STORE_ACCESS, definition
from ..target import Target
from .operands import boxes_config, contiguous_along, one_matrix, operands_of
from .output_blocks import MOST_WARPS, Shapes, in_registers
from .sizes import pow2, symbol, times

# few elements for each of many threads, which have registers for all of them
BY_ELEMENT: Shapes = ((128, 64, 8), (64, 64, 8))
LEFT_BY_ELEMENT: Shapes = ((64, 128, 8), (64, 64, 8))
# both operands so, of 16 bits: 32 or 24 elements a thread each turn
BOTH_BY_ELEMENT: Shapes = ((128, 128, 16), (128, 64, 16))
BOTH_AT_RUN_TIME: Shapes = ((128, 64, 16),)
RIGHT_AT_RUN_TIME: Shapes = ((64, 128, 16),)  # where the right operand alone lies along the inner dimension
INNER_WITH_MASKS = 32
PARTS_AT_RUN_TIME = (128, 64, 8)  # in parts, where both operands lie along the inner dimension
AS_MANY_AS_IT_TAKES = 168  # registers: with a limit ptxas uses those below it for loads in flight, without one it saves
FEW_TURNS = 8  # that wait for elements, from which on they may be twice as long


def by_element_config(
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
    a, b = operands_of(op)
    both = all(which) and itemsize(a.type.dtype) == itemsize(b.type.dtype) == 2
    by_element = BOTH_BY_ELEMENT if both else BY_ELEMENT if which[1] else LEFT_BY_ELEMENT
    at_run_time = any(stride.constant is None for tensor in ir.tensors for stride in tensor.strides)
    if both and (unaligned or at_run_time):  # each element has an address of its own in registers
        right = contiguous_along(ir, b, -2) and not contiguous_along(ir, a, -1)
        by_element = RIGHT_AT_RUN_TIME if right else BOTH_AT_RUN_TIME

    def tiles(shape: tuple[int, int, int]) -> int:
        return batch * -(-lengths[0] // shape[0]) * -(-lengths[1] // shape[1])

    shapes = in_registers(ir, op, by_element, target)
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
        # of fewer programs of 8 warps two share each multiprocessor, as blocks of clusters (:mod:`cluster_loops`)
        alone = warps > MOST_WARPS and tiles((m, n, warps)) <= target.sm_count
        paired = warps == MOST_WARPS and target.sm_count < tiles((m, n, warps)) <= 2 * target.sm_count
        k *= 2 if alone or paired or (both and at_run_time) else 1
    wanted = one_matrix(op)
    dims = a.dims[-2], b.dims[-1], a.dims[-1]
    wanted |= {symbol(d): max(size // times(d), 1) for d, size in zip(dims, (m, n, k), strict=True)}
    boxes = {name: choice for name, choice in boxes_config(ir, target).items() if definition(name) is STORE_ACCESS}
    launch = {NUM_WARPS: warps, NUM_STAGES: 4, GROUP: 8}
    limit = {} if both else {MAXNREG: AS_MANY_AS_IT_TAKES}  # 16 warps cannot have as many
    return wanted | {knob.name(ir): choice for knob, choice in (launch | limit).items()} | boxes


def _has_masks_of_rows(ir: KernelIR, op: Op, lengths: list[int], block: tuple[int, int]) -> bool:
    """Whether both operands lie along the inner dimension and have rows beyond the last: each row that a thread loads
    of takes a mask's registers then (152 bytes a thread spilled at 128 x 128 x 64, and half the speed: 157 us at
    4097 x 1111 x 777 where half the inner block takes 86, H200, by hand, 2026-11-24)."""
    return _lie_along_inner(ir, op) and all(length % size for length, size in zip(lengths, block, strict=False))


def _lie_along_inner(ir: KernelIR, op: Op) -> bool:
    a, b = operands_of(op)
    return contiguous_along(ir, a, -1) and contiguous_along(ir, b, -2)


def deep_by_element(
    ir: KernelIR, op: Op, shape: tuple[int, int, int], inner: int, is_few: bool
) -> tuple[tuple[int, int, int], int, int]:
    """The block, the inner block and the limit of registers of a product in parts whose operands come an element at a
    time: turns twice as long where programs are few, which wait for memory, or where strides are known at run time
    alone, and each element has an address to compute. 1.1 to 1.48 times the speed (H100, 2026-11-27, 16 problems of
    odd sizes); where both operands lie along the inner dimension, elements and masks of 64 would be spilled, and at run
    time more warps take them (1.02 to 1.3)."""
    a, b = operands_of(op)
    left, right = contiguous_along(ir, a, -1), contiguous_along(ir, b, -2)
    at_run_time = any(stride.constant is None for tensor in ir.tensors for stride in tensor.strides)
    if left and right:
        return (PARTS_AT_RUN_TIME, 2 * inner, 0) if at_run_time else (shape, inner, 0)
    if not left and not right and at_run_time:
        return (shape, 2 * inner, AS_MANY_AS_IT_TAKES) if is_few else (shape, inner, 0)
    return (shape, 2 * inner, 0) if is_few or at_run_time else (shape, inner, 0)
