"""Ops that give the same elements other dimensions or another order."""

from __future__ import annotations

from ..attributes import AxisAttrs, PermuteAttrs
from ..checking import Checker
from ..graph import Op
from ..types import INT_BITS, Dim, is_float
from .operands import axis_of, same_dtype, value_at, without


def unsqueeze(c: Checker, op: Op) -> None:
    """One dimension of extent 1 is inserted; the others and the dtype are the input's."""
    same_dtype(c, op)
    dims = op.output.dims
    axis = axis_of(c, op, dims)
    c.require(c.number(dims[axis].extent) == 1, op, "the inserted dimension has the extent 1", axis, dims)
    c.require(
        c.same_sizes(value_at(c, op).dims, without(dims, axis)),
        op,
        "the other dimensions are the input's",
        value_at(c, op).dims,
        dims,
    )


def squeeze(c: Checker, op: Op) -> None:
    """One dimension of extent 1 is dropped; the others and the dtype are the input's."""
    same_dtype(c, op)
    dims = value_at(c, op).dims
    axis = axis_of(c, op, dims)
    c.require(c.number(dims[axis].extent) == 1, op, "the dropped dimension has the extent 1", axis, dims)
    c.require(
        c.same_sizes(op.output.dims, without(dims, axis)),
        op,
        "the other dimensions are the input's",
        dims,
        op.output.dims,
    )


def permute(c: Checker, op: Op) -> None:
    """The output has the input's dimensions in the given order, which names each once."""
    same_dtype(c, op)
    order, dims = PermuteAttrs.of(op).order, value_at(c, op).dims
    c.require(sorted(order) == list(range(len(dims))), op, "an order names each dimension once", order, dims)
    c.require(
        c.same_sizes(op.output.dims, (dims[a] for a in order)),
        op,
        "the output has the input's dimensions in that order",
        dims,
        order,
        op.output.dims,
    )


def expand(c: Checker, op: Op) -> None:
    """The output has as many dimensions as the input, and the input broadcasts to them."""
    same_dtype(c, op)
    value = value_at(c, op)
    fits = len(value.dims) == len(op.output.dims) and c.broadcasts(value, op.output.dims)
    c.require(fits, op, "the input broadcasts to the output's dimensions", value.dims, op.output.dims)


def reshape(c: Checker, op: Op) -> None:
    """The output has as many elements as the input, in its dtype. A batch whose block is 1 may lose its dimension."""
    same_dtype(c, op)
    dims, found = list(value_at(c, op).dims), list(op.output.dims)
    if not c.same_count(dims, found):
        for dim in [d for d in dims if d in found]:
            dims.remove(dim)
            found.remove(dim)
        alone = all(d.extent.op == "sym" or c.number(d.extent) == 1 for d in (*dims, *found))
        c.require(
            alone and not (dims and found),
            op,
            "a reshape keeps the number of elements",
            value_at(c, op).dims,
            op.output.dims,
        )


def narrow(c: Checker, op: Op) -> None:
    """The output has as many dimensions as the input; where an extent differs, both take as many registers."""
    same_dtype(c, op)
    dims, found = value_at(c, op).dims, op.output.dims
    c.require(len(dims) == len(found), op, "a narrowed tile keeps its dimensions", dims, found)
    changed = [(a, b) for a, b in zip(dims, found, strict=True) if not c.same_size(a.extent, b.extent)]
    fits = all(_registers(c.number(a.extent)) == _registers(c.number(b.extent)) for a, b in changed)
    c.require(fits, op, "other lanes of a dimension count, of as many registers", dims, found)


def _registers(size: int) -> int:
    """The lanes that registers hold of a dimension: a power of two."""
    return 1 << max(size - 1, 0).bit_length()


def join(c: Checker, op: Op) -> None:
    """Two tiles of one type are interleaved in a new last dimension of two."""
    same_dtype(c, op)
    first, second = value_at(c, op), value_at(c, op, 1)
    c.require(
        first.type.dtype == second.type.dtype and c.same_sizes(first.dims, second.dims),
        op,
        "both sides have one type",
        first.type,
        second.type,
    )
    _pairs(c, op, op.output.dims, first.dims)


def split(c: Checker, op: Op) -> None:
    """Each of the two halves has the input's dimensions without the last, which has two elements."""
    same_dtype(c, op)
    for half in op.outputs:
        _pairs(c, op, value_at(c, op).dims, half.dims)


def _pairs(c: Checker, op: Op, both: tuple[Dim, ...], one: tuple[Dim, ...]) -> None:
    fits = bool(both) and c.number(both[-1].extent) == 2 and c.same_sizes(both[:-1], one)
    c.require(fits, op, "both stand in a last dimension of 2", both, one)


def nibbles(c: Checker, op: Op) -> None:
    """Bytes become two tiles of floats with the dimensions of the bytes."""
    value = value_at(c, op)
    c.require(value.type.dtype in ("int8", "uint8"), op, "nibbles are of bytes", value.type)
    for half in op.outputs:
        fits = is_float(half.type.dtype) and c.same_sizes(half.dims, value.dims)
        c.require(fits, op, "each nibble is a float where its byte is", value.type, half.type)


def gather(c: Checker, op: Op) -> None:
    """The indices are ints with the tile's other dimensions, and the output has the dimensions of the indices."""
    same_dtype(c, op)
    value, places = value_at(c, op), value_at(c, op, 1)
    axis = axis_of(c, op, value.dims)
    c.require(places.type.dtype in INT_BITS and places.type.dtype != "bool", op, "indices are ints", places.type)
    c.require(
        len(places.dims) == len(value.dims) and c.same_sizes(without(places.dims, axis), without(value.dims, axis)),
        op,
        "the indices have the tile's other dimensions",
        value.dims,
        places.dims,
    )
    c.require(
        c.same_sizes(places.dims, op.output.dims),
        op,
        "the output has the indices' dimensions",
        places.dims,
        op.output.dims,
    )


def sort(c: Checker, op: Op) -> None:
    """A tile of ints is sorted along its last dimension, of which the output has all or the first few elements."""
    (value,), out = op.values, op.output
    last = axis_of(c, op, value.dims) == len(value.dims) - 1
    c.require(last, op, "the last dimension is sorted", AxisAttrs.of(op).axis, value.dims)
    c.require(value.type.dtype == out.type.dtype, op, "the output has the input's dtype", value.type, out.type)
    c.require(not is_float(out.type.dtype), op, "what is sorted is of ints", out.type)
    same = len(value.dims) == len(out.dims) and c.same_sizes(value.dims[:-1], out.dims[:-1])
    c.require(same, op, "the output has the other dimensions", value.dims, out.dims)
