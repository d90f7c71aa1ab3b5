"""Unify: sizes that a guard proves equal get one name, so that dimensions of the same extent are the same dimension."""

from __future__ import annotations

from dataclasses import replace

from ..expr import Expr
from ..ir.attributes import AccessAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, SliceIndex
from ..ir.types import Dim, Value
from .rewrite import with_body


def unify_sizes(ir: KernelIR) -> KernelIR:
    """Give sizes that a launch checks to be equal one name. In dynamic mode ``out.shape.1`` is ``x.shape.1`` then."""
    names: dict[str, Expr] = {}
    for guard in ir.guards:
        if guard.op == "eq" and all(isinstance(side, Expr) and side.op == "sym" for side in guard.args):
            first, second = (side.substitute(names) for side in guard.args)
            if first != second:
                names = {n: e.substitute({second.args[0]: first}) for n, e in names.items()}
                names[second.args[0]] = first
    return with_body(ir, _Renamer(names).block(ir.body)) if names else ir


class _Renamer:
    def __init__(self, names: dict[str, Expr]) -> None:
        self.names = names

    def dim(self, dim: Dim) -> Dim:
        return replace(dim, extent=dim.extent.substitute(self.names), step=dim.step.substitute(self.names))

    def operand(self, operand: Operand) -> Operand:
        return self.value(operand) if isinstance(operand, Value) else operand

    def value(self, value: Value) -> Value:
        type_ = replace(value.type, dims=tuple(self.dim(d) for d in value.dims))
        return Value(value.id, type_, value.loc)

    def op(self, op: Op) -> Op:
        attrs = op.attrs
        if isinstance(attrs, AccessAttrs):
            items = (replace(i, dim=self.dim(i.dim)) if isinstance(i, SliceIndex) else i for i in attrs.index)
            attrs = replace(attrs, index=tuple(items))
        return op.with_(
            inputs=tuple(self.operand(v) for v in op.inputs),
            outputs=tuple(self.value(v) for v in op.outputs),
            regions=tuple(self.block(r) for r in op.regions),
            attrs=attrs,
        )

    def block(self, block: Block) -> Block:
        return Block(
            tuple(self.value(p) for p in block.params),
            tuple(self.op(op) for op in block.ops),
            tuple(self.operand(r) for r in block.results),
        )
