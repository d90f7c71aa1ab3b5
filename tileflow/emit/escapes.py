"""Assembly, the author's own Triton text, printing."""

from __future__ import annotations

from typing import Any

from ..expr import Expr
from ..frontend.operations.triton_text import assigned, replaced
from ..ir.attributes import ForeignAttrs, InlineAsmAttrs, PrintAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..ir.types import Value
from .context import Context
from .dtypes import triton_dtype
from .module import INTERPRETED
from .table import TRITON


@TRITON.emits(OpKind.INLINE_ASM)
def inline_asm(e: Context, op: Op) -> None:
    """Where the text is interpreted, the reference's ops instead: the compiler never looks at them."""
    interpreted = e.module.constant(*INTERPRETED)
    names = [e.fresh("asm") for _ in op.outputs]
    if op.regions:
        e.writer.line(f"if {interpreted}:")
        with e.inner():
            e.block(op.regions[0])
            for name, result, out in zip(names, op.regions[0].results, op.outputs, strict=True):
                e.writer.line(f"{name} = {e.as_dtype(result, out.type.dtype)}")
        e.writer.line("else:")
        with e.writer.indented():
            e.writer.line(f"{', '.join(names)} = {_asm(e, op)}")
    else:
        place = f" at line {op.loc.line}" if op.loc else ""
        reason = f"the inline assembly{place} needs a GPU: give it a reference= to be interpreted"
        e.writer.line(f"tl.static_assert(not {interpreted}, {reason!r})")
        e.writer.line(f"{', '.join(names)} = {_asm(e, op)}")
    for name, out in zip(names, op.outputs, strict=True):
        e.bind(out, name, out.type.dtype)


def _asm(e: Context, op: Op) -> str:
    args = ", ".join(e.as_dtype(v, v.type.dtype) for v in op.values)
    dtypes = [triton_dtype(o.type.dtype) for o in op.outputs]
    dtype = dtypes[0] if len(dtypes) == 1 else f"({', '.join(dtypes)})"
    its = InlineAsmAttrs.of(op)
    return (
        f"tl.inline_asm_elementwise({its.asm!r}, {its.constraints!r}, [{args}], dtype={dtype}, "
        f"is_pure={its.is_pure}, pack={its.pack})"
    )


@TRITON.emits(OpKind.FOREIGN)
def foreign(e: Context, op: Op) -> None:
    """Write the author's Triton text with its placeholders replaced and its variables renamed; its results are cast and
    broadcast to the op's outputs."""
    names = {placeholder: _argument(e, op, value) for placeholder, value in ForeignAttrs.of(op).arguments}
    names |= {name: e.fresh(f"{name}_") for name in assigned(ForeignAttrs.of(op).text)}
    for name, text in ForeignAttrs.of(op).functions:
        e.module.helper(name, text)
    *statements, last = replaced(ForeignAttrs.of(op).text, names)
    for statement in statements:
        for line in statement.splitlines():
            e.writer.line(line)
    if not op.outputs:
        for line in last.splitlines():
            e.writer.line(line)
        return
    results = [e.fresh("result") for _ in op.outputs]
    e.writer.line(f"{', '.join(results)} = {last}")
    for name, out in zip(results, op.outputs, strict=True):
        text = f"tl.cast({name}, {triton_dtype(out.type.dtype)})"
        e.define(out, f"tl.broadcast_to({text}, {e.shape(out.dims)})" if out.dims else text, out.type.dtype)


def _argument(e: Context, op: Op, value: Any) -> str:
    """A tile in its own dtype, a pointer, a size, or a constant."""
    if isinstance(value, Expr):
        return e.plan.text(value)
    if isinstance(value, int):
        operand = op.inputs[value]
        return e.as_dtype(operand, operand.type.dtype) if isinstance(operand, Value) else repr(operand)
    if value.startswith("tensor "):
        return e.parameters.tensor(e.plan.ir.tensor(value.removeprefix("tensor ")))
    return str(value)


@TRITON.emits(OpKind.DEVICE_PRINT)
def device_print(e: Context, op: Op) -> None:
    """Write ``tl.device_print`` of the prefix and the values."""
    values = "".join(f", {e.name(v)}" for v in op.inputs)
    e.writer.line(f"tl.device_print({PrintAttrs.of(op).prefix!r}{values})")
