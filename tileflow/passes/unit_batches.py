"""Products of one matrix at a time, although the program's tiles have batches in front: of the size 1, constant or
chosen.

Such a batch is a tile of one lane. Everything that has its dimension is computed without it, from the load to the
store: the matrix units read an operand from shared memory, where a load put it, only if nothing but a transposition
stands between the load and the product, and Triton keeps a loop's sums in the layout of its products only if nothing
reshapes them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..ir.attributes import (
    AccessAttrs,
    Attrs,
    AxisAttrs,
    PermuteAttrs,
    ReduceAttrs,
    ReshapeAttrs,
    TileAttrs,
    WhereMaskAttrs,
)
from ..ir.graph import Block, IndexItem, KernelIR, Op, Operand, SliceIndex, TileIndex, ValueIndex, once
from ..ir.kinds import OpKind
from ..ir.op_table import having
from ..ir.opdef import Trait
from ..ir.types import Dim, TileType, Value
from .dead_code import remove_dead_code
from .rewrite import Fresh, with_body

Axes = frozenset[int]
_NONE: Axes = frozenset()
_OF_ONE = frozenset({"sum", "max", "min", "prod"})  # reductions that of one element give that
_BROADCAST = having(Trait.BROADCASTS)


def drop_unit_batches(ir: KernelIR, unit_blocks: Collection[str] = ()) -> KernelIR:
    """Products whose batches are all of the size 1 as products of matrices. ``unit_blocks``: the block
    symbols that are 1."""
    dropper = _Dropper(ir, frozenset(unit_blocks))
    if not dropper.dropped and not any(map(dropper.is_single, ir.walk())):
        return ir
    scope = _Scope(dropper, {})
    for op in ir.body.ops:
        scope.add(op)
    return with_body(ir, Block(ir.body.params, tuple(scope.ops), ir.body.results))


@once
def batch_blocks(ir: KernelIR) -> tuple[str, ...]:
    """The block symbols that a product has as batches: where all are 1, it is one of matrices."""
    blocks = {tile.block for tile in ir.tiles.values()}
    dims = [d for op in ir.walk() if op.kind is OpKind.DOT for v in op.values for d in v.dims[:-2]]
    return tuple(sorted({d.extent.args[0] for d in dims if d.extent.op == "sym" and d.extent in blocks}))


@once
def as_matrices(ir: KernelIR) -> KernelIR:
    """The region as it is where every batch that a block size makes is one matrix."""
    return remove_dead_code(drop_unit_batches(ir, batch_blocks(ir))) if batch_blocks(ir) else ir


class _Dropper:
    """``dropped``: the tiles that are the batches. A value that has them is defined without them, its ``flat``."""

    def __init__(self, ir: KernelIR, unit_blocks: frozenset[str]) -> None:
        self.ir, self.unit_blocks = ir, unit_blocks
        self.fresh = Fresh(ir)
        products = [op for op in ir.walk() if self.is_single(op)]
        has_product = any(op.kind is OpKind.DOT for op in ir.walk())
        stored = [op.values[0] for op in ir.walk() if has_product and self._is_stored_alone(op)]
        tiles = [v for op in products for v in (*op.values, op.output)] + stored
        self.dropped = {d.tile for v in tiles for d in v.dims[:-2] if d.tile}

    def is_single(self, op: Op) -> bool:
        """Whether ``op`` is a product of batches of one matrix."""
        return op.kind is OpKind.DOT and len(op.output.dims) > 2 and all(self._is_one(d) for d in _batches(op))

    def _is_stored_alone(self, op: Op) -> bool:
        """Whether ``op`` stores one matrix of each of its batches: a product of matrices may have been given them for
        the store alone, ``out[b, rows, :] = sums``."""
        if op.kind is not OpKind.STORE or not op.values or len(op.values[0].dims) < 3:
            return False
        return all(d.tile is not None and self._is_one(d) for d in op.values[0].dims[:-2])

    def _is_one(self, dim: Dim) -> bool:
        extent = dim.extent
        return extent.constant == 1 or (extent.op == "sym" and extent.args[0] in self.unit_blocks)

    def axes(self, value: Value) -> Axes:
        """The dimensions of ``value`` that are dropped: none where it would become a scalar, which Triton does not
        reshape."""
        found = frozenset(n for n, d in enumerate(value.dims) if d.tile in self.dropped and self._is_one(d))
        return found if len(found) < len(value.dims) else _NONE


def _batches(op: Op) -> list[Dim]:
    return [d for v in op.values for d in v.dims[:-2]]


class _Scope:
    """The ops of one block so far, and the flat values that they can read."""

    def __init__(self, dropper: _Dropper, known: dict[Value, Value]) -> None:
        self.dropper, self.known = dropper, known
        self.ops: list[Op] = []

    def defined(self, value: Value) -> Value:
        """The value to define in place of ``value``."""
        axes = self.dropper.axes(value)
        if not axes:
            return value
        self.known[value] = flat = self.dropper.fresh.value(_without(value.type, axes), value)
        return flat

    def get(self, operand: Operand, axes: Axes) -> Operand:
        """``operand`` without ``axes``, which are of the size 1; a tile keeps one dimension."""
        if not isinstance(operand, Value):
            return operand
        if axes and len(axes) == len(operand.dims):
            axes -= {0}
        inserted = self._inserted(operand) if operand not in self.known else -1
        if inserted in axes:
            (value,) = self.dropper.ir.definitions[operand].values
            return self.get(value, frozenset(a - (a > inserted) for a in axes - {inserted}))
        source = self.known.get(operand, operand)
        wanted = _without(operand.type, axes)
        if source.dims == wanted.dims:
            return source
        out = self.dropper.fresh.value(wanted, operand)
        # not by inserting dimensions, for which Triton would move a sum to another layout and back
        self.ops.append(Op(OpKind.RESHAPE, (source,), (out,), ReshapeAttrs(), (), operand.loc))
        return out

    def _inserted(self, value: Value) -> int:
        """The axis that was inserted last into a value; -1 where none was."""
        op = self.dropper.ir.definitions.get(value)
        return AxisAttrs.of(op).axis if op is not None and op.kind is OpKind.UNSQUEEZE else -1

    def add(self, op: Op) -> None:
        """``op`` without batches where it can be computed so, else with all of them."""
        if (one := self._of_one(op)) is not None:
            self.known[op.output] = one
            return
        converted = self._converted(op)
        if converted is not None and op.kind is OpKind.EXPAND and converted.values[0].dims == converted.output.dims:
            self.known[op.output] = converted.values[0]
            return
        if converted is None:
            regions = tuple(self._region(r, [_NONE] * len(r.results)) for r in op.regions)
            converted = op.with_(inputs=tuple(self.get(v, _NONE) for v in op.inputs), regions=regions)
        self.ops.append(converted)

    def _of_one(self, op: Op) -> Value | None:
        """What is reduced along a batch of one matrix: that matrix, which a loop's sum is then added to inside the
        matrix unit."""
        if op.kind is not OpKind.REDUCE or ReduceAttrs.of(op).fn not in _OF_ONE or len(op.values) != 1:
            return None
        (value,) = op.values
        axes, along = self.dropper.axes(value), value.dims[ReduceAttrs.of(op).axis]
        tile = self.dropper.ir.tiles.get(along.tile or "")
        if ReduceAttrs.of(op).axis not in axes or tile is None or tile.lengths is not None:
            return None
        wanted = _without(op.output.type, self.dropper.axes(op.output))
        found = self.get(value, axes)
        return found if isinstance(found, Value) and found.type == wanted else None

    def _converted(self, op: Op) -> Op | None:
        if op.kind in (OpKind.FOR, OpKind.WHILE, OpKind.IF):
            return self._nested(op)
        if op.kind is OpKind.DOT and self.dropper.is_single(op):
            return self._product(op)
        values = (*op.values, *op.outputs)
        if not any(map(self.dropper.axes, values)):
            return None
        if op.kind in _BROADCAST:
            return self._broadcast(op)
        if op.kind in (OpKind.LOAD, OpKind.STORE):
            return self._access(op)
        if op.kind in (OpKind.REDUCE, OpKind.SCAN, OpKind.WHERE_MASK, OpKind.UNSQUEEZE, OpKind.SQUEEZE, OpKind.PERMUTE):
            return self._along(op)
        return None

    def _nested(self, op: Op) -> Op:
        """A loop or a branch, and what it carries or gives, without batches."""
        outputs = tuple(self.dropper.axes(v) for v in op.outputs)
        carried = len(op.inputs) if op.kind is OpKind.IF else len(op.inputs) - len(op.outputs)
        entry = tuple(self.get(v, a) for v, a in zip(op.inputs[carried:], outputs, strict=False))
        before = tuple(self.get(v, _NONE) for v in op.inputs[:carried])
        regions = tuple(self._region(r, outputs) for r in op.regions)
        return op.with_(inputs=(*before, *entry), regions=regions, outputs=tuple(map(self.defined, op.outputs)))

    def _region(self, block: Block, results: Sequence[Axes]) -> Block:
        inner = _Scope(self.dropper, dict(self.known))
        params = tuple(map(inner.defined, block.params))
        for op in block.ops:
            inner.add(op)
        found = tuple(inner.get(v, a) for v, a in zip(block.results, results, strict=True))
        return Block(params, tuple(inner.ops), found)

    def _product(self, op: Op) -> Op:
        """The product of matrices, without batches of size 1 that are no tile's either."""
        inputs = tuple(self.get(v, _leading(v)) for v in op.inputs)
        out = self.dropper.fresh.value(_without(op.output.type, _leading(op.output)), op.output)
        product = op.with_(inputs=inputs, outputs=(out,))
        axes = self.dropper.axes(op.output)
        if axes == _leading(op.output):
            self.known[op.output] = out
            return product
        self.ops.append(product)
        return Op(OpKind.RESHAPE, (out,), (self.defined(op.output),), ReshapeAttrs(), (), op.loc)

    def _broadcast(self, op: Op) -> Op:
        """Operands are aligned at their last dimensions."""
        axes, rank = self.dropper.axes(op.output), len(op.output.dims)
        inputs = []
        for v in op.inputs:
            shift = rank - len(v.dims) if isinstance(v, Value) else rank
            inputs.append(self.get(v, frozenset(a - shift for a in axes if a >= shift)))
        return op.with_(inputs=tuple(inputs), outputs=(self.defined(op.output),))

    def _along(self, op: Op) -> Op | None:
        """An op along a dimension, or one that inserts, drops or reorders dimensions."""
        value = op.values[0]
        axes, gone = self.dropper.axes(value), self.dropper.axes(op.output)
        attrs: Attrs
        if op.kind is OpKind.PERMUTE:
            order = PermuteAttrs.of(op).order
            attrs = PermuteAttrs(tuple(_place(a, axes) for a in order if a not in axes))
        elif op.kind is OpKind.WHERE_MASK:
            if set(WhereMaskAttrs.of(op).axes) & axes or any(isinstance(v, Value) and v.dims for v in op.inputs[1:]):
                return None
            attrs = WhereMaskAttrs(tuple(_place(a, axes) for a in WhereMaskAttrs.of(op).axes))
        else:
            axis = AxisAttrs.of(op).axis
            if axis in (gone if op.kind is OpKind.UNSQUEEZE else axes):
                return None
            attrs = replace(AxisAttrs.of(op), axis=_place(axis, gone if op.kind is OpKind.UNSQUEEZE else axes))
        grown = len(op.output.dims) - len(value.dims)
        if len(op.output.dims) - len(gone) != len(value.dims) - len(axes) + grown:
            return None
        inputs = (self.get(value, axes), *op.inputs[1:])
        return op.with_(inputs=inputs, attrs=attrs, outputs=(self.defined(op.output),))

    def _access(self, op: Op) -> Op | None:
        """A load or a store: the one lane of a batch is the begin of its tile."""
        tile = op.output if op.kind is OpKind.LOAD else op.inputs[0]
        if AccessAttrs.of(op).has_mask or not isinstance(tile, Value):
            return None
        axes, items = self.dropper.axes(tile), AccessAttrs.of(op).index
        named = {i.axis for i in items if isinstance(i, TileIndex)} if len(tile.dims) == _rank(items) else set()
        if not axes <= named or any(axes & set(i.axes) for i in items if isinstance(i, ValueIndex)):
            return None
        inputs = [self.get(v, axes) if v is tile else v for v in op.inputs]
        index: list[IndexItem] = []
        for item in items:
            if isinstance(item, TileIndex) and item.axis in axes:
                index.append(ValueIndex(len(inputs), (), item.inside))
                inputs.append(self._begin(item.tile, tile))
            else:
                index.append(_moved(item, axes))
        outputs = tuple(map(self.defined, op.outputs))
        return op.with_(inputs=tuple(inputs), outputs=outputs, attrs=replace(AccessAttrs.of(op), index=tuple(index)))

    def _begin(self, name: str, like: Value) -> Value:
        tile = self.dropper.ir.tiles[name]
        begin = self.dropper.fresh.value(TileType(tile.index_dtype, weak=True), like)
        self.ops.append(Op(OpKind.TILE_BEGIN, (), (begin,), TileAttrs(name), (), like.loc))
        return begin


def _without(type_: TileType, axes: Axes) -> TileType:
    return replace(type_, dims=tuple(d for n, d in enumerate(type_.dims) if n not in axes))


def _leading(operand: Operand) -> Axes:
    return frozenset(range(len(operand.dims) - 2)) if isinstance(operand, Value) else _NONE


def _place(axis: int, axes: Axes) -> int:
    """Where ``axis`` is once ``axes`` are gone."""
    return axis - sum(a < axis for a in axes)


def _rank(items: Sequence[IndexItem]) -> int:
    """The dimensions that an index gives."""
    found = {i.axis for i in items if isinstance(i, (TileIndex, SliceIndex))}
    return len(found | {a for i in items if isinstance(i, ValueIndex) for a in i.axes})


def _moved(item: IndexItem, axes: Axes) -> IndexItem:
    if isinstance(item, (TileIndex, SliceIndex)):
        return replace(item, axis=_place(item.axis, axes))
    if isinstance(item, ValueIndex):
        return replace(item, axes=tuple(_place(a, axes) for a in item.axes))
    return item
