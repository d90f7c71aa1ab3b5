"""The Triton text of ``nibbles``: both 4-bit integers of a byte as halves."""

from __future__ import annotations

from ..ir.attributes import NibblesAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from .context import Context
from .dtypes import triton_dtype
from .table import COMMON

# the bits of the least power of two whose last bit is worth 1, and that power
POWERS = {"float16": (0x6400, 1024), "bfloat16": (0x4300, 128)}
MASK = 0xF000F  # of both nibbles in a word


@COMMON.emits(OpKind.NIBBLES)
def nibbles(e: Context, op: Op) -> None:
    """Write both nibbles of a byte as two halves of one 32-bit word: their bits go into the mantissas of a power of
    two, which is subtracted."""
    (low, high), dtype = op.outputs, op.outputs[0].type.dtype
    bits, power = offset(op)
    wide, both = widened(e, op), e.fresh("v")
    e.writer.line(f"{both} = (({wide} | ({wide} << 12)) & {MASK:#x}) ^ {bits * 0x10001:#x}")
    for out, half in ((low, both), (high, f"({both} >> 16)")):
        e.define(out, f"{half}.to(tl.int16).to({triton_dtype(dtype)}, bitcast=True) - {power}.0", dtype)


def widened(e: Context, op: Op) -> str:
    """The name of the bytes as 32-bit integers, their other bits zero."""
    (value,) = op.values
    byte, wide = e.as_dtype(value, value.type.dtype), e.fresh("v")
    if value.type.dtype == "int8":
        byte += ".to(tl.uint8, bitcast=True)"
    e.writer.line(f"{wide} = {byte}.to(tl.int32)")
    return wide


def offset(op: Op) -> tuple[int, int]:
    """The bits that a nibble's are combined with by exclusive or, and the number that is to be subtracted then."""
    bits, power = POWERS[op.outputs[0].type.dtype]
    shift = 8 if NibblesAttrs.of(op).signed else 0
    return bits + shift, power + shift
