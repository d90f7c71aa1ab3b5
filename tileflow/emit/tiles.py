"""Sizes, numbers, and where tiles begin and end."""

from __future__ import annotations

from ..ir.attributes import ArangeAttrs, ScalarAttrs, SizeAttrs, TileAttrs, TilePartAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from .context import Context
from .dtypes import triton_dtype
from .table import COMMON


@COMMON.emits(OpKind.SIZE)
def size(e: Context, op: Op) -> None:
    """Write a size; a constant one as a tile without dimensions, since a Python number has no dtype."""
    out, value = op.output, SizeAttrs.of(op).value
    text = e.plan.text_of(value, out.type.dtype)
    number = e.plan.number(value)
    if number is not None:  # a Python number in Triton too, which has no dtype to convert from
        text = str(number) if value.is_truth else text
        text = f"tl.full([], {text}, {triton_dtype(out.type.dtype)})"
    e.define(out, text, "int64" if number is None and e.plan.is_in_64_bits(value) else out.type.dtype)


@COMMON.emits(OpKind.SCALAR)
def scalar(e: Context, op: Op) -> None:
    """Bind a captured number to its parameter; a float64 becomes a tile without dimensions."""
    name, dtype = e.parameters.scalar(ScalarAttrs.of(op).path), e.number_dtypes.parameters
    if dtype == "float64":  # a Python number to Triton's interpreter, which has no dtype to convert from
        e.define(op.output, f"tl.full([], {name}, tl.float64)", dtype)
    else:
        e.bind(op.output, name, dtype)


@COMMON.emits(OpKind.TILE_INDEX)
def tile_index(e: Context, op: Op) -> None:
    """Bind the indices of a tile to the name that its loop gave them."""
    e.bind(op.output, f"{e.tile(TileAttrs.of(op).tile)}_idx", op.output.type.dtype)


@COMMON.emits(OpKind.TILE_PART)
def tile_part(e: Context, op: Op) -> None:
    """A tile that is one of two halves of another."""
    tile, whole = e.plan.ir.tiles[TileAttrs.of(op).tile], e.tile(TilePartAttrs.of(op).whole)
    offset = f" + {e.plan.extent_text(tile.block)}" if TilePartAttrs.of(op).part else ""
    e.writer.line(f"{e.tile(tile.name)}_begin = {whole}_begin{offset}")
    e.tile_header(tile)


@COMMON.emits(OpKind.TILE_BEGIN)
def tile_begin(e: Context, op: Op) -> None:
    """Write the first index of a tile."""
    e.define(op.output, _begin(e, op), op.output.type.dtype)


@COMMON.emits(OpKind.TILE_END)
def tile_end(e: Context, op: Op) -> None:
    """Write the end of a tile, at most that of its loop where the last tile is partial."""
    tile = e.plan.ir.tiles[TileAttrs.of(op).tile]
    block = e.plan.step_text(tile.block)
    if e.plan.is_masked(tile.dim):
        e.define(op.output, f"tl.minimum({_begin(e, op)} + {block}, {e.bound(tile, tile.end)})", op.output.type.dtype)
    else:
        e.define(op.output, f"{_begin(e, op)} + {block}", op.output.type.dtype)


def _begin(e: Context, op: Op) -> str:
    """The first index of a tile. The interpreter's loops count in Python ints."""
    name = TileAttrs.of(op).tile
    begin = f"{e.tile(name)}_begin"
    return begin if name in e.plan.ir.grid else f"tl.cast({begin}, {triton_dtype(op.output.type.dtype)})"


@COMMON.emits(OpKind.TILE_ID)
def tile_id(e: Context, op: Op) -> None:
    """Write the number of a tile: its distance from the loop's begin over the block size."""
    tile = e.plan.ir.tiles[TileAttrs.of(op).tile]
    begin = e.bound(tile, tile.begin)
    done = _begin(e, op) if begin == "0" else f"({_begin(e, op)} - {begin})"
    e.define(op.output, f"{done} // {e.plan.step_text(tile.block)}", op.output.type.dtype)


@COMMON.emits(OpKind.ARANGE)
def arange(e: Context, op: Op) -> None:
    """Write consecutive int32 from the op's start."""
    (dim,) = op.output.dims
    start = ArangeAttrs.of(op).start
    lanes = e.arange(dim.extent)
    e.define(op.output, lanes if start.constant == 0 else f"{e.plan.text(start)} + {lanes}", "int32")
