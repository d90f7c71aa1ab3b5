"""Lanes that agree: a sum of products that something decides by is the same number in every lane that holds it.

A reduction hands its result to several lanes, each of which adds its neighbour's part to its own. Where the part is a
product, the compiler makes one instruction of the multiplication and the addition (LLVM, for Triton 3.6 and 3.7): that
rounds the neighbour's product and not the lane's own, so that two lanes have results a bit apart. Nobody notices in a
norm. But of ``delay = ((a - b) ** 2).sum(1)`` the nearest one's ``floor(delay - delay.amin())`` is 0 in one lane and -1
in the other: 25 of 1024 results were off (H200, 2026-11-26), and where an address and its mask come from different
lanes, memory is read that is no tensor's. Such products are rounded by themselves (:mod:`.products_apart`). That is an
instruction more, and left out where no bit decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..ir.attributes import AccessAttrs, LoopAttrs, PointwiseAttrs, ReduceAttrs
from ..ir.graph import KernelIR, Op, Operand, ValueIndex
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES
from ..ir.ops import POINTWISE
from ..ir.reach import given, reached, readers
from ..ir.types import INT_BITS, Value, is_float
from .makers import function_of
from .products_apart import products_of, rounded_apart

# functions that jump, or are not a number a bit below it, where a number equals the largest or the least of its kind
_EDGES = frozenset({"floor", "ceil", "trunc", "round", "sign", "sqrt", "rsqrt", "log", "log2", "pow"})
_EDGES |= {"floordiv", "truncdiv", "fmod", "remainder", "remainder_by_power"}
_EDGES |= {fn for fn, row in POINTWISE.items() if row.boolean}
_EXTREMA = frozenset({"max", "min", "argmax", "argmin"})
_BRANCHES = frozenset({OpKind.IF, OpKind.WHILE})


def agree(ir: KernelIR) -> KernelIR:
    """Products as ``fma(a, b, 0)`` whose sums along a dimension something decides by."""
    sums = [op for op in ir.walk() if op.kind is OpKind.REDUCE and ReduceAttrs.of(op).fn == "sum"]
    products = {op.output: found for op in sums if (found := products_of(ir.definitions, op.values))}
    if not products:
        return ir
    placing = _placing(ir)
    deciding = (found for total, found in products.items() if total in placing or _meets_its_extremum(ir, total))
    return rounded_apart(ir, set[Value]().union(*deciding))


def _placing(ir: KernelIR) -> set[Value]:
    """The values that places in memory, lengths of loops and branches are made of; of a loop or a branch, all that it
    is given and gives."""
    inner = {p: op for op in ir.walk() for region in op.regions for p in region.params}
    makers = inner | dict(ir.definitions)

    def made_of(value: Value) -> list[Value]:
        op = makers.get(value)
        return [] if op is None else [*op.values, *(v for region in op.regions for v in _values(region.results))]

    return reached((v for op in ir.walk() for v in _values(_placed_by(ir, op))), made_of)


def _placed_by(ir: KernelIR, op: Op) -> Iterable[Operand]:
    """What says where an op reads or writes, how often it turns, or which way it goes."""
    if op.kind in ACCESSES:
        return [op.inputs[item.input] for item in AccessAttrs.of(op).index if isinstance(item, ValueIndex)]
    if op.kind is OpKind.GATHER:
        return op.inputs[1:]
    if op.kind is OpKind.FOR:
        return ir.tiles[LoopAttrs.of(op).tile].bounds
    if op.kind in _BRANCHES:
        results = (v for region in op.regions for v in _values(region.results))
        return [v for v in (*op.values, *results) if v.type.dtype == "bool"]
    return ()


def _meets_its_extremum(ir: KernelIR, total: Value) -> bool:
    """Whether at an edge ``total`` meets the largest or the least of its kind."""
    reading = readers(ir)

    def gives(value: Value, beyond_extrema: bool) -> list[Value]:
        ops = [op for op in reading.get(value, ()) if beyond_extrema or not _is_extremum(op)]
        return [v for op in ops for v in given(op)]

    straight = reached([total], lambda value: gives(value, beyond_extrema=False))
    extrema = [v for value in straight for op in reading.get(value, ()) if _is_extremum(op) for v in op.outputs]
    around = reached(extrema, lambda value: gives(value, beyond_extrema=True))
    edges = (op for value in straight for op in reading.get(value, ()) if _has_an_edge(op))
    return any(not around.isdisjoint(op.values) for op in edges)


def _values(operands: Iterable[Operand]) -> Iterator[Value]:
    return (v for v in operands if isinstance(v, Value))


def _is_extremum(op: Op) -> bool:
    return op.kind is OpKind.REDUCE and ReduceAttrs.of(op).fn in _EXTREMA


def _has_an_edge(op: Op) -> bool:
    if op.kind is OpKind.CAST:
        return op.output.type.dtype in INT_BITS
    return function_of(op) in _EDGES and is_float(PointwiseAttrs.of(op).operand)
