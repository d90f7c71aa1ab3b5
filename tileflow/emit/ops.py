"""One function for each op kind: the Triton text of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.attributes import (
    AccessAttrs,
    ArangeAttrs,
    LoadAttrs,
    PointwiseAttrs,
    ScalarAttrs,
    SizeAttrs,
    TileAttrs,
    TilePartAttrs,
    WhereMaskAttrs,
    site_of,
)
from ..ir.graph import Op, Operand
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.types import Value, is_float
from . import descriptors, indexing
from .casts import converted
from .dtypes import compute_dtype, literal, triton_dtype
from .functions import provide
from .table import emits

if TYPE_CHECKING:
    from .kernel import Emitter


@emits(OpKind.LOAD)
def load(e: Emitter, op: Op) -> None:
    if descriptors.wanted(e, op):
        descriptors.load(e, op)
        return
    out = op.output
    text = f"tl.load({indexing.pointer(e, op, out.dims)}"
    mask = indexing.mask(e, out.dims, op)
    if mask:
        text += f", mask={mask}, other={literal(LoadAttrs.of(op).other, out.type.dtype)}"
    cache = e.plan.choice(f"{site_of(op)}.cache", "")
    if cache:
        text += f", cache_modifier='{cache}'"
    eviction = LoadAttrs.of(op).eviction or e.plan.choice(f"{site_of(op)}.eviction", "")
    if eviction:
        text += f", eviction_policy='{eviction}'"
    e.define(out, text + ")", out.type.dtype)


@emits(OpKind.STORE)
def store(e: Emitter, op: Op) -> None:
    if descriptors.wanted(e, op):
        descriptors.store(e, op)
        return
    value = op.inputs[0]
    assert isinstance(value, Value)
    tensor = e.plan.ir.tensor(AccessAttrs.of(op).tensor)
    mask = indexing.mask(e, value.dims, op)
    text = f"tl.store({indexing.pointer(e, op, value.dims)}, {e.as_dtype(value, tensor.dtype)}"
    if mask:
        text += f", mask={mask}"
    cache = e.plan.choice(f"{site_of(op)}.cache", "")
    if cache:
        text += f", cache_modifier='{cache}'"
    e.writer.line(text + ")")


@emits(OpKind.POINTWISE)
def pointwise(e: Emitter, op: Op) -> None:
    row = POINTWISE[PointwiseAttrs.of(op).fn]
    dtype = compute_dtype(PointwiseAttrs.of(op).operand)
    if all(not isinstance(v, Value) or v.type.weak for v in op.inputs):
        dtype = e.number_dtype(dtype)
    other = row.double if dtype == "float64" else None if is_float(dtype) else row.integer
    template = row.triton if other is None else other
    first = 1 if PointwiseAttrs.of(op).fn == "where" else 0
    operands = [e.as_dtype(v, "bool") for v in op.inputs[:first]]
    operands += [e.as_dtype(v, dtype) for v in op.inputs[first:]]
    held = "bool" if row.boolean else dtype
    provide(e, template)
    e.define(op.output, template.format(*operands), held)


@emits(OpKind.CAST)
def cast(e: Emitter, op: Op) -> None:
    value, dtype = op.inputs[0], op.output.type.dtype
    if dtype == "bool":
        e.define(op.output, e.as_dtype(value, "bool"), "bool")
    else:
        e.define(op.output, e.as_dtype(value, dtype), dtype)


@emits(OpKind.BITCAST)
def bitcast(e: Emitter, op: Op) -> None:
    value = op.inputs[0]
    assert isinstance(value, Value)
    dtype = op.output.type.dtype
    e.define(op.output, f"{e.as_dtype(value, value.type.dtype)}.to({triton_dtype(dtype)}, bitcast=True)", dtype)


@emits(OpKind.FULL)
def full(e: Emitter, op: Op) -> None:
    out, dtype = op.output, compute_dtype(op.output.type.dtype)
    value = op.inputs[0]
    if isinstance(value, Value) and not out.dims:
        e.define(out, e.as_dtype(value, dtype), dtype)
    else:  # not tl.broadcast_to: the variable of a loop is a Python int to the interpreter
        text = e.as_dtype(value, dtype)
        e.define(out, f"tl.full({e.shape(out.dims)}, {text}, {triton_dtype(dtype)})", dtype)


@emits(OpKind.SIZE)
def size(e: Emitter, op: Op) -> None:
    out, value = op.output, SizeAttrs.of(op).value
    text = e.plan.text(value)
    number = e.plan.number(value)
    if number is not None:  # a Python number in Triton too, which has no dtype to convert from
        text = str(number) if value.is_truth else text
        text = f"tl.full([], {text}, {triton_dtype(out.type.dtype)})"
    e.define(out, text, out.type.dtype)


@emits(OpKind.SCALAR)
def scalar(e: Emitter, op: Op) -> None:
    name, dtype = e.scalar(ScalarAttrs.of(op).path), e.number_dtype(op.output.type.dtype)
    if dtype == "float64":  # a Python number to Triton's interpreter, which has no dtype to convert from
        e.define(op.output, f"tl.full([], {name}, tl.float64)", dtype)
    else:
        e.bind(op.output, name, dtype)


@emits(OpKind.TILE_INDEX)
def tile_index(e: Emitter, op: Op) -> None:
    e.bind(op.output, f"{e.tile(TileAttrs.of(op).tile)}_idx", op.output.type.dtype)


@emits(OpKind.TILE_PART)
def tile_part(e: Emitter, op: Op) -> None:
    """A tile that is one of two halves of another."""
    tile, whole = e.plan.ir.tiles[TileAttrs.of(op).tile], e.tile(TilePartAttrs.of(op).whole)
    offset = f" + {e.plan.extent_text(tile.block)}" if TilePartAttrs.of(op).part else ""
    e.writer.line(f"{e.tile(tile.name)}_begin = {whole}_begin{offset}")
    e.tile_header(tile)


@emits(OpKind.TILE_BEGIN)
def tile_begin(e: Emitter, op: Op) -> None:
    e.define(op.output, _begin(e, op), op.output.type.dtype)


@emits(OpKind.TILE_END)
def tile_end(e: Emitter, op: Op) -> None:
    tile = e.plan.ir.tiles[TileAttrs.of(op).tile]
    block = e.plan.step_text(tile.block)
    if e.plan.is_masked(tile.dim):
        e.define(op.output, f"tl.minimum({_begin(e, op)} + {block}, {e.bound(tile, tile.end)})", op.output.type.dtype)
    else:
        e.define(op.output, f"{_begin(e, op)} + {block}", op.output.type.dtype)


def _begin(e: Emitter, op: Op) -> str:
    """The first index of a tile. The interpreter's loops count in Python ints."""
    name = TileAttrs.of(op).tile
    begin = f"{e.tile(name)}_begin"
    return begin if name in e.plan.ir.grid else f"tl.cast({begin}, {triton_dtype(op.output.type.dtype)})"


