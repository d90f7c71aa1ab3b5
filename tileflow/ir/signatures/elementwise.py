"""Ops that compute lane by lane, and those that make scalars, indices and random numbers."""

from __future__ import annotations

import re
from functools import cache

from ..attributes import PointwiseAttrs, RandomAttrs, ScalarAttrs, SizeAttrs, TileAttrs, TilePartAttrs, WhereMaskAttrs
from ..checking import Checker
from ..graph import Op
from ..ops import POINTWISE
from ..types import FLOAT_BITS, INT_BITS, Value, itemsize
from .operands import same_dims, same_type, value_at

_INDICES = ("int32", "int64")


@cache
def _arity(fn: str) -> int:
    """The operands that a pointwise row's text has."""
    return 1 + max(int(n) for n in re.findall(r"\{(\d)\}", POINTWISE[fn].triton))


def pointwise(c: Checker, op: Op) -> None:
    """The function is a row of POINTWISE and has its arity; its operands broadcast to the output. Comparisons give
    bools."""
    attrs = PointwiseAttrs.of(op)
    c.require(attrs.fn in POINTWISE, op, "a pointwise op is a row of POINTWISE", attrs.fn)
    arity = _arity(attrs.fn)
    c.require(len(op.inputs) == arity, op, f"{attrs.fn} takes {arity} operands", len(op.inputs))
    c.require(attrs.operand in FLOAT_BITS or attrs.operand in INT_BITS, op, "operands meet in a dtype", attrs.operand)
    if POINTWISE[attrs.fn].boolean:
        c.require(op.output.type.dtype == "bool", op, f"{attrs.fn} gives bools", op.output.type)
    for operand in op.inputs:
        c.require(
            c.broadcasts(operand, op.output.dims),
            op,
            "operands broadcast to the output's dimensions",
            operand,
            op.output.dims,
        )


def bitcast(c: Checker, op: Op) -> None:
    """The output has the input's dimensions and a dtype of the same width."""
    same_dims(c, op)
    sizes = [itemsize(v.type.dtype) for v in (value_at(c, op), op.output)]
    c.require(
        sizes[0] == sizes[1], op, "a dtype is reinterpreted as one of its width", value_at(c, op).type, op.output.type
    )


def full(c: Checker, op: Op) -> None:
    """A tile is filled with a scalar: a number, or a value without dimensions."""
    operand = op.inputs[0]
    c.require(not isinstance(operand, Value) or not operand.dims, op, "a tile is filled with a scalar", operand)


def where_mask(c: Checker, op: Op) -> None:
    """The output has the first input's type, the axes are its own, and the other value broadcasts to it."""
    same_type(c, op)
    axes = WhereMaskAttrs.of(op).axes
    c.require(
        bool(axes) and all(0 <= a < len(op.output.dims) for a in axes),
        op,
        "the axes are among the dimensions",
        axes,
        op.output.dims,
    )
    c.require(
        c.broadcasts(op.inputs[1], op.output.dims),
        op,
        "the other value has the same dimensions",
        op.inputs[1],
        op.output.dims,
    )


def scalar_int(c: Checker, op: Op) -> None:
    """A size is an int or a bool without dimensions."""
    c.require(
        not op.output.dims and op.output.type.dtype in (*_INDICES, "bool"),
        op,
        "a size is an int",
        op.output.type,
        SizeAttrs.of(op).value,
    )


def captured(c: Checker, op: Op) -> None:
    """A scalar is a captured number of the region and has no dimensions."""
    path = ScalarAttrs.of(op).path
    c.require(path in c.scalars, op, "a scalar is a captured number of the region", path, sorted(c.scalars))
    c.require(not op.output.dims, op, "a captured number has no dimensions", op.output.type)


def tile_scalar(c: Checker, op: Op) -> None:
    """A tile's begin, end or id is of a tile of the region and has no dimensions."""
    _of_tile(c, op)
    c.require(not op.output.dims, op, "a scalar of a tile has no dimensions", op.output.type)


def tile_index(c: Checker, op: Op) -> None:
    """A tile's indices are one dimension as long as the tile's block."""
    _of_tile(c, op)
    block = c.ir.tiles[TileAttrs.of(op).tile].block
    fits = len(op.output.dims) == 1 and c.same_size(op.output.dims[0].extent, block)
    c.require(fits, op, "a tile's indices have its lanes", op.output.type, block)


def _of_tile(c: Checker, op: Op) -> None:
    name = TileAttrs.of(op).tile
    c.require(name in c.ir.tiles, op, "an op of a tile names one of the region", name, sorted(c.ir.tiles))
    dtype = c.ir.tiles[name].index_dtype
    if op.outputs:
        c.require(op.output.type.dtype == dtype, op, "a tile's numbers are of its index dtype", op.output.type, dtype)


def tile_part(c: Checker, op: Op) -> None:
    """A half is of a tile of the region, 0 or 1, and its block is half of that tile's."""
    _of_tile(c, op)
    attrs, tiles = TilePartAttrs.of(op), c.ir.tiles
    c.require(attrs.whole in tiles, op, "a part is of a tile of the region", attrs.whole, sorted(tiles))
    c.require(attrs.part in (0, 1), op, "a tile has a left half, 0, and a right one, 1", attrs.part)
    c.require(
        c.same_size(tiles[attrs.tile].block * 2, tiles[attrs.whole].block),
        op,
        "a half is half of its tile",
        tiles[attrs.tile].block,
        tiles[attrs.whole].block,
    )


def arange(c: Checker, op: Op) -> None:
    """The output is one dimension of int32 or int64."""
    type_ = op.output.type
    c.require(len(type_.dims) == 1 and type_.dtype in _INDICES, op, "arange gives one dimension of ints", type_)


def random(c: Checker, op: Op) -> None:
    """Floats take a seed, ints a seed and both bounds. Each dimension has an offset and the size of the whole, which
    only the first may leave open."""
    attrs, dims = RandomAttrs.of(op), op.output.dims
    inputs = 1 if op.output.type.dtype == "float32" else 3
    c.require(
        len(op.inputs) == inputs,
        op,
        f"random numbers of this dtype take {inputs} operands",
        op.output.type,
        len(op.inputs),
    )
    c.require(
        len(attrs.sizes) == len(attrs.offsets) == len(dims),
        op,
        "the whole has a size and an offset for each dimension",
        attrs.sizes,
        attrs.offsets,
        dims,
    )
    c.require(None not in attrs.sizes[1:], op, "the sizes of the whole after the first are known", attrs.sizes)
