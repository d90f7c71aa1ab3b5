"""Tell apart: whole dimensions of one tile, or of one product, that only have the same length.

The rows and the columns of a square matrix are as many, and nothing else connects them. A loop over blocks of the one
leaves the other as it is; as one dimension neither could be a loop. Two dimensions are connected where the lanes of an
op's operand are those of another operand or of its result. Those that are not and never meet stay one: a loop over
blocks may do with both what it can.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from ..ir.attributes import AccessAttrs, AxisAttrs, LoopAttrs, PermuteAttrs
from ..ir.graph import KernelIR, Op, Operand, SliceIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.op_table import having
from ..ir.opdef import Trait
from ..ir.types import Dim, Value
from .load_again import is_long, load_again
from .rewrite import Redimension, with_body
from .roll import rollable
from .share_loads import share_loads

_BROADCASTS = having(Trait.BROADCASTS)
Place = tuple[int, int]  # a value's id and one of its axes
Pairs = Iterator[tuple[Place, Place]]


def tell_apart(ir: KernelIR) -> KernelIR:
    """Number the dimensions of each length, where a tile or a product has several that no op connects. What products
    load several times is loaded once, where as many of the dimensions can be loops; what a product and something else
    read is loaded for each, where more of them can be."""
    shared = share_loads(ir)
    texts = [shared, ir, load_again(shared), load_again(ir)]
    different = [text for n, text in enumerate(texts) if all(text is not other for other in texts[:n])]
    numbered = [_numbered(text) for text in different]
    return numbered[0] if len(numbered) == 1 else max(numbered, key=lambda found: len(rollable(found)))


def _numbered(ir: KernelIR) -> KernelIR:
    lanes = _Lanes()
    for op in ir.walk():
        for one, other in _connected(op):
            lanes.join(one, other)
    numbers = _numbers(ir, lanes)
    if not any(numbers.values()):
        return ir

    def dim_of(value: Value, axis: int) -> Dim:
        number = numbers.get(lanes.root((value.id, axis)), 0)
        return replace(value.dims[axis], number=number) if number else value.dims[axis]

    def taken(op: Op, item: SliceIndex) -> Dim:
        tile = op.output if op.kind is OpKind.LOAD else op.inputs[0]
        if not isinstance(tile, Value) or tile.dims[item.axis] != item.dim:
            return item.dim
        return dim_of(tile, item.axis)

    return with_body(ir, Redimension(dim_of, taken).block(ir.body))


def _numbers(ir: KernelIR, lanes: _Lanes) -> dict[Place, int]:
    """By the root of connected lanes, the number of their dimension: the least that none which it meets has."""
    meetings = list(_meetings(ir))
    met: dict[Place, set[Place]] = {}
    for places in meetings:
        roots: dict[Dim, dict[Place, None]] = defaultdict(dict)
        for place, dim in places:
            roots[dim][lanes.root(place)] = None
        for together in roots.values():
            for root in together:
                met.setdefault(root, set()).update(together.keys() - {root})
    numbers: dict[Place, int] = {}
    for root, others in met.items():
        taken = {numbers.get(other) for other in others}
        numbers[root] = next(n for n in count() if n not in taken)
    return numbers


def _meetings(ir: KernelIR) -> Iterator[list[tuple[Place, Dim]]]:
    """The long dimensions of each tile, of each product, and of what products sum over beside what they give: loops
    over the one are none over the other."""
    summed: list[tuple[Place, Dim]] = []
    given: list[tuple[Place, Dim]] = []
    for op in ir.walk():
        for value in op.outputs:
            yield _long(ir, value, range(len(value.dims)))
        if op.kind is OpKind.DOT:
            a, b = op.values[:2]
            yield [*_long(ir, a, range(len(a.dims))), *_long(ir, b, range(len(b.dims)))]
            summed += _long(ir, a, [len(a.dims) - 1])
            given += _long(ir, op.output, range(len(op.output.dims)))
    yield from ([one, other] for one in summed for other in given)


def _long(ir: KernelIR, value: Value, axes: Iterable[int]) -> list[tuple[Place, Dim]]:
    dims = ((_at(value, axis), value.dims[axis]) for axis in axes)
    return [(place, dim) for place, dim in dims if is_long(ir, dim)]


class _Lanes:
    """Sets of places whose lanes are the same (union and find)."""

    def __init__(self) -> None:
        self._parents: dict[Place, Place] = {}

    def root(self, place: Place) -> Place:
        """The place that stands for all that are connected with this one."""
        while (parent := self._parents.get(place, place)) != place:
            place = parent
        return place

    def join(self, one: Place, other: Place) -> None:
        """Connect two places."""
        self._parents[self.root(one)] = self.root(other)


def _connected(op: Op) -> Pairs:
    """The places of an op's operands and results whose lanes are the same."""
    if op.kind in _BROADCASTS:
        return _meeting((*op.values, *op.outputs))
    match op.kind:
        case OpKind.DOT:
            return _of_product(op)
        case OpKind.REDUCE | OpKind.SQUEEZE:
            return _all_but(op.values[0], op.output, AxisAttrs.of(op).axis)
        case OpKind.UNSQUEEZE:
            return _all_but(op.output, op.values[0], AxisAttrs.of(op).axis)
        case OpKind.PERMUTE:
            order = PermuteAttrs.of(op).order
            return ((_at(op.values[0], old), _at(op.output, new)) for new, old in enumerate(order))
        case OpKind.FOR:
            return _of_loop(op)
        case OpKind.LOAD | OpKind.STORE:
            return _of_access(op)
        case _:
            return _alike(op)


