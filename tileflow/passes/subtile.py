"""Subtiling: what follows a loop over an accumulator of two dimensions, and the store of the result, by halves of its
columns.

The accumulator is split where its loop ends. Everything between there and the store that has the columns is done for
one half and then the other, so that half the registers hold it and a store through shared memory needs half of that.
"""

from __future__ import annotations

from dataclasses import replace

from ..expr import Expr
from ..ir.attributes import NO_ATTRS, AccessAttrs, PermuteAttrs, ReshapeAttrs, TileAttrs, TilePartAttrs, site_of
from ..ir.graph import Block, ExprIndex, IndexItem, KernelIR, Op, Operand, SliceIndex, Tile, TileIndex, once
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS, effects_of, having
from ..ir.opdef import Trait
from ..ir.types import Dim, TileType, Value
from .rewrite import Fresh, with_body
from .roll import rollable

_CLONED = having(Trait.BY_HALVES)
_PLAIN = (TileIndex, SliceIndex, ExprIndex)


@once
def subtilable(ir: KernelIR) -> dict[str, Op]:
    """The stores that can be done in halves, by site: at the end of the region, of what a loop with products gave."""
    if rollable(ir):  # the end of the region would be loops of its own
        return {}
    return {site_of(op): op for op in ir.body.ops if op.kind is OpKind.STORE and epilogue(ir, op) is not None}


def subtile(ir: KernelIR, site: str) -> KernelIR:
    """The region with the store ``site`` (one of :func:`subtilable`) in two halves."""
    store = subtilable(ir)[site]
    chain = epilogue(ir, store)
    assert chain is not None
    halves = _Halves(ir, store)
    ops: list[Op] = []
    for op in ir.body.ops:
        ops += halves.run(chain, op) if op is store else [op]
    return replace(with_body(ir, Block((), tuple(ops), ir.body.results)), tiles=dict(ir.tiles) | halves.tiles)


def _columns(ir: KernelIR, store: Op) -> Dim | None:
    """The second dimension of what is stored, where it is that of a tile whose block is a knob."""
    value = store.inputs[0]
    if not isinstance(value, Value) or len(value.dims) != 2:
        return None
    dim = value.dims[1]
    if dim.tile is None or dim not in [ir.tiles[name].dim for name in ir.grid] or dim.extent.op != "sym":
        return None
    return dim if value.dims[0] != dim else None


def epilogue(ir: KernelIR, store: Op) -> list[Op] | None:
    """The ops between loops and the store that have its columns, in order; None where they cannot be halved."""
    columns = _columns(ir, store)
    if columns is None or not _is_plain(store, columns, store.inputs[0]):
        return None
    written = {
        p for op in ir.walk() if op.kind in (OpKind.STORE, OpKind.ATOMIC) for p in ir.sharing(AccessAttrs.of(op).tensor)
    }
    makers = {v: op for op in ir.body.ops for v in op.outputs}
    waiting, seen, found, has_product = list(store.values), set[Value](), set[int](), False
    while waiting:
        value = waiting.pop()
        if columns not in value.dims or value in seen:
            continue
        seen.add(value)
        op = makers[value]
        if op.kind is OpKind.FOR and _split_dims(value, columns):
            has_product |= any(inner.kind in PRODUCTS for inner in op.regions[0].ops)
        elif (
            op.kind not in _CLONED or not written.isdisjoint(effects_of(op).reads) or not _is_plain(op, columns, value)
        ):
            return None
        else:
            found.add(id(op))
            waiting += op.values
    return [op for op in ir.body.ops if id(op) in found] if has_product else None


def _split_dims(value: Value, columns: Dim) -> bool:
    return len(value.dims) == 2 and value.dims[1] == columns and value.dims[0] != columns


def _is_plain(op: Op, columns: Dim, value: Operand) -> bool:
    """Whether an access has the columns by their tile, and no mask; what is no access has."""
    if not isinstance(op.attrs, AccessAttrs):
        return True
    assert isinstance(value, Value) and columns.tile is not None
    items = AccessAttrs.of(op).index
    named = [i for i in items if isinstance(i, TileIndex) and i.tile == columns.tile]
    plain = all(isinstance(i, _PLAIN) for i in items) and not AccessAttrs.of(op).has_mask
    return plain and len(named) == value.dims.count(columns) == 1


class _Halves:
    """Rewrites one store."""

    def __init__(self, ir: KernelIR, store: Op) -> None:
        self.fresh, self.store = Fresh(ir), store
        columns = _columns(ir, store)
        assert columns is not None and columns.tile is not None
        self.columns, self.whole, parent = columns, columns.tile, ir.tiles[columns.tile]
        self.half = parent.block // 2
        self.parts = tuple(
            replace(parent, name=f"{parent.name}.half{n}", block=self.half, is_grid=False) for n in (0, 1)
        )
        self.tiles = {part.name: part for part in self.parts}

    def run(self, chain: list[Op], store: Op) -> list[Op]:
        makers = {v for op in chain for v in op.outputs}
        roots = [v for op in (*chain, store) for v in op.values if self.columns in v.dims and v not in makers]
        ops: list[Op] = []
        split = {root: self._split(root, store, ops) for root in dict.fromkeys(roots)}
        for part, tile in enumerate(self.parts):
            attrs = TilePartAttrs(tile.name, self.whole, part)
            ops.append(Op(OpKind.TILE_PART, (), (), attrs, (), store.loc))
            renamed: dict[Value, Operand] = {root: halves[part] for root, halves in split.items()}
            ops += [self._cloned(op, tile, renamed) for op in (*chain, store)]
        return ops

    def _split(self, value: Value, store: Op, ops: list[Op]) -> tuple[Value, ...]:
        """The left and the right half of a tile's columns."""
        rows, two, half = value.dims[0], Dim(Expr.of(2)), Dim(self.half)
        apart = self._value(value, (rows, two, half))
        last = self._value(value, (rows, half, two))
        halves = tuple(self._value(value, (rows, tile.dim)) for tile in self.parts)
        ops.append(Op(OpKind.RESHAPE, (value,), (apart,), ReshapeAttrs(), (), store.loc))
        ops.append(Op(OpKind.PERMUTE, (apart,), (last,), PermuteAttrs((0, 2, 1)), (), store.loc))
        ops.append(Op(OpKind.SPLIT, (last,), halves, NO_ATTRS, (), store.loc))
        return halves

    def _value(self, like: Value, dims: tuple[Dim, ...]) -> Value:
        return self.fresh.value(TileType(like.type.dtype, dims), like)

    def _cloned(self, op: Op, tile: Tile, renamed: dict[Value, Operand]) -> Op:
        inputs = tuple(renamed.get(v, v) if isinstance(v, Value) else v for v in op.inputs)
        outputs = tuple(self._value(v, tuple(tile.dim if d == self.columns else d for d in v.dims)) for v in op.outputs)
        renamed.update(zip(op.outputs, outputs, strict=True))
        attrs = op.attrs
        if isinstance(attrs, AccessAttrs):
            attrs = replace(attrs, index=tuple(self._item(i, tile) for i in attrs.index))
        if op.kind is OpKind.TILE_INDEX:
            attrs = TileAttrs(tile.name)
        return op.with_(inputs=inputs, outputs=outputs, attrs=attrs)

    def _item(self, item: IndexItem, tile: Tile) -> IndexItem:
        is_columns = isinstance(item, TileIndex) and item.tile == self.columns.tile
        return TileIndex(tile.name, item.axis) if isinstance(item, TileIndex) and is_columns else item
