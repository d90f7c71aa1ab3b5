"""Loops over parts of a dimension: bounds that the kernel computes from the tile of the grid, for all tiles of it.

``tile(part.begin * length, min((part.begin + 1) * length, rows))`` is a loop of split-K, and of a kernel that could
split and does not. A persistent program numbers the turns of all its tiles and so needs them to have as many each; the
copy engine needs blocks that end with a part, or the tensor. Both are looked into by counting, for sizes that are
known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from math import prod

from ..expr import Expr
from ..ir.attributes import PointwiseAttrs, SizeAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import Value

MOST_PARTS = 4096
Number = Callable[[Expr], int | None]  # a size under a config, where it is known
_FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "minimum": min,
    "maximum": max,
}
_Bound = Expr | Value


def parts(
    ir: KernelIR, before: Iterable[Op], bounds: tuple[_Bound, _Bound], number: Number
) -> list[tuple[int, int]] | None:
    """Where a loop begins and ends, for each tile of the grid that its bounds depend on. ``before``: the numbers in
    front of the loop. None where that is not known, or of more than :data:`MOST_PARTS` tiles."""
    ops = _needed([*before], bounds)
    begins: dict[str, range] = {}
    for name in dict.fromkeys(TileAttrs.of(op).tile for op in ops if op.kind is OpKind.TILE_BEGIN):
        sizes = [number(e) if isinstance(e, Expr) else None for e in (ir.tiles[name].begin, ir.tiles[name].end)]
        step = number(ir.tiles[name].block)
        if None in sizes or not step:
            return None
        begins[name] = range(sizes[0], sizes[1], step)  # type: ignore[arg-type]
    if prod(map(len, begins.values())) > MOST_PARTS:
        return None
    found = []
    for tile in itertools.product(*begins.values()):
        known = _evaluated(ops, dict(zip(begins, tile, strict=True)), number)
        pair = [number(b) if isinstance(b, Expr) else known.get(b) for b in bounds]
        if None in pair:
            return None
        found.append((pair[0], pair[1]))
    return found  # type: ignore[return-value]


def _needed(before: list[Op], bounds: tuple[_Bound, _Bound]) -> list[Op]:
    """The operations that the bounds follow from, in order."""
    wanted: set[Operand] = {b for b in bounds if isinstance(b, Value)}
    chosen: list[Op] = []
    for op in reversed(before):
        if wanted & {*op.outputs}:
            chosen.insert(0, op)
            wanted |= {*op.values}
    return chosen


def _evaluated(ops: list[Op], begins: Mapping[str, int], number: Number) -> dict[Value, int]:
    """Those of the operations' results that are known."""
    known: dict[Value, int] = {}
    for op in ops:
        found: int | None = None
        if op.kind is OpKind.TILE_BEGIN:
            found = begins[TileAttrs.of(op).tile]
        elif op.kind is OpKind.SIZE:
            found = number(SizeAttrs.of(op).value)
        elif op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn in _FUNCTIONS:
            inputs = [known.get(v) if isinstance(v, Value) else v for v in op.inputs]
            if all(isinstance(n, int) for n in inputs):
                found = _FUNCTIONS[PointwiseAttrs.of(op).fn](*inputs)  # type: ignore[arg-type]
        if found is not None:
            known[op.output] = found
    return known