def _at(value: Value, axis: int) -> Place:
    return value.id, axis % len(value.dims)


def _same(one: Operand, other: Operand, axes: Iterable[int]) -> Pairs:
    """The axes of two operands that have them at the same place from the end."""
    assert isinstance(one, Value) and isinstance(other, Value)
    return ((_at(one, axis), _at(other, axis)) for axis in axes)


def _meeting(values: Iterable[Value]) -> Pairs:
    """Lanes that meet one by one, aligned at the last dimensions: those of dimensions that are equal. What is broadcast
    has 1 there."""
    *rest, last = values
    for value in rest:
        for axis in range(-min(len(value.dims), len(last.dims)), 0):
            if value.dims[axis] == last.dims[axis]:
                yield _at(value, axis), _at(last, axis)


def _of_access(op: Op) -> Pairs:
    """What is read or written, with the indices and the mask that it goes by."""
    attrs = AccessAttrs.of(op)
    tile = op.output if op.kind is OpKind.LOAD else op.inputs[0]
    if not isinstance(tile, Value):
        return
    for item in attrs.index:
        index = op.inputs[item.input] if isinstance(item, ValueIndex) else None
        if isinstance(item, ValueIndex) and isinstance(index, Value):
            for own, axis in enumerate(item.axes):
                if index.dims[own] == tile.dims[axis]:
                    yield _at(index, own), _at(tile, axis)
    if attrs.has_mask and isinstance(op.inputs[-1], Value):
        yield from _meeting((op.inputs[-1], tile))


def _of_product(op: Op) -> Pairs:
    (a, b, *acc), out = op.values, op.output
    yield _at(a, -1), _at(b, -2)
    yield _at(a, -2), _at(out, -2)
    yield _at(b, -1), _at(out, -1)
    for side in (a, b):
        yield from _batches(side, out)
    yield from _meeting((*acc, out))


def _batches(side: Value, out: Value) -> Pairs:
    for axis in range(-min(len(side.dims), len(out.dims)), -2):
        if side.dims[axis] == out.dims[axis]:
            yield _at(side, axis), _at(out, axis)


def _all_but(long: Value, short: Value, axis: int) -> Pairs:
    """All axes of ``long`` but one, with those of ``short``."""
    kept = (n for n in range(len(long.dims)) if n != axis % len(long.dims))
    return ((_at(long, old), _at(short, new)) for new, old in enumerate(kept))


def _of_loop(op: Op) -> Pairs:
    """What is carried comes in, is a parameter, a turn's result and the loop's, with the same dimensions."""
    (turn,) = op.regions
    carried = op.inputs[LoopAttrs.of(op).bounds :]
    for entry, param, result, out in zip(carried, turn.params, turn.results, op.outputs, strict=True):
        for value in (entry, param, result):
            if isinstance(value, Value):
                yield from _same(value, out, range(-len(out.dims), 0))


def _alike(op: Op) -> Pairs:
    """All dimensions of an op that are equal, where no more is known of it."""
    first: dict[Dim, Place] = {}
    inner = (v for region in op.regions for v in (*region.params, *region.results) if isinstance(v, Value))
    for value in (*op.values, *op.outputs, *inner):
        for axis, dim in enumerate(value.dims):
            place = first.setdefault(dim, _at(value, axis))
            if place != _at(value, axis):
                yield place, _at(value, axis)
