"""Products that must be over before a turn of their loop ends.

Hopper's warp groups multiply while their threads go on (``wgmma``, PTX ISA 9.7.15), and Triton leaves products in
flight from one turn of a loop to the next where the loop only adds them up. Operands in shared memory have buffers of
their own for that. A left operand that was computed lies in registers, which the next turn computes anew while they are
still read: seen on an H200 with Triton 3.6 as sums that differ from run to run.
"""

from __future__ import annotations

from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.types import Value
from .rewrite import Fresh, with_body


def settle_products(ir: KernelIR) -> KernelIR:
    """A ``settle`` at the end of each loop for the products that it only adds up and whose left operand is computed."""
    makers = {v: op for op in ir.walk() for v in op.outputs}
    fresh = Fresh(ir)

    def visit(block: Block, is_loop: bool) -> Block:
        ops = [op.with_(regions=tuple(visit(r, op.kind == "for") for r in op.regions)) for op in block.ops]
        if not is_loop:
            return Block(block.params, tuple(ops), block.results)
        settled: dict[Operand, Operand] = {}
        for total in block.results:
            if isinstance(total, Value) and total not in settled and _is_in_flight(total, block.params, makers):
                settled[total] = out = fresh.value(total.type, total)
                ops.append(Op("settle", (total,), (out,), {}, (), makers[total].loc))
        return Block(block.params, tuple(ops), tuple(settled.get(r, r) for r in block.results))

    return with_body(ir, visit(ir.body, is_loop=False))


def _is_in_flight(total: Value, carried: tuple[Value, ...], makers: dict[Value, Op]) -> bool:
    op = makers.get(total)
    return op is not None and op.kind == "dot" and op.inputs[2] in carried and not _is_buffered(op.values[0], makers)


def _is_buffered(operand: Value, makers: dict[Value, Op]) -> bool:
    """Whether an operand is what a load brought, perhaps permuted: such a one may stay in shared memory."""
    while operand in makers and makers[operand].kind == "permute":
        (operand, *_) = makers[operand].values
    return operand in makers and makers[operand].kind == "load"
