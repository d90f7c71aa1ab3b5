"""Rests of products: ``u - floor(u)`` is of one ``u``, the one that was rounded.

Of ``u = x * 0.3`` a compiler subtracts ``floor(u)`` from the product before it is rounded (:mod:`.products_apart`).
Where the product lies a bit below a whole number and is rounded up to it, the rest was -3e-8 in place of 0: no longer
between 0 and 1, so that ``floor(rest * n)`` is a place outside a table. Such products are rounded by themselves, by one
instruction as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import permutations

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.reach import reached
from ..ir.types import INT_BITS, Value, is_float
from .makers import function_of
from .products_apart import products_of, rounded_apart

_WHOLE = frozenset({"floor", "ceil", "trunc", "round", "floordiv", "truncdiv"})
_TAKES_A_REST = "floordiv"  # its own text subtracts from what it is given
_SUMS = frozenset({"add", "sub"})


def round_before_rests(ir: KernelIR) -> KernelIR:
    """Products as ``fma(a, b, 0)`` that meet, in a sum, a whole number that was made of them."""
    ops = list(ir.walk())
    apart = products_of(ir.definitions, (op.values[0] for op in ops if function_of(op) == _TAKES_A_REST and op.values))
    rounded = {_identity(ir, v) for v in _made_of_whole(ir, ops)}
    for op in ops if rounded else ():
        if function_of(op) in _SUMS and is_float(PointwiseAttrs.of(op).operand):
            for term, other in permutations(op.values, 2):
                apart |= _with_a_rest(ir, term, other, rounded)
    return rounded_apart(ir, apart)


def _with_a_rest(ir: KernelIR, term: Value, other: Value, rounded: set[object]) -> set[Value]:
    """The products that a sum's ``term`` holds and its ``other`` one has a whole number of."""
    products = {v for v in products_of(ir.definitions, [term]) if not _is_exact(ir.definitions[v])}
    if rounded.isdisjoint(_identity(ir, v) for v in products):
        return set()
    makers = (ir.definitions[v] for v in _made_of(ir, [other]) if v in ir.definitions)
    under = {_identity(ir, v) for v in _made_of_whole(ir, makers)}
    return {v for v in products if _identity(ir, v) in under}


def _made_of_whole(ir: KernelIR, ops: Iterable[Op]) -> set[Value]:
    """What the whole numbers among these ops' results are made of."""
    return _made_of(ir, (v for op in ops if _makes_whole(op) for v in op.values))


def _made_of(ir: KernelIR, values: Iterable[Value]) -> set[Value]:
    """``values`` and all that they are made of without a loop or a branch between."""

    def made_of(value: Value) -> Iterable[Value]:
        op = ir.definitions.get(value)
        return op.values if op is not None and not op.regions else ()

    return reached(values, made_of)


def _makes_whole(op: Op) -> bool:
    """Whether an op makes whole numbers of floats."""
    if op.kind is OpKind.CAST:
        return op.output.type.dtype in INT_BITS and any(is_float(v.type.dtype) for v in op.values)
    return function_of(op) in _WHOLE and is_float(PointwiseAttrs.of(op).operand)


def _is_exact(product: Op) -> bool:
    """Whether a product by a power of two is the number that it would be before it is rounded."""
    numbers = [n for n in product.inputs if not isinstance(n, Value)]
    return any(abs(math.frexp(n)[0]) == 0.5 for n in numbers)


def _identity(ir: KernelIR, value: Value) -> object:
    """The value, or the numbers that it is a product of: two of the same ones are one for a compiler."""
    op = ir.definitions.get(value)
    return frozenset(op.inputs) if op is not None and function_of(op) == "mul" else value
