"""What follows from where a loop ends: which comparisons hold in the lanes past its end.

A causal loop ends where its tile of rows does. A key past that end comes after each row that counts, so that the
author's own mask leaves it out already, and a turn whose keys end before the rows begin has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from .attributes import PointwiseAttrs, ReduceAttrs, TileAttrs
from .graph import KernelIR, Op, Operand, Tile
from .kinds import OpKind
from .ops import POINTWISE
from .reach import reaching
from .signs import is_positive
from .types import Value, is_float

NEGATED = {"ge": "lt", "gt": "le", "le": "gt", "lt": "ge"}
SWAPPED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}
BROADCASTS = frozenset({OpKind.UNSQUEEZE, OpKind.SQUEEZE, OpKind.EXPAND, OpKind.PERMUTE})
BOTH, EITHER = frozenset({"logical_and", "bitwise_and"}), frozenset({"logical_or", "bitwise_or"})
NOT = frozenset({"logical_not", "bitwise_not"})
_FOLDS = frozenset({OpKind.REDUCE, OpKind.DOT, OpKind.DOT_SCALED})
INTEGERS = frozenset({"int32", "int64"})


@dataclass(frozen=True, slots=True)
class Positions:
    """``tiles``: the region's. ``definitions``: the op behind each value. ``asked``: the values of which something may
    tell NaN from a number before a reduction, which is NaN with any of its elements."""

    tiles: Mapping[str, Tile]
    definitions: Mapping[Value, Op]
    asked: frozenset[Value]

    @classmethod
    def of(cls, ir: KernelIR) -> Positions:
        """Those of a region."""
        return cls(ir.tiles, ir.definitions, reaching(ir, _asks, lambda op: op.kind not in _FOLDS))

    def is_never(self, condition: Operand, truth: bool, tile: str) -> bool:
        """Whether no lane past the end of ``tile``, beside lanes of other tiles that count, answers a condition so."""
        op = self._maker(condition)
        if op is None:
            return False
        if op.kind in BROADCASTS:
            return self.is_never(op.inputs[0], truth, tile)
        if op.kind is not OpKind.POINTWISE:
            return False
        fn = PointwiseAttrs.of(op).fn
        if fn in NEGATED:
            return PointwiseAttrs.of(op).operand in INTEGERS and self._holds(op, NEGATED[fn] if truth else fn, tile)
        if op.output.type.dtype != "bool":
            return False
        if fn in NOT:
            return self.is_never(op.inputs[0], not truth, tile)
        if fn in BOTH | EITHER:
            sides = (self.is_never(side, truth, tile) for side in op.inputs)
            return any(sides) if (fn in BOTH) == truth else all(sides)
        return False

    def _holds(self, op: Op, fn: str, tile: str) -> bool:
        """Whether two positions compare as ``fn`` says, of which one is of a lane past the end of ``tile`` and the
        other of a tile that ends where its loop does."""
        left, right = (self._position(v) for v in op.inputs)
        if left is None or right is None:
            return False
        if left[0] == tile:
            (left, right), fn = (right, left), SWAPPED[fn]
        if right[0] != tile or left[0] == tile or self._ends_with(tile) != left[0]:
            return False
        apart = 1 + right[1] - left[1]  # at least by so much is the right side larger
        return (fn == "lt" and apart >= 1) or (fn == "le" and apart >= 0)

    def _position(self, operand: Operand) -> tuple[str, int] | None:
        """The tile whose positions a value holds, and what is added to them."""
        op = self._maker(operand)
        if op is None:
            return None
        if op.kind is OpKind.TILE_INDEX:
            return TileAttrs.of(op).tile, 0
        if op.kind in BROADCASTS or (op.kind is OpKind.CAST and op.output.type.dtype in INTEGERS):
            return self._position(op.inputs[0])
        if op.kind is not OpKind.POINTWISE or PointwiseAttrs.of(op).fn not in ("add", "sub"):
            return None
        found, number = self._position(op.inputs[0]), op.inputs[1]
        if found is None or not isinstance(number, int):
            return None
        return found[0], found[1] + (number if PointwiseAttrs.of(op).fn == "add" else -number)

    def _ends_with(self, tile: str) -> str | None:
        """The tile whose end is that of the loop over another."""
        loop = self.tiles[tile]
        op = self._maker(loop.end) if isinstance(loop.end, Value) and loop.lengths is None else None
        return TileAttrs.of(op).tile if op is not None and op.kind is OpKind.TILE_END else None

    def is_full_without(self, condition: Operand, tile: str) -> bool:
        """Whether a branch that is not taken says that the turn's block of ``tile`` ends before its loop does: the
        block does not reach the rows' first one, and the loop ends with their last."""
        op = self._maker(condition)
        if op is None or op.kind is not OpKind.POINTWISE:
            return False
        fn = PointwiseAttrs.of(op).fn
        if fn in EITHER:
            return any(self.is_full_without(side, tile) for side in op.inputs)
        ends = [self._maker(v) for v in (op.inputs if fn in ("lt", "le") else reversed(op.inputs))]
        if fn not in NEGATED or any(end is None for end in ends):
            return False
        begin, end = (end for end in ends if end is not None)
        if begin.kind is not OpKind.TILE_BEGIN or end.kind is not OpKind.TILE_END or TileAttrs.of(end).tile != tile:
            return False
        return self._ends_with(tile) == TileAttrs.of(begin).tile

    def is_peak(self, number: Operand, tile: Operand) -> bool:
        """Whether a number of each row is no less than a positive multiple of the largest of its row, of which the tile
        is a positive multiple: where it is minus infinity, so is all of the row."""
        return self._peak_of(number) == self._unscaled(tile)

    def _peak_of(self, operand: Operand) -> Operand | None:
        """What a number of each row is the largest of, or larger, but for a positive scale."""
        op = self._maker(operand)
        if op is None:
            return None
        if op.kind in BROADCASTS or self._is_scale(op):
            return self._peak_of(op.inputs[0])
        if op.kind is OpKind.REDUCE and ReduceAttrs.of(op).fn == "max":
            return self._unscaled(op.inputs[0])
        if op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn == "maximum":
            found = (self._peak_of(v) for v in op.inputs)
            return next((peak for peak in found if peak is not None), None)
        if op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn == "where":
            peaks = {self._peak_of(v) for v in op.inputs[1:] if not _is_finite(v)}  # a row without keys may have one
            return peaks.pop() if len(peaks) == 1 else None
        return None

    def _unscaled(self, operand: Operand) -> Operand:
        """What a tile is a positive multiple of, where lanes that do not count may be masked."""
        while (op := self._maker(operand)) is not None and (op.kind is OpKind.WHERE_MASK or self._is_scale(op)):
            operand = op.inputs[0]
        return operand

    def _is_scale(self, op: Op) -> bool:
        """Whether an operation multiplies with a number that is known to be positive."""
        is_product = op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn == "mul"
        return is_product and self.is_positive(op.inputs[1])

    def is_positive(self, number: Operand) -> bool:
        """Whether a number that the program has one of is known to be positive."""
        return is_positive(number, self.definitions)

    def _maker(self, operand: Operand) -> Op | None:
        return self.definitions.get(operand) if isinstance(operand, Value) else None


def _is_finite(operand: Operand) -> bool:
    return not isinstance(operand, Value) and math.isfinite(operand)


def _asks(op: Op) -> bool:
    """Whether an operation tells NaN from a number: comparisons, tests, and conversions to ints."""
    if op.kind is OpKind.CAST:
        return not is_float(op.output.type.dtype) and is_float(op.values[0].type.dtype)
    if op.kind is not OpKind.POINTWISE:
        return False
    attrs = PointwiseAttrs.of(op)
    return POINTWISE[attrs.fn].boolean and is_float(attrs.operand)
