"""Products that must be over before a turn of their loop ends.

Hopper's warp groups multiply while their threads go on (``wgmma``, PTX ISA 9.7.15), and Triton leaves products in
flight from one turn of a loop to the next where the loop only adds them up. Operands in shared memory have buffers of
their own for that. A left operand that was computed lies in registers, which the next turn computes anew while they are
still read: seen on an H200 with Triton 3.6 as sums that differ from run to run.

Where the turn computes that operand from another product of its own, as attention does its weights from its scores,
nothing is to be done. Products are over in the order in which they were issued, so that a turn which has read its
scores has waited for all products of the turn before.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.analysis import in_full_precision
from ..ir.attributes import NO_ATTRS
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import Value
from .rewrite import Fresh, with_body


def await_dots(ir: KernelIR) -> KernelIR:
    """An ``await_dot`` at the end of each loop for the products that it only adds up and whose left operand is computed
    of no other product of the turn."""
    makers = ir.definitions
    fresh = Fresh(ir)

    def visit(block: Block, is_loop: bool) -> Block:
        ops = [op.with_(regions=tuple(visit(r, op.kind is OpKind.FOR) for r in op.regions)) for op in block.ops]
        if not is_loop:
            return Block(block.params, tuple(ops), block.results)
        awaited: dict[Operand, Operand] = {}
        for total in block.results:
            if isinstance(total, Value) and total not in awaited and _is_in_flight(total, block, makers):
                awaited[total] = out = fresh.value(total.type, total)
                ops.append(Op(OpKind.AWAIT_DOT, (total,), (out,), NO_ATTRS, (), makers[total].loc))
        return Block(block.params, tuple(ops), tuple(awaited.get(r, r) for r in block.results))

    return with_body(ir, visit(ir.body, is_loop=False))


def _is_in_flight(total: Value, turn: Block, makers: Mapping[Value, Op]) -> bool:
    op = makers.get(total)
    if op is None or op.kind is not OpKind.DOT or not set(op.inputs[2:]) & set(turn.params):
        return False
    left = op.values[0]
    return not is_buffered(left, makers) and left not in _after_products(turn, op, set())


def is_buffered(operand: Value, makers: Mapping[Value, Op]) -> bool:
    """Whether an operand is what a load brought, perhaps permuted: such a one may stay in shared memory."""
    while operand in makers and makers[operand].kind is OpKind.PERMUTE:
        (operand, *_) = makers[operand].values
    return operand in makers and makers[operand].kind is OpKind.LOAD


def _after_products(block: Block, total: Op, known: set[Value]) -> set[Value]:
    """``known``, and what depends on it or on a product that warp groups do whenever they do ``total``. Of a branch,
    what does on both sides; of an inner loop, which may have no turn, nothing."""
    found = set(known)
    for op in block.ops:
        if op.kind is OpKind.IF:
            sides = [(side.results, _after_products(side, total, found)) for side in op.regions]
            found |= {out for n, out in enumerate(op.outputs) if all(results[n] in has for results, has in sides)}
        elif _goes_with(op, total) or (op.kind is not OpKind.FOR and not found.isdisjoint(op.values)):
            found.update(op.outputs)
    return found


def _goes_with(op: Op, total: Op) -> bool:
    """Whether warp groups do a product if they do ``total``: by as many rows, which are what they need enough of."""
    if op.kind is not OpKind.DOT:
        return False
    a, rows = op.values[0], total.values[0].dims[:-1]
    return not in_full_precision(op) and [d.extent for d in a.dims[:-1]] == [d.extent for d in rows]
