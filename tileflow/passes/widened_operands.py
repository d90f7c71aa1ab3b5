"""Products of half types that an author widened first, ``a.float() @ b.float()``, taken as they were.

A product of two halves has at most 22 bits and one of two bfloat16 at most 16, so that float32 holds it as it is: the
matrix units, which sum in float32, give what they would of the widened operands. Of float32 they would take six
products of parts, or none at all, and the copy engine would bring no operand, since each passes through registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.types import Value
from .rewrite import Fresh, map_ops, with_body

_HALVES = ("float16", "bfloat16")
_VIEWS = (OpKind.PERMUTE, OpKind.SQUEEZE, OpKind.UNSQUEEZE, OpKind.EXPAND, OpKind.RESHAPE)


def narrow_operands(ir: KernelIR) -> KernelIR:
    """Let products of float32 whose operands are both widened from one half type take these."""
    makers, fresh = ir.definitions, Fresh(ir)

    def narrowed(op: Op) -> list[Op]:
        if op.kind is not OpKind.DOT or any(v.type.dtype != "float32" for v in op.values[:2]):
            return [op]
        found = [_views(v, makers) for v in op.values[:2]]
        dtypes = {cast.values[0].type.dtype for _, cast in found if cast is not None}
        if any(cast is None for _, cast in found) or len(dtypes) > 1 or dtypes.isdisjoint(_HALVES):
            return [op]
        ops, operands = list[Op](), list[Value]()
        for views, cast in found:
            assert cast is not None
            value = cast.values[0]
            for view in views:
                out = fresh.value(replace(view.output.type, dtype=value.type.dtype), view.output)
                ops.append(view.with_(inputs=(value, *view.inputs[1:]), outputs=(out,)))
                value = out
            operands.append(value)
        return [*ops, op.with_(inputs=(*operands, *op.inputs[2:]))]

    return with_body(ir, map_ops(ir.body, narrowed))


def _views(value: Value, makers: Mapping[Value, Op]) -> tuple[list[Op], Op | None]:
    """What views an operand was made by, the first one first, and the cast before them; None where there is none."""
    views = list[Op]()
    while (op := makers.get(value)) is not None and op.kind in _VIEWS:
        views.insert(0, op)
        value = op.values[0]
    return views, op if op is not None and op.kind is OpKind.CAST else None
