"""Unify: sizes that a guard proves equal get one name, so that dimensions of the same extent are the same dimension."""

from __future__ import annotations

from dataclasses import replace

from ..expr import Expr
from ..ir.graph import KernelIR
from ..ir.types import Dim
from .rewrite import Redimension, with_body


def unify_sizes(ir: KernelIR) -> KernelIR:
    """Give sizes that a launch checks to be equal one name. In dynamic mode ``out.shape.1`` is ``x.shape.1`` then."""
    names: dict[str, Expr] = {}
    for guard in ir.guards:
        if guard.op == "eq" and all(isinstance(side, Expr) and side.op == "sym" for side in guard.args):
            first, second = (side.substitute(names) for side in guard.args)
            if first != second:
                names = {n: e.substitute({second.args[0]: first}) for n, e in names.items()}
                names[second.args[0]] = first
    if not names:
        return ir

    def named(dim: Dim) -> Dim:
        return replace(dim, extent=dim.extent.substitute(names), step=dim.step.substitute(names))

    change = Redimension(lambda value, axis: named(value.dims[axis]), lambda op, item: named(item.dim))
    return with_body(ir, change.block(ir.body))
