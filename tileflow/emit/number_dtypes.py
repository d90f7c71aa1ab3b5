"""In which dtype a kernel computes with the author's numbers: Python's are doubles.

In float32 ``1 - beta`` of a ``beta`` near 1 keeps few digits, powers multiply an error, and an int that is made of a
float is another one where the float is a bit less. So sums, differences and powers of numbers alone, and what is made
an int or compared, are computed in float64, with all that leads to them; a result is rounded where it meets a tile.
Products and quotients keep their digits, and stay in float32: many GPUs compute doubles at a fraction of its rate.
"""

from __future__ import annotations

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.types import Value, is_float

_LOSING = frozenset({"add", "sub", "pow", "floor", "ceil", "round", "trunc", "floordiv", "remainder", "fmod"})


class NumberDtypes:
    """``parameters``: the dtype in which captured floats are passed."""

    def __init__(self, ir: KernelIR) -> None:
        self._all = any(v.type.dtype == "float64" for v in ir.definitions)
        self._in_doubles = _in_doubles(ir)
        self.parameters = "float64" if self._all or self._in_doubles else "float32"

    def of(self, out: Value, dtype: str) -> str:
        """The dtype of what is computed from numbers alone, in place of ``dtype``."""
        return "float64" if dtype == "float32" and (self._all or out in self._in_doubles) else dtype


def are_numbers(op: Op) -> bool:
    """Whether all operands are numbers of the author's, or computed from such; a result then is one too."""
    return op.output.type.weak or all(not isinstance(v, Value) or v.type.weak for v in op.inputs)


def _in_doubles(ir: KernelIR) -> frozenset[Value]:
    found: set[Value] = set()
    for op in reversed(ir.ops):  # uses come before what they use
        if op.kind not in (OpKind.POINTWISE, OpKind.CAST) or not are_numbers(op):
            continue
        if _loses(ir, op) or (op.output in found and is_float(op.output.type.dtype)):
            found |= {op.output, *(v for v in op.inputs if isinstance(v, Value))}
    return frozenset(found)


def _loses(ir: KernelIR, op: Op) -> bool:
    """Whether a result of numbers would be another one, not one a bit less exact, if they were in float32."""
    if is_float(op.output.type.dtype):
        return op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn in _LOSING
    floats = [v for v in op.inputs if isinstance(v, Value) and is_float(v.type.dtype)]
    return any(v in ir.definitions and ir.definitions[v].kind is OpKind.POINTWISE for v in floats)
