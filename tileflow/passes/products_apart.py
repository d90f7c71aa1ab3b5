"""Products that are rounded by themselves: ``fma(a, b, 0)``, which no compiler joins with the addition that follows.

LLVM (for Triton 3.6 and 3.7) makes one instruction of a multiplication and an addition, and leaves the multiplication
to those who use the product otherwise. The sum is then made of a product that was not rounded, beside others that see
the rounded one. Where the two must be one number, the product is an instruction of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.op_table import having
from ..ir.opdef import Trait
from ..ir.reach import reached
from ..ir.types import Value, is_float
from .makers import Makers, function_of
from .rewrite import map_ops, with_body

_SAME_ELEMENTS = having(Trait.REARRANGES) | {OpKind.CAST}  # a cast to a wider dtype may be no instruction
_SAME_SIZE = ("neg", "positive")


def rounded_apart(ir: KernelIR, products: AbstractSet[Value]) -> KernelIR:
    """The region with each of these products as ``fma(a, b, 0)``."""

    def rewrite(op: Op) -> list[Op]:
        if not products.isdisjoint(op.outputs):
            op = op.with_(inputs=(*op.inputs, 0.0), attrs=replace(PointwiseAttrs.of(op), fn="fma"))
        return [op]

    return with_body(ir, map_ops(ir.body, rewrite)) if products else ir


def products_of(makers: Makers, values: Iterable[Value]) -> set[Value]:
    """The products of floats whose elements ``values`` hold, as they are, negated, or in another dtype."""

    def shown(value: Value) -> Iterable[Value]:
        op = makers.get(value)
        return op.values if op is not None and (op.kind in _SAME_ELEMENTS or function_of(op) in _SAME_SIZE) else ()

    return {v for v in reached(values, shown) if (op := makers.get(v)) is not None and _is_product(op)}


def _is_product(op: Op) -> bool:
    return function_of(op) == "mul" and is_float(PointwiseAttrs.of(op).operand)
