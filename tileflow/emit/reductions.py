"""The Triton text of reductions.

``tl.max`` and its like pass a NaN over; torch does not. With ``PropagateNan.ALL`` a maximum is still one instruction on
NVIDIA's devices from sm_80 on (``max.NaN``) and on gfx950; gfx942 needs a comparison and a select more.
"""

from __future__ import annotations

from ..ir.attributes import AxisAttrs, ReduceAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..ir.types import Value, is_float
from .context import Context
from .dtypes import compute_dtype, narrowed
from .table import TRITON

_REDUCE = {
    "sum": "tl.sum({0}, axis={1})",
    "max": "tl.max({0}, axis={1})",
    "min": "tl.min({0}, axis={1})",
    "xor": "tl.xor_sum({0}, axis={1})",
    "argmax": "tl.argmax({0}, axis={1})",
    "argmin": "tl.argmin({0}, axis={1})",
    "any": "tl.max({0}.to(tl.int32), axis={1}) != 0",
    "all": "tl.min({0}.to(tl.int32), axis={1}) != 0",
}
# what combines two elements: the helper's name, and its text after the name
_MULTIPLY = "_multiply", "(a, b):\n    return a * b\n"
EXTREMES = {
    fn: (f"_{word}", f"(a, b):\n    return tl.{word}(a, b, propagate_nan=tl.PropagateNan.ALL)\n")
    for fn, word in (("max", "maximum"), ("min", "minimum"))
}
# of equals, and of several NaN, the first counts: the one at the lower index, whichever operand that is
_ARG_EXTREMES = {
    fn: (f"_{fn}", (
        "(a, i, b, j):\n"
        "    before = i < j\n"
        f"    first = (a {beats} b) | (a == b) & before | (a != a) & (before | (b == b))\n"
        "    return tl.where(first, a, b), tl.where(first, i, j)\n"
    ))
    for fn, beats in (("argmax", ">"), ("argmin", "<"))
}  # fmt: skip


_OF_BOOLS = {"max": "any", "min": "all"}


@TRITON.emits(OpKind.REDUCE)
def reduce(e: Context, op: Op) -> None:
    """Write a reduction of one axis. Extremes of floats are by a helper that lets NaN win, as torch does; a place is
    int64."""
    value = op.inputs[0]
    assert isinstance(value, Value)
    fn, axis = ReduceAttrs.of(op).fn, AxisAttrs.of(op).axis
    dtype = compute_dtype(value.type.dtype)
    fn = _OF_BOOLS.get(fn, fn) if dtype == "bool" else fn
    operand = e.as_dtype(value, dtype)
    if fn in _ARG_EXTREMES and is_float(dtype):
        lanes = e.lanes(e.arange(value.dims[axis].extent), axis, len(value.dims))
        indices = f"tl.broadcast_to({lanes}, {e.shape(value.dims)})"
        text = f"tl.reduce(({operand}, {indices}), {axis}, {e.module.helper(*_ARG_EXTREMES[fn])})[1]"
    elif fn in EXTREMES and is_float(dtype):
        helper = e.module.helper(*EXTREMES[fn])
        text = f"tl.reduce({operand}, {axis}, {helper})"
    elif fn == "prod":
        text = f"tl.reduce({operand}, {axis}, {e.module.helper(*_MULTIPLY)})"
    else:
        text = narrowed(_REDUCE[fn].format(operand, axis), fn, dtype)
    if fn in _ARG_EXTREMES:
        e.define(op.output, f"{text}.to(tl.int64)", "int64")
    else:
        e.define(op.output, text, "bool" if fn in ("any", "all") else dtype)
