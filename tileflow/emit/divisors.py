"""Divisors of loop bounds that the kernel computes: where both of a loop's divide by its block, no lane is masked.

Causal attention loops up to the begin of another tile, which is a multiple of that tile's block size whatever the
program; the last block before the diagonal is then whole, and its loads need no mask.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from ..expr import Expr
from ..ir.attributes import PointwiseAttrs, SizeAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import Value

_GCD = frozenset({"add", "sub", "minimum", "maximum"})  # the result is divisible by what divides both operands


class Divisors:
    """``number``: the value of a size where the config and the static sizes settle it, else None."""

    def __init__(self, ir: KernelIR, number: Callable[[Expr], int | None]) -> None:
        self._ir = ir
        self._number = number
        self._definitions = ir.definitions

    def of(self, bound: Expr | Operand) -> int:
        """A number that divides the bound; 0 for zero, 1 where nothing is known."""
        if isinstance(bound, Expr):
            number = self._number(bound)
            return 1 if number is None else abs(number)
        if not isinstance(bound, Value):
            return abs(bound) if isinstance(bound, int) else 1
        op = self._definitions.get(bound)
        return 1 if op is None else self._of_op(op)

    def _of_op(self, op: Op) -> int:
        match op.kind:
            case OpKind.SIZE:
                return self.of(SizeAttrs.of(op).value)
            case OpKind.TILE_BEGIN:
                return self._begin(TileAttrs.of(op).tile)
            case OpKind.TILE_END:
                name = TileAttrs.of(op).tile
                return gcd(self._begin(name), self.of(self._ir.tiles[name].end))
            case OpKind.CAST:
                return self.of(op.inputs[0]) if op.output.type.dtype in ("int32", "int64") else 1
            case OpKind.POINTWISE if PointwiseAttrs.of(op).fn in _GCD:
                return gcd(*(self.of(v) for v in op.inputs))
            case OpKind.POINTWISE if PointwiseAttrs.of(op).fn == "mul":
                a, b = (self.of(v) for v in op.inputs)
                return a * b
        return 1

    def _begin(self, name: str) -> int:
        """What divides the begin of each of a tile loop's tiles."""
        tile = self._ir.tiles[name]
        return gcd(self.of(tile.begin), self.of(tile.block))
