"""First blocks of float32 products whose inner dimension is in one piece, by the matrix units.

Operands in six bfloat16 parts: of three tf32 ones a right operand that lies otherwise is turned in registers, and sums
of fewer than 128 numbers are less exact. Times are of kernels of others (H200, 2026-11-30;
docs/measurements/default-rules.md#whole-inner-dimensions-in-full-precision).
"""

from __future__ import annotations

from ..config import Choice
from ..ir.attributes import site_of
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..space.knobs import GROUP, NUM_STAGES, NUM_WARPS, PRECISION
from ..space.precisions import OF_ANY_LENGTH, parts_of_product
from ..target import Target
from .operands import one_matrix, operands_of
from .output_blocks import MOST_SUMS_IN_PARTS, Shapes, in_registers, output_block, sides_of
from .sizes import pow2, symbol, times

SHAPES: Shapes = ((128, 64, 8), (64, 64, 4))
# Of whole columns: sums of a program, and its rows. Sixteen rows of 128 columns took 337 us where 64 took 828, and 696
# where 32 took 803; 32 rows of 64 columns 282 and 16 of them 464.
SUMS_OF_WHOLE, LEAST_ROWS, MOST_ROWS = 2048, 16, 64
# Of four warps, a thread's registers for what is held beside the products: of more there are eight. Sums of four
# products and what they are made of are 96, and took 1110 us by the sixteen warps that such a default settles on.
_MOST_HELD, _WARPS = 80, (4, 8)


def whole_in_parts_config(ir: KernelIR, op: Op, lengths: list[int], batch: int, target: Target) -> dict[str, Choice]:
    """The knobs of a product whose inner dimension is whole, and one of whose sides or both are blocks; none where the
    matrix units do not take all products of the region in these parts: multiply-adds beside them would be as long.

    One stage: operands are taken apart in registers, whose programs wait for each other's loads. By multiply-adds 32 x
    4096 x 4096 x 128 took 18.9 ms and 2.6 so, codes of 256 by 64 numbers 350 us and 120."""
    a, b = operands_of(op)
    rows, columns = a.dims[-2], b.dims[-1]
    chosen = _in_parts(ir, target)
    if symbol(a.dims[-1]) or not symbol(rows) or PRECISION.name(site_of(op)) not in chosen:
        return {}
    if symbol(columns):
        fitting = in_registers(ir, op, SHAPES, target, MOST_SUMS_IN_PARTS) or SHAPES[-1:]
        m, n, warps = output_block(sides_of(ir, (rows, columns), lengths), batch, fitting, target)
    else:
        n = pow2(lengths[1])
        m = min(max(SUMS_OF_WHOLE // n, LEAST_ROWS), MOST_ROWS)
        warps = _WARPS[not in_registers(ir, op, ((m, n, _WARPS[0]),), target, _MOST_HELD)]
    wanted = one_matrix(op)
    wanted |= {symbol(d): max(size // times(d), 1) for d, size in ((rows, m), (columns, n))}
    return wanted | chosen | {NUM_WARPS.name(ir): warps, NUM_STAGES.name(ir): 1, GROUP.name(ir): 8}


def _in_parts(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The precision of every product that the matrix units may take in parts, if they may take all of those in the same
    ones."""
    offered = {
        PRECISION.name(site_of(op)): parts_of_product(ir, op, target) for op in ir.walk() if op.kind is OpKind.DOT
    }
    able = {name: parts for name, parts in offered.items() if parts}
    return dict.fromkeys(able, OF_ANY_LENGTH) if all(OF_ANY_LENGTH in parts for parts in able.values()) else {}
