"""Gradual underflow: exponentials that a logarithm reads keep the numbers below the smallest normal one.

The exponential is one instruction where it may flush those to zero, which no sum or product notices. A logarithm does:
of zero it is minus infinity, and ``p * (p.log() - q.log())`` is NaN where torch's is next to nothing, as in divergences
over a large vocabulary. A reduction in between adds numbers that are not so small.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.types import Value
from .rewrite import map_ops, with_body

_LOGARITHMS = frozenset({"log", "log2"})
_ELEMENTWISE = frozenset(
    {
        OpKind.POINTWISE,
        OpKind.CAST,
        OpKind.UNSQUEEZE,
        OpKind.SQUEEZE,
        OpKind.EXPAND,
        OpKind.RESHAPE,
        OpKind.PERMUTE,
        OpKind.WHERE_MASK,
        OpKind.JOIN,
        OpKind.SPLIT,
        OpKind.NARROW,
    }
)


def keep_small_exponentials(ir: KernelIR) -> KernelIR:
    """``exp`` as ``exp_gradual`` where a logarithm reads it by way of elementwise operations."""
    makers = {v: op for op in ir.walk() for v in op.outputs}
    open_values = [v for op in ir.walk() if _is(op, _LOGARITHMS) for v in op.values]
    seen: set[Value] = set()
    while open_values:
        value = open_values.pop()
        op = makers.get(value)
        if value in seen or op is None or op.kind not in _ELEMENTWISE:
            continue
        seen.add(value)
        open_values += op.values
    if not any(_is(makers[v], {"exp"}) for v in seen):
        return ir

    def rewrite(op: Op) -> list[Op]:
        if _is(op, {"exp"}) and op.output in seen:
            op = op.with_(attrs=replace(PointwiseAttrs.of(op), fn="exp_gradual"))
        return [op]

    return with_body(ir, map_ops(ir.body, rewrite))


def _is(op: Op, functions: frozenset[str] | set[str]) -> bool:
    return op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn in functions
