"""Numbers that are rounded to float8_e4m3fn, stored, and read again by the same program.

ptxas (12.8, of Triton 3.6 and 3.7) converts two pairs of numbers into one register where they are stored together, and
drops the conversion of the first pair, which the program still reads: half of the scales of ``nvfp4_pack`` were
whatever a register held (H200, right without ptxas's optimisation, 2026-11-26). What is computed with is
rounded in an instruction sequence of its own, so that no register of a store is read.
"""

from __future__ import annotations

from ..ir.graph import KernelIR, Op, once
from ..ir.kinds import OpKind
from ..ir.op_table import having
from ..ir.opdef import Trait
from ..ir.types import Value
from .context import Context
from .module import INTERPRETED

ROUNDED = "float8_e4m3fn"
_SAME_ELEMENTS = having(Trait.REARRANGES) | {OpKind.WHERE_MASK, OpKind.BITCAST, OpKind.SPLIT, OpKind.NARROW}
_STORES = frozenset({OpKind.STORE, OpKind.ATOMIC})
# the pair's other number is 0, as of no other conversion
_ASM = (
    "{ .reg .b16 pair, low, high; .reg .b32 halves; cvt.rn.satfinite.e4m3x2.f32 pair, 0f00000000, $1; "
    "cvt.rn.f16x2.e4m3x2 halves, pair; mov.b32 {low, high}, halves; cvt.f32.f16 $0, low; }"
)


def is_round_trip(e: Context, op: Op) -> bool:
    """Whether a conversion to float8_e4m3fn is stored and computed with, on a device of NVIDIA's."""
    return e.target.vendor == "nvidia" and op.output in _stored_and_read(e.plan.ir)


def rounded(e: Context, name: str) -> str:
    """The text of float32 numbers as float8_e4m3fn holds them, in float32."""
    asm = f'tl.inline_asm_elementwise("{_ASM}", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)'
    text = f"(x):\n    return {asm}\n"
    if e.is_interpreted:
        interpreted = e.module.constant(*INTERPRETED)
        plain = "x.to(tl.float8e4nv).to(tl.float32)"
        text = f"(x):\n    if {interpreted}:\n        return {plain}\n    else:\n        return {asm}\n"
    return f"{e.module.helper('rounded_to_fp8', text)}({name})"


@once
def _stored_and_read(ir: KernelIR) -> frozenset[Value]:
    """The conversions to float8_e4m3fn that are stored, as they are or in another shape, and read otherwise."""
    readers: dict[Value, list[Op]] = {}
    for op in ir.walk():
        for value in op.values:
            readers.setdefault(value, []).append(op)

    def uses(value: Value) -> set[bool]:
        """Of each use whether it is a store: both where a value is stored and read."""
        found: set[bool] = set()
        for op in readers.get(value, ()):
            if op.kind in _STORES:
                found.add(True)
            elif op.kind in _SAME_ELEMENTS:
                found |= set[bool]().union(*map(uses, op.outputs))
            else:
                found.add(False)
        return found

    made = (op.output for op in ir.walk() if op.kind is OpKind.CAST and op.output.type.dtype == ROUNDED)
    return frozenset(value for value in made if uses(value) == {True, False})
