"""The Gluon text of conversions whose results lie two in a register: packed numbers and bytes as halves.

A product reads two halves of its left operand in one register. Of conversions one by one LLVM pairs others than those
two, and takes the pairs apart again where the product reads them: some three moves a register, each as slow as the
conversion itself. An assembly text converts what will lie together.
"""

from __future__ import annotations

from ...ir.graph import Op
from ...ir.kinds import OpKind
from ...ir.types import Value
from ..nibbles import MASK, POWERS, offset, widened
from ..table import COMMON
from .context import GluonContext
from .rules import GLUON

_SHORT = {"float16": "f16x2", "bfloat16": "bf16x2"}
_NIBBLES = '''(wide):
    # Both halves of one register, as a product reads them.
    asm: gl.constexpr = """
        {{
        .reg .b32 both, zeros;
        mov.b32 zeros, {zeros:#x};
        mul.lo.u32 both, $2, 0x1001;
        lop3.b32 both, both, {mask:#x}, zeros, 0x6a;  // (both & mask) ^ zeros
        sub.rn.{short} both, both, zeros;
        mov.b32 {{$0, $1}}, both;
        }}
    """
    return gl.inline_asm_elementwise(asm, "=h,=h,r", [wide], (gl.{dtype}, gl.{dtype}), is_pure=True, pack=1)
'''
# A byte is its low seven bits less 128 where the eighth is set. Behind a power of two whose last bit is worth 1 the
# eighth adds 128 in both types: to 1024 in float16's mantissa, to bfloat16's 128 by its exponent, which becomes 256's.
_BYTES = '''(numbers):
    # Two bytes at a time: the low seven bits of each behind a power of two, less that power and the eighth bit's.
    asm: gl.constexpr = """
        {{
        .reg .b32 both, low, eighth;
        mad.lo.u32 both, $2, 0x10000, $1;
        lop3.b32 low, both, 0x7f007f, {unit:#x}, 0xea;  // (both & mask) | unit
        {eighth}
        }}
    """
    wide = numbers.to(gl.uint8, bitcast=True).to(gl.int32)
    return gl.inline_asm_elementwise(asm, "=r,r,r", [wide], gl.{dtype}, is_pure=True, pack=2)
'''
_EIGHTH = {
    "int8": """lop3.b32 eighth, both, 0x800080, {unit:#x}, 0xea;
        sub.rn.{short} $0, low, eighth;""",
    "uint8": """lop3.b32 eighth, both, 0x800080, {unit:#x}, 0xae;  // (~both & mask) | unit: the number is 128 more
        sub.rn.{short} low, low, eighth;
        mov.b32 eighth, {more:#x};
        add.rn.{short} $0, low, eighth;""",
}
# Columns of a product from which on unsigned bytes that are read in words are converted one by one: that instruction
# takes them out of the word, and its slow unit has the time of a long product. 1024 x 4096 x 4096 took 48 us so and 53
# by pairs, beside 64 rows 41 and 35 (H200, 2026-11-30).
_WIDE = 128
_OF_128 = {"float16": 0x5800, "bfloat16": 0x4300}


@GLUON.emits(OpKind.NIBBLES)
def nibbles(e: GluonContext, op: Op) -> None:
    """Write both nibbles of a byte as halves by one assembly text, which subtracts from both at once. Of two
    subtractions the compiler pairs those of different bytes, and takes the pairs apart where a product reads them."""
    dtype, (bits, _) = op.outputs[0].type.dtype, offset(op)
    text = _NIBBLES.format(dtype=dtype, short=_SHORT[dtype], mask=MASK, zeros=bits * 0x10001)
    wide = widened(e, op)
    halves = [e.names.of(output, "v") for output in op.outputs]
    e.writer.line(f"{', '.join(halves)} = {e.module.helper('nibbles', text)}({wide})")
    for output, half in zip(op.outputs, halves, strict=True):
        e.bind(output, half, dtype)


@GLUON.emits(OpKind.CAST)
def cast(e: GluonContext, op: Op) -> None:
    """Write a conversion by the common rule, but of two bytes at a time for a product's operand, whose registers
    hold two halves: one by one, the compiler puts four bytes together and takes them apart again."""
    (value,), dtype = op.values or (None,), op.output.type.dtype
    if value is None or dtype not in _SHORT or not _is_by_pairs(e, value):
        COMMON[OpKind.CAST](e, op)
        return
    held = e.held(value)
    own = {"short": _SHORT[dtype], "unit": POWERS[dtype][0] * 0x10001, "more": _OF_128[dtype] * 0x10001}
    text = _BYTES.format(dtype=dtype, eighth=_EIGHTH[held].format(**own), **own)
    e.define(op.output, f"{e.module.helper('halves', text)}({e.name(value)})", dtype)


def _is_by_pairs(e: GluonContext, value: Value) -> bool:
    """Whether two bytes at a time are the faster way."""
    held = e.held(value)
    if held not in _EIGHTH or not e.is_in_pairs(value.dims):
        return False
    return held == "int8" or e.width < _WIDE or not e.are_read_in_words(value.dims)
