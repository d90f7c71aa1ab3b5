"""The Gluon text of what consumers compute: the common rules, with operands moved into the layout of the result."""

from __future__ import annotations

from ...ir.attributes import (
    AccessAttrs,
    AtomicAttrs,
    AxisAttrs,
    PermuteAttrs,
    ReduceAttrs,
    ReshapeAttrs,
    ScalarAttrs,
    ScanAttrs,
    SizeAttrs,
)
from ...ir.graph import Op
from ...ir.kinds import OpKind
from ...ir.types import is_float
from .. import indexing
from .. import loops as _loops
from .. import memory as _memory
from .. import pointwise as _pointwise
from .. import reductions as _reductions
from .. import tiles as _tiles
from .. import views as _views
from ..dtypes import compute_dtype, narrowed, triton_dtype
from ..table import TRITON
from .context import GluonContext

_IMPORTED = (_loops, _memory, _pointwise, _reductions, _tiles, _views)  # for their rules
_REDUCE = {"sum": "gl.sum({0}, axis={1})", "max": "gl.max({0}, axis={1})", "min": "gl.min({0}, axis={1})"}

GLUON = GluonContext.rules
GLUON.update({OpKind.UNSQUEEZE: TRITON[OpKind.UNSQUEEZE]})


@GLUON.emits(OpKind.IF)
def branch(e: GluonContext, op: Op) -> None:
    """Write a branch by the Triton family's rule, or one side alone where all turns take that."""
    side = e.taken_side(op)
    if side is None:
        TRITON[OpKind.IF](e, op)
    else:
        _loops.emit_side(e, op, op.regions[side])


@GLUON.emits(OpKind.POINTWISE, OpKind.WHERE_MASK, OpKind.EXPAND)
def lane_by_lane(e: GluonContext, op: Op) -> None:
    """Write an op by the Triton family's rule, with its operands in the layout of its result."""
    with e.aligned(op):
        TRITON[op.kind](e, op)


@GLUON.emits(OpKind.SCALAR)
def scalar(e: GluonContext, op: Op) -> None:
    """Bind a captured number to its parameter, which Gluon knows the dtype of."""
    e.bind(op.output, e.parameters.scalar(ScalarAttrs.of(op).path), e.number_dtypes.parameters)


@GLUON.emits(OpKind.SIZE)
def size(e: GluonContext, op: Op) -> None:
    """Write a size; a constant one by a cast, since Gluon makes no tile without dimensions of a Python number."""
    out, value = op.output, SizeAttrs.of(op).value
    number, text = e.plan.number(value), e.plan.text_of(value, out.type.dtype)
    if number is not None:
        text = f"tl.cast({number if value.is_truth else text}, {triton_dtype(out.type.dtype)})"
    e.define(out, text, "int64" if number is None and e.plan.is_in_64_bits(value) else out.type.dtype)


@GLUON.emits(OpKind.PERMUTE)
def permute(e: GluonContext, op: Op) -> None:
    """Write a permutation; the layout of the result follows from that of the value."""
    (value,) = op.values
    e.define(op.output, f"{e.name(value)}.permute({PermuteAttrs.of(op).order})", e.held(value))


@GLUON.emits(OpKind.RESHAPE)
def reshape(e: GluonContext, op: Op) -> None:
    """Write a reshape and require of the config that the sizes come out even."""
    (value,) = op.values
    for need in ReshapeAttrs.of(op).needs or ():
        e.plan.require(need)
    e.define(op.output, f"{e.name(value)}.reshape({e.shape(op.output.dims)})", e.held(value))


@GLUON.emits(OpKind.SQUEEZE)
def squeeze(e: GluonContext, op: Op) -> None:
    """Write the maximum of the one element that each row has, which stays in its thread; a reshape would choose a
    layout of its own."""
    (value,) = op.values
    e.resolve_layout(value)
    e.define(op.output, f"gl.convert_layout(gl.max({e.name(value)}, axis=1), {e.by_row})", e.held(value))


