"""Products of one matrix at a time, although the program's tiles have batches in front: of the constant size 1.

The matrix units read an operand from shared memory, where a load put it, only if nothing stands between the load and
the product. So the load is one of two dimensions, and what else reads it sees it with its batches again.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import IndexItem, KernelIR, Op, Operand, SliceIndex, TileIndex, ValueIndex
from ..ir.types import Dim, TileType, Value
from .rewrite import Fresh, map_ops, with_body


def drop_unit_batches(ir: KernelIR) -> KernelIR:
    """Products whose batches are all of the constant size 1 as products of matrices."""
    products = [op for op in ir.walk() if op.kind == "dot" and _is_single(op)]
    return _Dropper(ir, {v for op in products for v in op.values}).run() if products else ir


def _is_single(op: Op) -> bool:
    return len(op.output.dims) > 2 and all(_is_one(d) for v in op.values for d in v.dims[:-2])


def _is_one(dim: Dim) -> bool:
    return dim.extent.constant == 1


class _Dropper:
    """``operands``: of the products to change."""

    def __init__(self, ir: KernelIR, operands: set[Value]) -> None:
        self.ir, self.operands = ir, operands
        self.fresh = Fresh(ir)
        self.flat: dict[Value, Value] = {}

    def run(self) -> KernelIR:
        return with_body(self.ir, map_ops(self.ir.body, self._rewrite))

    def _rewrite(self, op: Op) -> list[Op]:
        if op.kind == "load" and op.output in self.operands and not op.attrs["has_mask"] and self._by_tiles(op):
            return self._load(op)
        if op.kind == "dot" and _is_single(op):
            return self._dot(op)
        return [op]

    def _by_tiles(self, op: Op) -> bool:
        """Whether each batch dimension is that of a tile: one lane, which is its begin."""
        batches = range(len(op.output.dims) - 2)
        named = {i.axis for i in op.attrs["index"] if isinstance(i, TileIndex)}
        return all(n in named and _is_one(op.output.dims[n]) for n in batches)

    def _load(self, op: Op) -> list[Op]:
        batches = len(op.output.dims) - 2
        ops: list[Op] = []
        inputs = list(op.inputs)
        items: list[IndexItem] = []
        for item in op.attrs["index"]:
            if isinstance(item, TileIndex) and item.axis < batches:
                tile = self.ir.tiles[item.tile]
                begin = self.fresh.value(TileType(tile.index_dtype, weak=True), op.output)
                ops.append(Op("tile_begin", (), (begin,), {"tile": tile.name}, (), op.loc))
                inputs.append(begin)
                items.append(ValueIndex(len(inputs) - 1, ()))
            else:
                items.append(_shifted(item, batches))
        flat = self.fresh.value(replace(op.output.type, dims=op.output.dims[-2:]), op.output)
        ops.append(op.with_(inputs=tuple(inputs), outputs=(flat,), attrs=op.attrs | {"index": tuple(items)}))
        self.flat[op.output] = flat
        return [*ops, *self._restored(flat, op.output)]

    def _dot(self, op: Op) -> list[Op]:
        ops: list[Op] = []
        inputs = tuple(self._matrix(v, ops) for v in op.inputs)
        flat = self.fresh.value(replace(op.output.type, dims=op.output.dims[-2:]), op.output)
        product = op.with_(inputs=inputs, outputs=(flat,))
        # not by inserting dimensions, for which Triton would move a loop's accumulator to another layout and back
        return [*ops, product, Op("reshape", (flat,), op.outputs, {}, (), op.loc)]

    def _matrix(self, operand: Operand, ops: list[Op]) -> Operand:
        """An operand without its batches."""
        if not isinstance(operand, Value):
            return operand
        if operand in self.flat:
            return self.flat[operand]
        while len(operand.dims) > 2:
            out = self.fresh.value(replace(operand.type, dims=operand.dims[1:]), operand)
            ops.append(Op("squeeze", (operand,), (out,), {"axis": 0}, (), operand.loc))
            operand = out
        return operand

    def _restored(self, flat: Value, wanted: Value) -> list[Op]:
        """``wanted`` as ``flat`` with its batches in front."""
        ops: list[Op] = []
        for n in reversed(range(len(wanted.dims) - 2)):
            out = self.fresh.value(replace(wanted.type, dims=wanted.dims[n:]), wanted) if n else wanted
            ops.append(Op("unsqueeze", (flat,), (out,), {"axis": 0}, (), wanted.loc))
            flat = out
        return ops


def _shifted(item: IndexItem, batches: int) -> IndexItem:
    if isinstance(item, (TileIndex, SliceIndex)):
        return replace(item, axis=item.axis - batches)
    if isinstance(item, ValueIndex):
        return replace(item, axes=tuple(a - batches for a in item.axes))
    return item
