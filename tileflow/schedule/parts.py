"""A product whose inner dimension is divided among tiles of the grid (split-K): each tile sums one part of it.

All parts are as long. The last ones may reach past the inner dimension's end, or lie past it altogether: there the copy
engine reads zeros, so that every tile has as many turns, whatever its part, and rings are counted as for whole
products. What becomes of the sums of a part is the author's: an atomic addition, or a store to a place of the part's.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..expr import Expr
from ..ir.access import covers
from ..ir.attributes import PointwiseAttrs, SizeAttrs, TileAttrs
from ..ir.graph import IndexItem, KernelIR, Op, Operand, TileIndex
from ..ir.kinds import OpKind
from ..ir.types import Value

K = OpKind


@dataclass(frozen=True, slots=True)
class Parts:
    """``tile``: the grid's, whose number a part has; ``length``: of a part; ``whole``: of the inner dimension."""

    tile: str
    length: Expr
    whole: Expr

    def comes_out(self, step: Expr | int) -> Expr:
        """Whether steps of so many numbers read of no other part: they divide a part, or there is one alone, past whose
        end there are zeros."""
        return (self.length % step).eq(0).or_(self.whole.le(self.length))


def parts_of(ir: KernelIR, keys: str) -> Parts | None:
    """What the bounds of the loop over ``keys`` say of parts; None where they are no parts of one length."""
    tile = ir.tiles[keys]
    if not isinstance(tile.begin, Value) or not isinstance(tile.end, Value):
        return None
    begin, end = (ir.definitions.get(v) for v in (tile.begin, tile.end))
    if begin is None or end is None:
        return None
    return _of_a_grid_over_it(ir, begin, end) or _by_number(ir, begin, end)


def reads_to_end(ir: KernelIR, item: IndexItem, size: Expr, keys: str, parts: Parts | None) -> bool:
    """Whether the lanes of an index that do not count lie past the tensor's end, where the copy engine reads zeros. Of
    the loop's tile, the last of ``parts`` ends there or past it."""
    if parts is None or not isinstance(item, TileIndex) or item.tile != keys:
        return covers(ir, item, size)
    return parts.whole.symbols() <= ir.hints.keys() and bool(ir.hint(parts.whole.eq(size)))


def _of_a_grid_over_it(ir: KernelIR, begin: Op, end: Op) -> Parts | None:
    """From a grid's tile over the inner dimension: the loop goes from its begin to its end."""
    if begin.kind is not K.TILE_BEGIN or end.kind is not K.TILE_END:
        return None
    name = TileAttrs.of(begin).tile
    tile = ir.tiles[name]
    if name != TileAttrs.of(end).tile or name not in ir.grid or tile.begin != Expr.of(0):
        return None
    return Parts(name, tile.block, tile.end) if isinstance(tile.end, Expr) else None


def _by_number(ir: KernelIR, begin: Op, end: Op) -> Parts | None:
    """From ``part * length`` to ``min((part + 1) * length, whole)``."""
    first = _product(ir, begin)
    if first is None or not _is(end, "minimum"):
        return None
    part, length = first
    for past, whole in (end.inputs, tuple(reversed(end.inputs))):
        second = _product(ir, _made(ir, past))
        size = _size(ir, whole)
        if second is None or size is None or second[1] != length:
            continue
        name = _number_of(ir, part, 0)
        if name is not None and name == _number_of(ir, second[0], 1):
            return Parts(name, length, size)
    return None


def _product(ir: KernelIR, op: Op | None) -> tuple[Operand, Expr] | None:
    """A number times a size."""
    if op is None or not _is(op, "mul"):
        return None
    for number, size in (op.inputs, tuple(reversed(op.inputs))):
        length = _size(ir, size)
        if length is not None and _size(ir, number) is None:
            return number, length
    return None


def _number_of(ir: KernelIR, operand: Operand, after: int) -> str | None:
    """The grid's tile of one element that ``operand`` is the begin of, so many after it."""
    op = _made(ir, operand)
    if after and op is not None and _is(op, "add"):
        others = [v for v in op.inputs if v != after]
        return _number_of(ir, others[0], 0) if len(others) == 1 else None
    if after or op is None or op.kind not in (K.TILE_BEGIN, K.TILE_ID):
        return None
    name = TileAttrs.of(op).tile
    tile = ir.tiles[name]
    is_number = tile.block == Expr.of(1) and tile.begin == Expr.of(0) and name in ir.grid
    return name if is_number else None


def _size(ir: KernelIR, operand: Operand) -> Expr | None:
    """An operand that is the same for all programs."""
    if isinstance(operand, int) and not isinstance(operand, bool):
        return Expr.of(operand)
    op = _made(ir, operand)
    return SizeAttrs.of(op).value if op is not None and op.kind is K.SIZE else None


def _made(ir: KernelIR, operand: Operand) -> Op | None:
    return ir.definitions.get(operand) if isinstance(operand, Value) else None


def _is(op: Op, fn: str) -> bool:
    return op.kind is K.POINTWISE and PointwiseAttrs.of(op).fn == fn