@GLUON.emits(OpKind.JOIN)
def join(e: GluonContext, op: Op) -> None:
    """Write ``gl.join`` of two tiles in the dtype of the result."""
    dtype = op.output.type.dtype
    a, b = (e.as_dtype(v, dtype) for v in op.inputs)
    e.define(op.output, f"gl.join({a}, {b})", dtype)


@GLUON.emits(OpKind.LOAD)
def load(e: GluonContext, op: Op) -> None:
    """Write a load by pointers, and a layout for its result where its indices have none."""
    _memory.load_by_pointers(e, op)
    if op.output.dims and all(not v.dims or e.is_auto(v) for v in op.values):
        name = e.fresh("v")
        e.writer.line(f"{name} = gl.set_auto_layout({e.name(op.output)}, {e.layout(op.output.dims)})")
        e.bind(op.output, name, e.held(op.output))


@GLUON.emits(OpKind.STORE)
def store(e: GluonContext, op: Op) -> None:
    """What the schedule does not save by the copy engine. A store in a layout of its own is a function: its lanes have
    that layout, and Gluon gives each value one."""
    layout = e.storing_layout(op)
    if layout is None:
        _memory.store_by_pointers(e, op)
        return

    def move(name: str) -> str:
        moved = e.fresh("v")
        e.writer.line(f"{moved} = gl.convert_layout({name}, {layout})")
        return moved

    e.resolve_layout(op.values[0])
    with e.lines() as writer:
        _memory.store_by_pointers(e, op, move)
    first = ("who",) if "who" in e.lanes_named(writer.text).text else ()
    says = "Rows that begin at any element: of each, a warp writes neighbours."
    e.writer.line(e.define_function(e.fresh("store_rows_"), says, writer, first).call())


@GLUON.emits(OpKind.ATOMIC)
def add(e: GluonContext, op: Op) -> None:
    """Write an addition to memory of which nobody reads the old value. Its pointers and its mask are told the layout of
    what is added: Gluon infers it for stores alone."""
    (value,) = op.values[:1]
    e.resolve_layout(value)
    access, dims, layout = AccessAttrs.of(op), op.output.dims, e.layout(op.output.dims)
    pointer = f"gl.set_auto_layout({indexing.pointer(e, op, dims)}, {layout})"
    mask = indexing.mask(e, dims, op)
    masked = f", mask=gl.set_auto_layout({mask}, {layout})" if mask else ""
    added = e.as_dtype(value, e.plan.ir.tensor(access.tensor).dtype)
    e.writer.line(f"tl.atomic_add({pointer}, {added}{masked}, sem='{AtomicAttrs.of(op).sem}')")


@GLUON.emits(OpKind.REDUCE)
def reduce(e: GluonContext, op: Op) -> None:
    """Write a reduction of each row, or of a vector; the numbers of rows have one layout."""
    (value,) = op.values
    e.resolve_layout(value)
    fn, axis, dtype = ReduceAttrs.of(op).fn, AxisAttrs.of(op).axis, compute_dtype(value.type.dtype)
    operand = e.as_dtype(value, dtype)
    if len(value.dims) == 1:  # to a number
        e.define(op.output, narrowed(_REDUCE[fn].format(operand, axis), fn, dtype), dtype)
        return
    if fn in _reductions.EXTREMES and is_float(dtype):  # which pass a NaN on
        text = f"gl.reduce({operand}, {axis}, {e.module.helper(*_reductions.EXTREMES[fn])})"
    else:
        text = narrowed(_REDUCE[fn].format(operand, axis), fn, dtype)
    if e.by(e.extent(value.dims[1])) != e.by(e.width):
        text = f"gl.convert_layout({text}, {e.by_row})"
    e.define(op.output, text, dtype)


@GLUON.emits(OpKind.SCAN)
def scan(e: GluonContext, op: Op) -> None:
    """Write the sums of a vector from its front."""
    (value,) = op.values
    e.resolve_layout(value)
    held = compute_dtype(value.type.dtype)
    plus = e.module.helper("_plus", "(a, b):\n    return a + b\n")
    e.define(op.output, f"gl.associative_scan({e.as_dtype(value, held)}, {ScanAttrs.of(op).axis}, {plus})", held)
