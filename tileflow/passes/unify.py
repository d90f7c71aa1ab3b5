"""Unify: sizes that a guard proves equal get one name, so that dimensions of the same extent are the same dimension.

A guard may say so of sums, ``2 * n == x.shape.1`` of halves of a row, and of a number, ``4096 == x.shape.1``.
"""

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
        equal = _equal(ir, guard, names) if guard.op == "eq" else None
        if equal is not None:
            name, size = equal
            names = {n: e.substitute({name: size}) for n, e in names.items()}
            names[name] = size
    if not names:
        return ir

    def named(dim: Dim) -> Dim:
        return replace(dim, extent=dim.extent.substitute(names), step=dim.step.substitute(names))

    change = Redimension(lambda value, axis: named(value.dims[axis]), lambda op, item: named(item.dim))
    return with_body(ir, change.block(ir.body))


def _equal(ir: KernelIR, guard: Expr, names: dict[str, Expr]) -> tuple[str, Expr] | None:
    """A size that a guard says is another, or a sum of others; None where it says nothing new, or of no one size."""
    sides = [side for side in guard.args if isinstance(side, Expr)]
    if len(sides) != 2 or not guard.symbols() <= ir.hints.keys():
        return None
    first, second = (side.substitute(names) for side in sides)
    if first == second:
        return None
    if first.op == second.op == "sym":
        return str(second.args[0]), first
    rest = first - second
    for name in sorted(rest.symbols()):
        without = rest.substitute({name: Expr.of(0)})
        times = (rest.substitute({name: Expr.of(1)}) - without).constant
        if times in (1, -1) and Expr.sym(name) * times + without == rest:
            return name, without * -times
    return None
