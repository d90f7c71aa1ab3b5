"""Where the loop of a product stands: in the region itself, or in a loop over the blocks of rows of a ragged group.

The experts of a mixture have as many rows as the router gave them. A program has a group's columns, or one of all
groups' tiles; where its rows begin and end it reads from a tensor. Its loop over blocks of rows is the *walk* of such a
program: it may have no turn, or one, or many. Blocks begin anywhere, and the last one of a group ends inside a block,
whose other rows belong to the next group: they are multiplied and thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.access import box_anywhere, covers
from ..ir.attributes import AccessAttrs, AxisAttrs, LoopAttrs, ReduceAttrs, ScanAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, SliceIndex, TileIndex
from ..ir.kinds import OpKind
from .chained import Refused, products_of

K = OpKind
# what the numbers of a group are computed from, by every role for itself
_NUMBERS = frozenset({
    K.POINTWISE, K.CAST, K.BITCAST, K.FULL, K.SIZE, K.SCALAR, K.TILE_BEGIN, K.TILE_END, K.TILE_ID, K.LOAD, K.ARANGE,
    K.WHERE_MASK, K.EXPAND, K.REDUCE, K.SCAN,
})  # fmt: skip
_REDUCED = ("max", "min", "sum")


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the product's loop stands. ``block``: what holds it; ``rows``: the loop over a group's blocks of rows, None
    where tiles of rows are the grid's; ``numbers``: what stands in front of that loop and says where the group is;
    ``others``: all else in front of it."""

    block: Block
    rows: Op | None = None
    numbers: tuple[Op, ...] = ()
    others: tuple[Op, ...] = ()

    @property
    def has_vectors(self) -> bool:
        """Whether where a group is follows from vectors, not from single numbers alone."""
        return any(v.dims for op in self.numbers for v in op.outputs)

    @property
    def tile(self) -> str | None:
        """The tile of a group's rows."""
        return None if self.rows is None else TileAttrs.of(self.rows).tile


def frame_of(ir: KernelIR) -> Frame:
    """Where the loop of the region's product stands. Raises Refused where a loop over rows is none over a group's."""
    outer = [op for op in ir.body.ops if op.kind is K.FOR and any(o.kind is K.FOR for o in op.regions[0].ops)]
    if not outer or any(op in op_.regions[0].ops for op in products_of(ir) for op_ in outer):
        return Frame(ir.body)
    if len(outer) > 1:
        raise Refused("it has one loop over a group's rows", outer[1])
    (rows,) = outer
    ops = ir.body.ops
    position = ops.index(rows)
    if rows.outputs or len(rows.inputs) != LoopAttrs.of(rows).bounds or ops[position + 1 :]:
        raise Refused("a group's blocks of rows have nothing to do with one another, and nothing is done after", rows)
    tile = ir.tiles[TileAttrs.of(rows).tile]
    if tile.lengths is not None or tile.wide:
        raise Refused("a group's rows count in 32 bits, one group at a time", rows)
    numbers = tuple(op for op in ops[:position] if is_number(op))
    for op in numbers:
        _check_number(op)
    return Frame(rows.regions[0], rows, numbers, tuple(op for op in ops[:position] if op not in numbers))


def is_number(op: Op) -> bool:
    """Whether an operation gives a number, or a vector of them that has no lane of a tile."""
    return not op.regions and not any(d.tile for v in (*op.values, *op.outputs) for d in v.dims)


def _check_number(op: Op) -> None:
    if op.kind not in _NUMBERS:
        raise Refused(f"where a group's rows are follows from numbers, and no {op.kind}", op)
    if any(len(v.dims) > 1 for v in (*op.values, *op.outputs)):
        raise Refused("where a group's rows are follows from vectors at most", op)
    if op.kind is K.REDUCE and (ReduceAttrs.of(op).fn not in _REDUCED or AxisAttrs.of(op).axis != 0):
        raise Refused(f"reductions of a group's numbers are the {', '.join(_REDUCED)}", op)
    if op.kind is K.SCAN and (ScanAttrs.of(op).fn != "sum" or ScanAttrs.of(op).reverse):
        raise Refused("scans of a group's numbers are sums from the front", op)


def stored_by_blocks(ir: KernelIR, op: Op, rows: str) -> bool:
    """Whether the copy engine can store a block of rows that are all the group's own: a box, but for its rows' end."""
    order = box_anywhere(ir, op)
    if order is None or list(order) != sorted(order):
        return False
    sizes = ir.tensor(AccessAttrs.of(op).tensor).shape
    others = [(i, n) for i, n in zip(AccessAttrs.of(op).index, sizes, strict=True)
              if isinstance(i, SliceIndex) or (isinstance(i, TileIndex) and i.tile != rows)]  # fmt: skip
    return all(covers(ir, i, n) for i, n in others)
