"""In which dtype a kernel computes with the author's numbers: Python's are doubles.

In float32 ``1 - beta`` of a ``beta`` near 1 keeps few digits, and powers multiply an error. So sums, differences and
powers of numbers alone are computed in float64, with all that leads to them; a result is rounded where it meets a tile.
Products and quotients keep their digits, and stay in float32: many GPUs compute doubles at a fraction of its rate.
"""

from __future__ import annotations

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.types import Value, is_float

_LOSING = frozenset({"add", "sub", "pow"})


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
    """Whether all operands are numbers of the author's, or computed from such."""
    return all(not isinstance(v, Value) or v.type.weak for v in op.inputs)


def _in_doubles(ir: KernelIR) -> frozenset[Value]:
    found: set[Value] = set()
    for op in reversed(ir.ops):  # uses come before what they use
        if op.kind is not OpKind.POINTWISE or not are_numbers(op) or not is_float(op.output.type.dtype):
            continue
        if op.output in found or PointwiseAttrs.of(op).fn in _LOSING:
            found |= {op.output, *(v for v in op.inputs if isinstance(v, Value))}
    return frozenset(found)
