"""``acc + a @ b`` as one ``dot`` with an accumulator, so that the sum happens in the matrix unit's registers."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.attributes import DotAttrs, PointwiseAttrs
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import Value
from .rewrite import with_body


def fuse_dot(ir: KernelIR) -> KernelIR:
    """Make the summand a product's accumulator. The product must have none yet, no other reader, and stand in the sum's
    block (a loop must not repeat it); the sum must have the accumulator's dtype and shape."""
    return with_body(ir, _fuse(ir.body, ir.uses))


def _fuse(block: Block, counts: Mapping[Value, int]) -> Block:
    products: dict[Value, Op] = {}
    ops: list[Op] = []
    for op in block.ops:
        op = op.with_(regions=tuple(_fuse(r, counts) for r in op.regions)) if op.regions else op
        if op.kind is OpKind.DOT and len(op.inputs) == 2:
            products[op.output] = op
        ops.append(
            _sum(op, products, counts) if op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn == "add" else op
        )
    return Block(block.params, tuple(ops), block.results)


def _sum(add: Op, products: dict[Value, Op], counts: Mapping[Value, int]) -> Op:
    """The sum as a product with an accumulator, or as it is. The product that it replaces is dead code then."""
    for product, other in (add.inputs, reversed(add.inputs)):
        found = products.get(product) if isinstance(product, Value) else None
        if found is not None and counts[found.output] == 1 and _accumulates(add, found, other):
            return found.with_(inputs=(*found.inputs, other), outputs=add.outputs)
    return add


def _accumulates(add: Op, product: Op, acc: Operand) -> bool:
    if not isinstance(acc, Value):
        return False
    wanted = DotAttrs.of(product).acc
    shapes = [tuple(d.extent for d in v.dims) for v in (acc, product.output, add.output)]
    return acc.type.dtype == wanted == add.output.type.dtype and shapes[0] == shapes[1] == shapes[2]
