"""Masks by position, as a causal one is, only in the blocks that need them.

``torch.where(rows[:, None] >= keys[None, :], scores, -inf)`` in the loop over keys compares and selects each score of
each turn, though most blocks lie on one side of the diagonal, where the mask keeps all of them. Where those are follows
from where the tiles begin and end, so a branch asks that of one number (interval arithmetic: Moore, 1966). Blocks of
which a mask keeps all are full ones, the others partial (Dong et al., 2024, arXiv:2412.05496).

Masks behind a product of the turn are branched over: such a turn computes for long. So it is with an author's own
branch (``if keys.end > rows.begin``), whose text this is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.attributes import IfAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.positions import BOTH, BROADCASTS, EITHER, INTEGERS, NEGATED, NOT
from ..ir.types import TileType, Value
from .folds import Ops
from .rewrite import Fresh, rename, with_body

_MADE_AGAIN = BROADCASTS | {OpKind.POINTWISE, OpKind.CAST, OpKind.TILE_INDEX}
# whether all elements compare so: a comparison of one end of the left side with one of the right
_ALL = {"ge": ("lo", "hi"), "gt": ("lo", "hi"), "le": ("hi", "lo"), "lt": ("hi", "lo")}
_SOME_EQUAL = frozenset({("eq", True), ("ne", False)})  # what is asked where some pair of elements is equal


def mask_partial_blocks(ir: KernelIR) -> KernelIR:
    """Put each mask by position behind a product of a loop's turn into a branch that full blocks do not take."""
    if not any(op.kind is OpKind.FOR for op in ir.walk()) or not any(op.kind in PRODUCTS for op in ir.walk()):
        return ir
    return with_body(ir, _Loops(ir, Fresh(ir)).block(ir.body, ""))


@dataclass(frozen=True, slots=True)
class _Interval:
    """Numbers that are not above and not below those of a tile. ``tiles``: whose positions it is made of. Above
    positions is the one past the last: some blocks that need no mask are taken for partial ones."""

    lo: Operand
    hi: Operand
    tiles: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Loops:
    """The blocks of a region, loops within loops."""

    ir: KernelIR
    fresh: Fresh

    def block(self, block: Block, tile: str) -> Block:
        """A block of the loop over ``tile``; of none if empty."""
        ops: list[Op] = []
        behind: set[Value] = set()
        for op in block.ops:
            if op.regions:
                inner = TileAttrs.of(op).tile if op.kind is OpKind.FOR else ""
                op = op.with_(regions=tuple(self.block(r, inner) for r in op.regions))
            elif tile and not behind.isdisjoint(op.values):
                op = self._branched(op, ops, tile)
            if op.kind in PRODUCTS or not behind.isdisjoint(op.values):
                behind.update(op.outputs)
            ops.append(op)
        return Block(block.params, tuple(ops), block.results)

    def _branched(self, op: Op, ops: list[Op], tile: str) -> Op:
        """The branch in place of a mask; what its condition needs is appended to ``ops``."""
        mask = _mask_of(op)
        if mask is None:
            return op
        kept, condition, keeps = mask
        asked: list[Op] = []
        question = _Question(self.ir, Ops(self.fresh, asked, op))
        partial = question.some(condition, not keeps)
        if partial is None or tile not in question.tiles:
            return op
        ops.extend(asked)
        inner: list[Op] = []
        again = _Again(self.fresh, {v: o for o in ops for v in o.outputs}, inner)
        renamed: dict[Value, Operand] = {condition: again.made(condition)}
        result = self.fresh.value(op.output.type, op.output)
        inner.append(op.with_(inputs=tuple(rename(v, renamed) for v in op.inputs), outputs=(result,)))
        sides = Block((), tuple(inner), (result,)), Block((), (), (kept,))
        return Op(OpKind.IF, (partial,), op.outputs, IfAttrs(first_holds=True), sides, op.loc)


def _mask_of(op: Op) -> tuple[Value, Value, bool] | None:
    """What a selection keeps where its mask has nothing to say, the mask, and by which of its values it keeps it; None
    of other operations."""
    if op.kind is not OpKind.POINTWISE or PointwiseAttrs.of(op).fn != "where" or len(op.output.dims) < 2:
        return None
    condition, first, second = op.inputs
    kept, fill = (second, first) if isinstance(second, Value) and not isinstance(first, Value) else (first, second)
    if isinstance(fill, Value) or not isinstance(kept, Value) or not isinstance(condition, Value):
        return None
    return (kept, condition, kept is first) if kept.type == op.output.type else None


