"""First blocks of products in full precision: by multiply-adds, or in parts by the matrix units."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import Choice
from ..ir.attributes import site_of
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..passes.transpose import is_loaded
from ..space.knobs import GROUP, MAXNREG, NUM_STAGES, NUM_WARPS, PRECISION
from ..space.precisions import parts_of_product
from ..target import Target
from .by_element import FEW_TURNS, deep_by_element
from .operands import boxes_config, comes_by_element, contiguous_along, needs_box, one_matrix, operands_of
from .output_blocks import (
    HALF_OF_REGISTERS,
    MOST_SUMS,
    MOST_SUMS_IN_PARTS,
    Shapes,
    in_registers,
    output_block,
    sides_of,
)
from .sizes import chosen_sizes, programs, register_elements, symbol, times
from .whole_in_parts import whole_in_parts_config

# by multiply-adds: where the inner dimension is cut into blocks, and where it is whole
PRECISE: Shapes = ((128, 128, 8), (128, 64, 8), (64, 64, 4))
PRECISE_WHOLE: Shapes = ((64, 64, 8),)
PRECISE_OWN: Shapes = ((64, 64, 4),)  # of results whose sizes are all the author's
FEW_SUMS = 64 * 128  # of such a result, 64 a lane of four warps
PRECISE_INNER = 16
# in parts, by the matrix units
TF32_PARTS: Shapes = ((128, 64, 4), (64, 64, 4))
BF16_PARTS: Shapes = ((128, 128, 8), (128, 64, 4), (64, 64, 4))
PARTS_INNER = 32
# where a program holds more sums than those have registers for: other products', or whole rows of the result
MANY_SUMS_IN_PARTS: Shapes = ((64, 64, 8), (32, 64, 8), (16, 64, 8))
SMALL_TILE = 64 * 64  # sums of a program, of which a multiprocessor holds
SEVERAL = 2
PARTS_BY_ELEMENT: Shapes = ((64, 64, 4),)  # where the right operand comes an element at a time


def precise_config(
    ir: KernelIR, op: Op, lengths: list[int], batch: int, target: Target, unaligned: bool
) -> dict[str, Choice]:
    """A product in full precision. By multiply-adds of each thread it is written out for the whole inner block, so that
    this one is short, or the others are; the matrix units take it in parts."""
    if in_one_piece := whole_in_parts_config(ir, op, lengths, batch, target):
        return in_one_piece
    a, b = operands_of(op)
    is_whole = not symbol(a.dims[-1])
    parts = "" if is_whole else _parts(ir, op, target)
    whole = PRECISE_OWN if _has_few_own_sums(ir) else PRECISE_WHOLE
    shapes = whole if is_whole else PRECISE if not parts else TF32_PARTS if parts == "tf32x3" else BF16_PARTS
    # split in registers on their way to the matrix units: elements that come one at a time need no copy before
    by_element = bool(parts) and comes_by_element(ir, b, target, unaligned)
    shapes = PARTS_BY_ELEMENT if by_element else shapes
    fitting = in_registers(ir, op, shapes, target, MOST_SUMS_IN_PARTS if parts else MOST_SUMS)
    inner = PARTS_INNER if parts else PRECISE_INNER
    if parts and not fitting:
        inner = PRECISE_INNER
        wide = in_registers(ir, op, MANY_SUMS_IN_PARTS, target, MOST_SUMS_IN_PARTS) or MANY_SUMS_IN_PARTS[-1:]
        m, n, warps = wide[0]
    else:
        m, n, warps = output_block(sides_of(ir, (a.dims[-2], b.dims[-1]), lengths), batch, fitting, target)
    wanted = one_matrix(op)
    if by_element and fitting and not unaligned and lengths[2] >= FEW_TURNS * inner:
        tiles = batch * -(-lengths[0] // m) * -(-lengths[1] // n)
        (m, n, warps), inner, limit = deep_by_element(ir, op, (m, n, warps), inner, tiles <= 2 * target.sm_count)
        wanted[MAXNREG.name(ir)] = limit
    dims = a.dims[-2], b.dims[-1], a.dims[-1]
    wanted |= {symbol(d): max(size // times(d), 1) for d, size in zip(dims, (m, n, inner), strict=True)}
    wanted[NUM_WARPS.name(ir)] = warps
    wanted[NUM_STAGES.name(ir)] = 1 if by_element or _is_made_beside(ir, op, parts, wanted, target) else 3
    wanted[GROUP.name(ir)] = 8
    if is_whole:  # else the assembler may load all operands at once, and then gives up
        wanted[MAXNREG.name(ir)] = HALF_OF_REGISTERS
    if parts:  # of each product: multiply-adds beside the matrix units would be as long as without them
        wanted |= _all_in_parts(ir, target)
    boxes = parts == "tf32x3" or (parts and any(needs_box(ir, v, target) for v in (a, b)))
    return wanted | (boxes_config(ir, target) if boxes and not by_element else {})


def _has_few_own_sums(ir: KernelIR) -> bool:
    """Whether all results are of the author's own sizes, and small: then a lane has registers for twice as many sums,
    and loads half as many operands for each. A state of 64 x 128 that is updated by four pairs of rows took 662 us by
    eight warps and 409 by four, one of 64 x 64 by sixteen 517 and 430 (H200, 2026-11-29)."""
    results = [op.output for op in ir.walk() if op.kind is OpKind.DOT]
    if any(d.extent.symbols() - ir.hints.keys() for v in results for d in v.dims):
        return False
    return max(register_elements(v, ir.hints) for v in results) <= FEW_SUMS


def _is_made_beside(ir: KernelIR, op: Op, parts: str, wanted: Mapping[str, Choice], target: Target) -> bool:
    """Whether an operand in six parts is computed from what is loaded, by small tiles of which a multiprocessor holds
    several: what one makes of its loads, another multiplies meanwhile, and stages would take the room of a third. With
    one stage for three a covariance takes 449 us (657), attention without queries 461 (622), states of chunks 782 (960;
    H100, by hand, 2026-11-28); tiles of 128 x 128, one a multiprocessor, took up to 1.15 times as long."""
    is_made = parts == "bf16x6" and not all(is_loaded(v, ir.definitions) for v in operands_of(op))
    sums = register_elements(op.output, chosen_sizes(ir, wanted))
    return is_made and sums <= SMALL_TILE and programs(ir, wanted) >= SEVERAL * target.sm_count


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
    return "tf32x3" if contiguous_along(ir, operands_of(op)[1], -2) else "bf16x6"
