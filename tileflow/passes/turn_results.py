"""Results turned round: what surrounds a transposed product's loop, computed of the transposed result.

:func:`~tileflow.passes.transpose.transpose` turns the sums back behind the loop. Where a group of warps holds rows of
the transposed sums, whatever the author does with a result is done to those rows instead: every matrix outside the loop
changes its two dimensions for each other, down to the indices of loads and stores.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.attributes import AccessAttrs, AxisAttrs, PermuteAttrs, WhereMaskAttrs
from ..ir.graph import IndexItem, KernelIR, Op, Operand, SliceIndex, TileIndex, ValueIndex, walk
from ..ir.kinds import OpKind
from ..ir.types import TileType, Value
from .rewrite import Fresh, rename, with_body

K = OpKind
_LANE_BY_LANE = (K.POINTWISE, K.CAST, K.BITCAST, K.FULL, K.EXPAND)
_SWAPPED = PermuteAttrs((1, 0))


def turn_results(ir: KernelIR) -> KernelIR | None:
    """The region with the matrices outside its loop turned round, so that nothing permutes the loop's sums. None where
    an operation has no such form."""
    turner = _Turner(Fresh(ir))
    ops: list[Op] = []
    for op in ir.body.ops:
        if op.kind is K.PERMUTE and op.attrs == _SWAPPED:
            turner.undo(op)
        elif op.kind is K.FOR:
            ops.append(op.with_(inputs=tuple(rename(v, turner.renamed) for v in op.inputs)))
        else:
            found = turner.turned(op)
            if found is None:
                return None
            ops.append(found)
    body = replace(ir.body, ops=tuple(ops))
    if any(turner.others & {*op.values} for op in walk(body)):  # the loop reads a matrix as it lay before
        return None
    return with_body(ir, body)


class _Turner:
    """Operations with their matrices turned round. ``renamed``: a matrix by what has its place; ``others``: those that
    no operation makes any more."""

    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh
        self.renamed: dict[Value, Operand] = {}
        self.others: set[Value] = set()

    def undo(self, op: Op) -> None:
        """A permutation names what is turned round already, or what turns the operand back."""
        (source,) = op.values
        self.renamed[op.output] = self.renamed.get(source, source)

    def turned(self, op: Op) -> Op | None:
        """The operation on turned matrices; itself where it has none; None where it has no such form."""
        if op.regions or any(len(v.dims) > 2 for v in (*op.values, *op.outputs)):
            return None
        if not any(len(v.dims) == 2 for v in (*op.values, *op.outputs)):
            return op
        attrs = op.attrs
        if op.kind in (K.UNSQUEEZE, K.REDUCE):
            attrs = replace(AxisAttrs.of(op), axis=1 - AxisAttrs.of(op).axis)
        elif op.kind is K.WHERE_MASK:
            attrs = WhereMaskAttrs(tuple(1 - axis for axis in WhereMaskAttrs.of(op).axes))
        elif op.kind in (K.LOAD, K.STORE):
            if not _is_plain(op):
                return None
            attrs = replace(AccessAttrs.of(op), index=tuple(map(_turned_index, AccessAttrs.of(op).index)))
        elif op.kind not in _LANE_BY_LANE:
            return None
        inputs = tuple(rename(v, self.renamed) for v in op.inputs)
        return op.with_(inputs=inputs, outputs=tuple(map(self._output, op.outputs)), attrs=attrs)

    def _output(self, value: Value) -> Value:
        if len(value.dims) != 2:
            return value
        turned = self._fresh.value(TileType(value.type.dtype, value.dims[::-1]), value)
        self.renamed[value] = turned
        self.others.add(value)
        return turned


def _is_plain(op: Op) -> bool:
    """Whether all indices of an access are along one dimension each."""
    return all(len(i.axes) < 2 for i in AccessAttrs.of(op).index if isinstance(i, ValueIndex))


def _turned_index(item: IndexItem) -> IndexItem:
    if isinstance(item, TileIndex | SliceIndex):
        return replace(item, axis=1 - item.axis)
    if isinstance(item, ValueIndex):
        return replace(item, axes=tuple(1 - axis for axis in item.axes))
    return item
