"""Share reductions: what is reduced twice in the same way is reduced once, as by ``softmax`` and ``logsumexp`` of the
same scores, whose loops are one then."""

from __future__ import annotations

from dataclasses import replace

from ..ir.attributes import Attrs, ReduceAttrs
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import Value
from .rewrite import rename, with_body

_Known = dict[tuple[tuple[Operand, ...], Attrs], Value]


def share_reductions(ir: KernelIR) -> KernelIR:
    """The first of equal reductions stands for all that follow it, in its block and in those within."""
    if sum(op.kind is OpKind.REDUCE for op in ir.walk()) < 2:
        return ir
    return with_body(ir, _shared(ir.body, {}, {}))


def _shared(block: Block, known: _Known, renamed: dict[Value, Operand]) -> Block:
    ops: list[Op] = []
    known = dict(known)
    for op in block.ops:
        op = op.with_(inputs=tuple(rename(v, renamed) for v in op.inputs))
        if op.kind is OpKind.REDUCE:
            form = op.inputs, replace(ReduceAttrs.of(op), site="")
            if form in known:
                renamed[op.output] = known[form]
                continue
            known[form] = op.output
        ops.append(op.with_(regions=tuple(_shared(r, known, renamed) for r in op.regions)) if op.regions else op)
    return Block(block.params, tuple(ops), tuple(rename(v, renamed) for v in block.results))
