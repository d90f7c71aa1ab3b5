"""The Gluon text of what consumers compute: the common rules, with operands moved into the layout of the result."""

from __future__ import annotations

from ...ir.attributes import AxisAttrs, ReduceAttrs
from ...ir.graph import Op
from ...ir.kinds import OpKind
from ...ir.types import is_float
from .. import loops as _loops
from .. import memory as _memory
from .. import pointwise as _pointwise
from .. import reductions as _reductions
from .. import tiles as _tiles
from .. import views as _views
from ..dtypes import compute_dtype
from ..table import TRITON
from .context import GluonContext

_IMPORTED = (_loops, _memory, _pointwise, _reductions, _tiles, _views)  # for their rules
_REDUCE = {"sum": "gl.sum({0}, axis={1})", "max": "gl.max({0}, axis={1})", "min": "gl.min({0}, axis={1})"}

GLUON = GluonContext.rules
GLUON.update({kind: TRITON[kind] for kind in (OpKind.IF, OpKind.UNSQUEEZE)})


@GLUON.emits(OpKind.POINTWISE, OpKind.WHERE_MASK, OpKind.EXPAND)
def lane_by_lane(e: GluonContext, op: Op) -> None:
    """Write an op by the Triton family's rule, with its operands in the layout of its result."""
    with e.aligned(op):
        TRITON[op.kind](e, op)


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
    """What the schedule does not save by the copy engine."""
    _memory.store_by_pointers(e, op)


@GLUON.emits(OpKind.REDUCE)
def reduce(e: GluonContext, op: Op) -> None:
    """Write a reduction of each row; the result has the layout of all numbers by row."""
    (value,) = op.values
    e.resolve_layout(value)
    fn, axis, dtype = ReduceAttrs.of(op).fn, AxisAttrs.of(op).axis, compute_dtype(value.type.dtype)
    operand = e.as_dtype(value, dtype)
    if fn in _reductions.EXTREMES and is_float(dtype):  # which pass a NaN on
        text = f"gl.reduce({operand}, {axis}, {e.module.helper(*_reductions.EXTREMES[fn])})"
    else:
        text = _reductions.narrowed(_REDUCE[fn].format(operand, axis), fn, dtype)
    if e.by(e.extent(value.dims[1])) != e.by(e.width):
        text = f"gl.convert_layout({text}, {e.by_row})"
    e.define(op.output, text, dtype)