@emits(OpKind.TILE_ID)
def tile_id(e: Emitter, op: Op) -> None:
    tile = e.plan.ir.tiles[TileAttrs.of(op).tile]
    begin = e.bound(tile, tile.begin)
    done = _begin(e, op) if begin == "0" else f"({_begin(e, op)} - {begin})"
    e.define(op.output, f"{done} // {e.plan.step_text(tile.block)}", op.output.type.dtype)


@emits(OpKind.ARANGE)
def arange(e: Emitter, op: Op) -> None:
    (dim,) = op.output.dims
    start = ArangeAttrs.of(op).start
    lanes = e.arange(dim.extent)
    e.define(op.output, lanes if start.constant == 0 else f"{e.plan.text(start)} + {lanes}", "int32")


@emits(OpKind.WHERE_MASK)
def where_mask(e: Emitter, op: Op) -> None:
    value, other = op.inputs
    assert isinstance(value, Value)
    axes = [a for a in WhereMaskAttrs.of(op).axes if e.plan.is_masked(value.dims[a])]
    held = e.held(value)
    if not axes:
        e.bind(op.output, e.name(value), held)
        return
    mask = " & ".join(e.lane_mask(value.dims, a) for a in axes)
    e.define(op.output, f"tl.where({mask}, {e.name(value)}, {e.as_dtype(other, held)})", held)


def operand_text(e: Emitter, operand: Operand, dtype: str) -> str:
    """An operand in ``dtype``: converted where it is held in another."""
    if not isinstance(operand, Value):
        return literal(operand, dtype)
    held = e.held(operand)
    name = e.name(operand)
    if held == dtype:
        return name
    return converted(e, name, held, dtype)
