"""The Triton text of atomics."""

from __future__ import annotations

from ..expr import Expr
from ..ir.attributes import AccessAttrs, AtomicAttrs
from ..ir.graph import Op, TensorParam, may_lie_outside
from ..ir.kinds import OpKind
from ..ir.types import is_float
from . import indexing
from .context import Context
from .dtypes import literal, triton_dtype
from .table import TRITON

_BITS = {"float32": "int32", "float64": "int64"}


@TRITON.emits(OpKind.ATOMIC)
def atomic(e: Context, op: Op) -> None:
    """Write ``tl.atomic_*``, masked; a compare-and-swap, which Triton does not mask, goes to a place of its own in
    masked lanes. Lanes outside the tensor give 0."""
    fn, tensor, out = AtomicAttrs.of(op).fn, e.plan.ir.tensor(AccessAttrs.of(op).tensor), op.output
    if fn == "cas" and any(size.constant == 0 for size in tensor.shape):  # no lane has an element
        e.define(out, e.full(out.dims, "0", triton_dtype(tensor.dtype)), tensor.dtype)
        return
    values = [e.as_dtype(v, tensor.dtype) for v in op.inputs[: 2 if fn == "cas" else 1]]
    held = e.parameters.held(tensor)
    if held != tensor.dtype:  # the numbers are as the author's, their sum is not rounded each time
        values = [f"tl.cast({value}, {triton_dtype(held)})" for value in values]
    # Triton's AMD backend has no exchange by 32-bit offsets from a buffer
    pointer = indexing.pointer(e, op, out.dims, wide=fn == "xchg")
    mask = indexing.mask(e, out.dims, op)
    masked = f", mask={mask}" if mask and fn != "cas" else ""
    suffix = f"{masked}, sem='{AtomicAttrs.of(op).sem}')"
    if fn == "cas":
        pointer, values = _masked_swap(e, tensor, pointer, values, mask)
    if fn == "xchg" and is_float(tensor.dtype):  # the interpreter exchanges ints only
        bits = triton_dtype(_BITS[tensor.dtype])
        swapped = f"({pointer}).to(tl.pointer_type({bits}), bitcast=True), {values[0]}.to({bits}, bitcast=True)"
        text = f"tl.atomic_xchg({swapped}{suffix}.to({triton_dtype(tensor.dtype)}, bitcast=True)"
    else:
        text = f"tl.atomic_{fn}({pointer}, {', '.join(values)}{suffix}"
    if mask and (AccessAttrs.of(op).has_mask or any(map(may_lie_outside, AccessAttrs.of(op).index))):
        text = f"tl.where({mask}, {text}, {literal(0, held)})"  # what lies outside reads 0
    e.define(out, text, held)


def _masked_swap(e: Context, tensor: TensorParam, pointer: str, values: list[str], mask: str) -> tuple[str, list[str]]:
    """``tl.atomic_cas`` takes no mask: masked lanes swap a number for itself in the tensor's first element, which each
    launch checks that there is."""
    if not mask:
        return pointer, values
    for size in tensor.shape:
        e.plan.guard(Expr.of(1).le(size))
    expected, value = values
    first = e.parameters.tensor(tensor)
    return f"tl.where({mask}, {pointer}, {first})", [f"tl.where({mask}, {expected}, {value})", value]
