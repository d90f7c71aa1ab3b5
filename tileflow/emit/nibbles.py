"""The Triton text of ``nibbles``: both 4-bit integers of a byte as halves."""

from __future__ import annotations

from ..ir.attributes import NibblesAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from .context import Context
from .dtypes import triton_dtype
from .table import COMMON

# the bits of the least power of two whose last bit is worth 1, and that power
_UNIT = {"float16": (0x6400, 1024), "bfloat16": (0x4300, 128)}


@COMMON.emits(OpKind.NIBBLES)
def nibbles(e: Context, op: Op) -> None:
    """Write both nibbles of a byte as two halves of one 32-bit word: their bits go into the mantissas of a power of
    two, which is subtracted."""
    (value,), (low, high), dtype = op.values, op.outputs, op.outputs[0].type.dtype
    bits, power = _UNIT[dtype]
    shift = 8 if NibblesAttrs.of(op).signed else 0
    byte = e.as_dtype(value, value.type.dtype)
    if value.type.dtype == "int8":
        byte += ".to(tl.uint8, bitcast=True)"
    wide, both = e.fresh("v"), e.fresh("v")
    e.writer.line(f"{wide} = {byte}.to(tl.int32)")
    e.writer.line(f"{both} = (({wide} | ({wide} << 12)) & 0xf000f) ^ {(bits + shift) * 0x10001:#x}")
    for out, half in ((low, both), (high, f"({both} >> 16)")):
        e.define(out, f"{half}.to(tl.int16).to({triton_dtype(dtype)}, bitcast=True) - {power + shift}.0", dtype)
