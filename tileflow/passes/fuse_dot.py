"""``acc + a @ b`` as one ``dot`` with an accumulator, so that the sum happens in the matrix unit's registers."""

from __future__ import annotations

from ..ir.graph import KernelIR, Op, Operand, uses
from ..ir.types import Value
from .rewrite import map_ops, with_body


def fuse_dot(ir: KernelIR) -> KernelIR:
    """Where the product has no accumulator yet, no other reader, and the sum has the accumulator's dtype and dims."""
    counts = uses(ir.body)
    products: dict[Value, Op] = {}

    def rewrite(op: Op) -> list[Op]:
        if op.kind == "dot" and len(op.inputs) == 2:
            products[op.output] = op
        if op.kind != "pointwise" or op.attrs["fn"] != "add":
            return [op]
        for product, other in (op.inputs, reversed(op.inputs)):
            fused = _fused(op, products.get(product) if isinstance(product, Value) else None, other, counts)
            if fused is not None:
                return [fused]
        return [op]

    return with_body(ir, map_ops(ir.body, rewrite))


def _fused(add: Op, product: Op | None, acc: Operand, counts: dict[Value, int]) -> Op | None:
    if product is None or counts[product.output] != 1 or not isinstance(acc, Value):
        return None
    wanted = product.attrs["acc"]
    if acc.type.dtype != wanted or add.output.type.dtype != wanted or acc.dims != product.output.dims:
        return None
    return product.with_(inputs=(*product.inputs, acc), outputs=add.outputs)