@dataclass(frozen=True, slots=True)
class _Again:
    """A mask once more where only partial blocks compute it; the first one is dead if nothing else reads it. ``turn``:
    the operations of the loop's turn, by what they give."""

    fresh: Fresh
    turn: Mapping[Value, Op]
    ops: list[Op]
    names: dict[Value, Value] = field(default_factory=dict)

    def made(self, value: Value) -> Value:
        """The value of a turn's positions by its new name; another one as it is."""
        op = self.turn.get(value)
        if op is None or op.kind not in _MADE_AGAIN or not value.dims:
            return value
        if value not in self.names:
            inputs = tuple(self.made(v) if isinstance(v, Value) else v for v in op.inputs)
            self.names[value] = self.fresh.value(value.type, value)
            self.ops.append(op.with_(inputs=inputs, outputs=(self.names[value],)))
        return self.names[value]


@dataclass(slots=True)
class _Question:
    """What is asked of a block's positions. ``tiles``: whose positions were asked for."""

    ir: KernelIR
    at: Ops
    tiles: set[str] = field(default_factory=set)

    def some(self, condition: Operand, is_true: bool) -> Value | None:
        """Whether some element of a condition may be true, or false; None where that cannot be said."""
        op = self._maker(condition)
        if op is None:
            return None
        if op.kind in BROADCASTS:
            return self.some(op.inputs[0], is_true)
        if op.kind is not OpKind.POINTWISE:
            return None
        fn, operand = PointwiseAttrs.of(op).fn, PointwiseAttrs.of(op).operand
        if fn in _ALL and operand in INTEGERS:
            return self._compared(op, fn if not is_true else NEGATED[fn])
        if (fn, is_true) in _SOME_EQUAL and operand in INTEGERS:
            return self._joined("logical_and", [self._compared(op, one) for one in ("gt", "lt")])
        if op.output.type.dtype != "bool":
            return None
        if fn in NOT:
            return self.some(op.inputs[0], not is_true)
        if fn not in BOTH | EITHER:
            return None
        joined = "logical_or" if (fn in BOTH) != is_true else "logical_and"
        return self._joined(joined, [self.some(side, is_true) for side in op.inputs])

    def _joined(self, fn: str, sides: Sequence[Value | None]) -> Value | None:
        """Both questions, or one of them; None where one cannot be said."""
        known = [side for side in sides if side is not None]
        return self._scalar(fn, "bool", *known) if len(known) == len(sides) else None

    def _compared(self, op: Op, fn: str) -> Value | None:
        """Whether some pair of elements does not compare as ``fn`` says."""
        left, right = (self._interval(v) for v in op.inputs)
        # positions of one tile on both sides: its blocks lie on the diagonal, all of them
        if left is None or right is None or left.tiles & right.tiles or not left.tiles | right.tiles:
            return None
        self.tiles |= left.tiles | right.tiles
        ends = (getattr(side, end) for side, end in zip((left, right), _ALL[fn], strict=True))
        return self._scalar(NEGATED[fn], PointwiseAttrs.of(op).operand, *ends)

    def _interval(self, operand: Operand) -> _Interval | None:
        """Between which numbers the elements of a tile are; None where that cannot be said."""
        if not isinstance(operand, Value):
            return _Interval(operand, operand) if isinstance(operand, int) else None
        if operand.type.dtype not in INTEGERS:
            return None
        if not operand.dims:
            return _Interval(operand, operand)
        op = self._maker(operand)
        if op is None:
            return None
        if op.kind is OpKind.TILE_INDEX:
            return self._positions(TileAttrs.of(op).tile, operand.type.dtype)
        if op.kind in BROADCASTS or op.kind is OpKind.CAST:
            return self._interval(op.inputs[0])
        if op.kind is not OpKind.POINTWISE or PointwiseAttrs.of(op).fn not in ("add", "sub"):
            return None
        left, right = (self._interval(v) for v in op.inputs)
        if left is None or right is None or left.tiles & right.tiles:
            return None
        fn, dtype = PointwiseAttrs.of(op).fn, operand.type.dtype
        near, far = (right.lo, right.hi) if fn == "add" else (right.hi, right.lo)
        tiles = left.tiles | right.tiles
        return _Interval(self._scalar(fn, dtype, left.lo, near), self._scalar(fn, dtype, left.hi, far), tiles)

    def _positions(self, tile: str, dtype: str) -> _Interval:
        begin, end = (
            self.at.emit(kind, (), TileType(dtype, (), weak=True), TileAttrs(tile))
            for kind in (OpKind.TILE_BEGIN, OpKind.TILE_END)
        )
        return _Interval(begin, end, frozenset({tile}))

    def _scalar(self, fn: str, dtype: str, *operands: Operand) -> Value:
        """A function of scalars that meet in ``dtype``."""
        result = "bool" if fn in NEGATED else dtype
        return self.at.emit(OpKind.POINTWISE, operands, TileType(result), PointwiseAttrs(fn, dtype))

    def _maker(self, operand: Operand) -> Op | None:
        return self.ir.definitions.get(operand) if isinstance(operand, Value) else None
