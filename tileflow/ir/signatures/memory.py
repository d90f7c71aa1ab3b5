"""Loads, stores and atomics: the index has the lanes that are accessed, and every input has a use."""

from __future__ import annotations

from ..attributes import AccessAttrs, AtomicAttrs, HistogramAttrs
from ..checking import Checker
from ..graph import Op, SliceIndex, TileIndex, ValueIndex
from ..types import INT_BITS, Dim, Value
from .operands import dtype_of, value_at


def load(c: Checker, op: Op) -> None:
    """A load has the lanes that its index names and the dtype of its tensor."""
    dtype = _access(c, op, op.output.dims, 0)
    c.require(op.output.type.dtype == dtype, op, "a load gives the tensor's dtype", op.output.type, dtype)


def store(c: Checker, op: Op) -> None:
    """A store's value has the lanes that its index names."""
    _access(c, op, value_at(c, op).dims, 1)


def atomic(c: Checker, op: Op) -> None:
    """An atomic's one value (two of ``cas``) broadcasts to the old ones, which it returns in the tensor's dtype."""
    values = 2 if AtomicAttrs.of(op).fn == "cas" else 1
    c.require(len(op.inputs) >= values, op, f"an atomic takes {values} values", len(op.inputs))
    for operand in op.inputs[:values]:
        c.require(
            c.broadcasts(operand, op.output.dims),
            op,
            "an atomic's values have the lanes of the old ones",
            operand,
            op.output.dims,
        )
    dtype = _access(c, op, op.output.dims, values)
    c.require(op.output.type.dtype == dtype, op, "an atomic gives the tensor's dtype", op.output.type, dtype)


def histogram(c: Checker, op: Op) -> None:
    """A histogram's value has the lanes that choose, by index values; each number that it adds is the same."""
    attrs, dims = HistogramAttrs.of(op), value_at(c, op).dims
    _access(c, op, dims, 1)
    for axis in attrs.chosen:
        item = attrs.index[axis]
        c.require(isinstance(item, ValueIndex) and bool(item.axes), op, "lanes choose by a tile of indices", item)
    c.require(bool(attrs.chosen) and attrs.fn == "add", op, "lanes choose what they add to", attrs.chosen, attrs.fn)


def _access(c: Checker, op: Op, dims: tuple[Dim, ...], values: int) -> str:
    """Checks the index of an access of ``dims``, whose first ``values`` inputs it writes; the tensor's dtype."""
    attrs = AccessAttrs.of(op)
    tensor = c.tensors.get(attrs.tensor)
    if tensor is None:
        c.refuse(op, "an access names a tensor of the region", attrs.tensor, sorted(c.tensors))
    rank = len(tensor.shape)
    c.require(len(attrs.index) == rank, op, "an index has an item for each dimension of the tensor", attrs.index, rank)
    used = set(range(values))
    for item in attrs.index:
        if isinstance(item, TileIndex):
            _tile_item(c, op, item, dims)
        elif isinstance(item, SliceIndex):
            c.require(0 <= item.axis < len(dims), op, "a slice's axis is one of the lanes'", item.axis, dims)
            c.require(
                c.same_sizes((item.dim,), (dims[item.axis],)),
                op,
                "a slice has the lanes of its axis",
                item.dim,
                dims[item.axis],
            )
        elif isinstance(item, ValueIndex):
            c.require(
                values <= item.input < len(op.inputs),
                op,
                "an index value is an input after the written ones",
                item.input,
                len(op.inputs),
            )
            used.add(item.input)
            _value_item(c, op, item, dims)
    if attrs.has_mask:
        used.add(len(op.inputs) - 1)
        mask = value_at(c, op, len(op.inputs) - 1)
        c.require(mask.type.dtype == "bool", op, "a mask is of bools", mask.type)
        c.require(c.broadcasts(mask, dims), op, "a mask has the lanes of what is accessed", mask.dims, dims)
    c.require(
        used == set(range(len(op.inputs))),
        op,
        "every input is a written value, an index value or the mask",
        sorted(used),
        len(op.inputs),
    )
    return tensor.dtype


def _tile_item(c: Checker, op: Op, item: TileIndex, dims: tuple[Dim, ...]) -> None:
    tile = c.ir.tiles.get(item.tile)
    if tile is None:
        c.refuse(op, "an index names a tile of the region", item.tile, sorted(c.ir.tiles))
    c.require(0 <= item.axis < len(dims), op, "a tile's axis is one of the lanes'", item.axis, dims)
    c.require(
        c.same_size(tile.block, dims[item.axis].extent),
        op,
        "a tile has the lanes of its axis",
        tile.block,
        dims[item.axis],
    )


def _value_item(c: Checker, op: Op, item: ValueIndex, dims: tuple[Dim, ...]) -> None:
    operand = op.inputs[item.input]
    c.require(
        dtype_of(operand) in (*INT_BITS, "int") and dtype_of(operand) != "bool",
        op,
        "an index value is of ints",
        operand,
    )
    c.require(
        all(0 <= a < len(dims) for a in item.axes), op, "an index value's axes are among the lanes'", item.axes, dims
    )
    if isinstance(operand, Value) and operand.dims:
        c.require(
            len(operand.dims) == len(item.axes),
            op,
            "an index value has an axis for each of its dimensions",
            operand.dims,
            item.axes,
        )
