"""Accesses of single elements or of pairs, by tiles whose dimensions come in the order in which they lie in memory.

Triton gives the lanes of a warp to the dimensions of a tile by how far each runs on in memory, and to those that run on
equally far by their number: the first one first up to 3.6, the last one since 3.7 (its coalescing of accesses). Where
no dimension runs on, as in ``x[rows, columns, 0]``, or only a pair does, the lanes of 3.6 so follow the rows, which are
furthest apart: each lane of a store has a sector of memory to itself. A tile that is loaded or stored with its
dimensions turned round, the nearest first, has lanes of neighbours; to turn it back moves nothing. Complex numbers of
4 x 4096 x 32 heads of 64 took 914 us so as they came and take 141, products of five by five 523 and 388 (H100, by hand,
2026-11-27).

Where lanes exchange what they hold, as in sums over a small matrix, it matters more who has which row than how rows are
loaded (balanced 4 x 4 matrices: 21 us, and 32 turned). A region is left alone there, unless it has pairs, which would
be further apart than single elements were (gated units in fp8: 98 us, with pairs 152, and 92 turned).
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.attributes import AccessAttrs, Attrs, PermuteAttrs
from ..ir.graph import ExprIndex, IndexItem, KernelIR, Op, SliceIndex, TileIndex
from ..ir.kinds import OpKind
from ..ir.op_table import OPS, PRODUCTS
from ..ir.opdef import Trait
from ..ir.pressure import on_the_way
from ..ir.types import TileType, Value
from .rewrite import Fresh, map_ops, with_body

_SHORT = 4  # elements that lie side by side, up to which lanes go on along another dimension
Order = tuple[int, ...]


def turn_along_memory(ir: KernelIR) -> KernelIR:
    """Such accesses with their dimensions turned. A region with products stays as it is: layouts are the matrix
    units'."""
    if any(op.kind in PRODUCTS for op in ir.walk()):
        return ir
    if any(OPS[op.kind].traits & Trait.COLLECTIVE for op in ir.walk()) and not on_the_way(ir):
        return ir
    fresh = Fresh(ir)

    def turned(op: Op) -> list[Op]:
        order = _order(ir, op)
        if order is None:
            return [op]
        return _load(fresh, op, order) if op.kind is OpKind.LOAD else _store(fresh, op, order)

    body = map_ops(ir.body, turned)
    return with_body(ir, body) if body != ir.body else ir


def _accessed(op: Op) -> Value | None:
    """What a load gives or a store takes; None for a number, and for what is neither."""
    value = op.output if op.kind is OpKind.LOAD else op.inputs[0] if op.kind is OpKind.STORE else None
    return value if isinstance(value, Value) else None


def _load(fresh: Fresh, op: Op, order: Order) -> list[Op]:
    out = op.output
    value = fresh.value(TileType(out.type.dtype, tuple(out.dims[a] for a in order)), out)
    back = tuple(order.index(axis) for axis in range(len(order)))
    load = op.with_(outputs=(value,), attrs=_renumbered(op, order))
    return [load, Op(OpKind.PERMUTE, (value,), (out,), PermuteAttrs(back), (), op.loc)]


def _store(fresh: Fresh, op: Op, order: Order) -> list[Op]:
    stored, *others = op.inputs
    assert isinstance(stored, Value)
    value = fresh.value(TileType(stored.type.dtype, tuple(stored.dims[a] for a in order)), stored)
    turn = Op(OpKind.PERMUTE, (stored,), (value,), PermuteAttrs(order), (), op.loc)
    return [turn, op.with_(inputs=(value, *others), attrs=_renumbered(op, order))]


def _renumbered(op: Op, order: Order) -> Attrs:
    """The access with the axes of its indices where ``order`` has them."""

    def moved(item: IndexItem) -> IndexItem:
        match item:
            case TileIndex(tile, axis, inside):
                return TileIndex(tile, order.index(axis), inside)
            case SliceIndex(start, dim, axis):
                return SliceIndex(start, dim, order.index(axis))
        return item

    attrs = AccessAttrs.of(op)
    return replace(attrs, index=tuple(map(moved, attrs.index)))


def _order(ir: KernelIR, op: Op) -> Order | None:
    """The axes of the accessed tile from the nearest in memory to the furthest, and then what lies side by side; None
    where that is their order, or where they stay."""
    value = _accessed(op)
    if value is None or AccessAttrs.of(op).has_mask or len(value.dims) < 2:
        return None
    strides, along = dict[int, int](), list[int]()
    tensor = ir.tensor(AccessAttrs.of(op).tensor)
    for item, stride in zip(AccessAttrs.of(op).index, tensor.strides, strict=True):
        if isinstance(item, ExprIndex):
            continue
        if not isinstance(item, TileIndex | SliceIndex) or stride.constant is None:
            return None
        strides[item.axis] = stride.constant
        if stride.constant == 1:
            along.append(item.axis)
    if any((count := value.dims[axis].extent.constant) is None or count > _SHORT for axis in along):
        return None
    if sorted(strides) != list(range(len(value.dims))):
        return None
    order = (*sorted((a for a in strides if a not in along), key=strides.__getitem__), *along)
    return None if order == tuple(range(len(order))) or len(order) - len(along) < 2 else order
