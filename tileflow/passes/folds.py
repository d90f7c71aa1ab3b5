"""What the loop over a whole dimension carries for each op that folds it up: where that begins, a turn, the end.

A reduction carries a block of partial results, of which one reduction after the loop makes one. The place of an
extremum carries a block of extrema and their places. A product carries its sum, which is whole after the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..expr import Expr
from ..ir.attributes import (
    NO_ATTRS,
    ArangeAttrs,
    Attrs,
    AxisAttrs,
    DotAttrs,
    IfAttrs,
    PointwiseAttrs,
    ReduceAttrs,
    TileAttrs,
    WhereMaskAttrs,
)
from ..ir.graph import Block, Op, Operand, Tile
from ..ir.kinds import OpKind
from ..ir.ops import neutral
from ..ir.types import INT32_MAX, ONE, Dim, TileType, Value, is_float
from .rewrite import Fresh

# what puts two partial results of each reduction together
COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "logical_or", "all": "logical_and"}
_PLACES = {"argmax": ("max", "lt"), "argmin": ("min", "gt")}  # the extremum, and how a farther one compares to it
_LAST = {"int32": INT32_MAX, "int64": 2**63 - 1}
HALVES = ("float16", "bfloat16")
Taken = Callable[[Operand], Operand]
Carried = tuple[Value, ...]


class Ops:
    """Ops appended to a list, of the line of the op ``like``."""

    def __init__(self, fresh: Fresh, ops: list[Op], like: Op) -> None:
        self.fresh, self.ops, self._like = fresh, ops, like

    def within(self, ops: list[Op]) -> Ops:
        """The same, appended to another list."""
        return Ops(self.fresh, ops, self._like)

    def emit(self, kind: OpKind, inputs: tuple[Operand, ...], type_: TileType, attrs: Attrs = NO_ATTRS) -> Value:
        """The output of a new op."""
        out = self.fresh.value(type_, self._like)
        self.ops.append(Op(kind, inputs, (out,), attrs, (), self._like.loc))
        return out

    def branch(self, condition: Value, then: Block, otherwise: Block, like: Value) -> Value:
        """The one result of either block, as it is typed in both."""
        out = self.fresh.value(like.type, self._like.output)
        self.ops.append(Op(OpKind.IF, (condition,), (out,), IfAttrs(), (then, otherwise), self._like.loc))
        return out

    def compute(self, fn: str, *operands: Operand, like: Value) -> Value:
        """A pointwise function in the dtype of ``like``, whose shape the result has."""
        return self.emit(OpKind.POINTWISE, operands, like.type, PointwiseAttrs(fn, like.type.dtype))

    def test(self, fn: str, *operands: Value) -> Value:
        """A pointwise function that gives bools, of operands in the dtype of the first."""
        first, *_ = operands
        attrs = PointwiseAttrs(fn, first.type.dtype)
        return self.emit(OpKind.POINTWISE, operands, TileType("bool", first.dims), attrs)

    def again(self, op: Op, *inputs: Operand) -> None:
        """``op`` of other inputs; its output keeps its readers."""
        self.ops.append(op.with_(inputs=inputs))


class Fold(Protocol):
    """Of one op. ``taken``: what a turn of the loop has of an operand."""

    @property
    def op(self) -> Op:
        """The op that folds a dimension up."""

    def start(self, at: Ops, tile: Tile) -> Carried:
        """What the loop over ``tile`` carries in, made before it."""

    def turn(self, at: Ops, tile: Tile, carried: Carried, taken: Taken) -> Carried:
        """The same with one more block."""

    def finish(self, at: Ops, carried: Carried) -> None:
        """The op's own output, made after the loop."""


def fold_of(op: Op) -> Fold | None:
    """How an op folds a dimension up; None where no loop can."""
    if op.kind is OpKind.DOT:
        return _Product(op)
    fn = ReduceAttrs.of(op).fn if op.kind is OpKind.REDUCE else ""
    return _Place(op) if fn in _PLACES else _Partial(op) if fn in COMBINE else None


def folded(op: Op) -> Dim | None:
    """The dimension that an op folds up; None of others."""
    if op.kind is OpKind.REDUCE:
        return op.values[0].dims[AxisAttrs.of(op).axis]
    return op.values[0].dims[-1] if op.kind is OpKind.DOT else None


def lanes_of(at: Ops, op: Op, block: Dim, fn: str) -> Value:
    """A block of neutral values of a reduction by ``fn``: half types in float32, as the reduction itself would have
    them. ``block``: what stands for the folded dimension."""
    (value,) = op.values
    axis = AxisAttrs.of(op).axis
    dtype = "float32" if value.type.dtype in HALVES else value.type.dtype
    dims = (*value.dims[:axis], block, *value.dims[axis + 1 :])
    return at.emit(OpKind.FULL, (neutral(fn, dtype),), TileType(dtype, dims))


def masked(at: Ops, op: Op, taken: Taken, fn: str) -> Value:
    """What a reduction by ``fn`` takes of a block."""
    value = taken(op.inputs[0])
    assert isinstance(value, Value)
    attrs = WhereMaskAttrs((AxisAttrs.of(op).axis,))
    return at.emit(OpKind.WHERE_MASK, (value, neutral(fn, value.type.dtype)), value.type, attrs)


@dataclass(frozen=True, slots=True)
class _Partial:
    """A reduction: lanes that each have a part of it."""

    op: Op

    def start(self, at: Ops, tile: Tile) -> Carried:
        return (lanes_of(at, self.op, Dim(tile.block), ReduceAttrs.of(self.op).fn),)

    def turn(self, at: Ops, tile: Tile, carried: Carried, taken: Taken) -> Carried:
        fn, (total,) = ReduceAttrs.of(self.op).fn, carried
        return (at.compute(COMBINE[fn], total, masked(at, self.op, taken, fn), like=total),)

    def finish(self, at: Ops, carried: Carried) -> None:
        at.again(self.op, *carried)


@dataclass(frozen=True, slots=True)
class _Place:
    """The first place of an extremum: lanes that each have one and its place. A lane begins with its place in the first
    block, which stays where no element is nearer to the extremum than any. NaN is nearer than all, as in torch."""

    op: Op

    def start(self, at: Ops, tile: Tile) -> Carried:
        block = Dim(tile.block)
        best = lanes_of(at, self.op, block, self._fn)
        lanes = at.emit(OpKind.ARANGE, (), TileType(tile.index_dtype, (block,)), ArangeAttrs(Expr.of(0)))
        first = at.emit(OpKind.FULL, (0,), TileType(tile.index_dtype, best.dims))
        return best, at.compute("add", first, self._along(at, lanes, best), like=first)

    def turn(self, at: Ops, tile: Tile, carried: Carried, taken: Taken) -> Carried:
        best, place = carried
        value = masked(at, self.op, taken, self._fn)
        index = at.emit(OpKind.TILE_INDEX, (), TileType(tile.index_dtype, (tile.dim,)), TileAttrs(tile.name))
        nearer = at.test(_PLACES[ReduceAttrs.of(self.op).fn][1], best, value)
        if is_float(best.type.dtype):
            is_first = at.test("logical_and", at.test("isnan", value), at.test("logical_not", at.test("isnan", best)))
            nearer = at.test("logical_or", nearer, is_first)
        return (
            at.compute("where", nearer, value, best, like=best),
            at.compute("where", nearer, self._along(at, index, best), place, like=place),
        )

    def finish(self, at: Ops, carried: Carried) -> None:
        best, place = carried
        axis, dtype = AxisAttrs.of(self.op).axis, place.type.dtype
        short = (*best.dims[:axis], *best.dims[axis + 1 :])
        peak = at.emit(OpKind.REDUCE, (best,), TileType(best.type.dtype, short), ReduceAttrs(axis, self._fn, ""))
        around = TileType(best.type.dtype, (*short[:axis], ONE, *short[axis:]))
        is_peak = at.test("eq", best, at.emit(OpKind.UNSQUEEZE, (peak,), around, AxisAttrs(axis)))
        if is_float(best.type.dtype):
            is_peak = at.test("logical_or", is_peak, at.test("isnan", best))
        first = at.compute("where", is_peak, place, _LAST[dtype], like=place)
        first = at.emit(OpKind.REDUCE, (first,), TileType(dtype, short), ReduceAttrs(axis, "min", ""))
        at.again(Op(OpKind.CAST, (), self.op.outputs, NO_ATTRS, (), self.op.loc), first)

    @property
    def _fn(self) -> str:
        return _PLACES[ReduceAttrs.of(self.op).fn][0]

    def _along(self, at: Ops, lanes: Value, like: Value) -> Value:
        """Numbers of lanes along the folded dimension of ``like``."""
        axis = AxisAttrs.of(self.op).axis
        for place in (*[0] * axis, *range(axis + 1, len(like.dims))):
            dims = (*lanes.dims[:place], ONE, *lanes.dims[place:])
            lanes = at.emit(OpKind.UNSQUEEZE, (lanes,), TileType(lanes.type.dtype, dims), AxisAttrs(place))
        return lanes


@dataclass(frozen=True, slots=True)
class _Product:
    """A product's inner dimension: one sum in its accumulator's dtype, which begins with what the author adds to."""

    op: Op

    def start(self, at: Ops, tile: Tile) -> Carried:
        wide = TileType(DotAttrs.of(self.op).acc, self.op.output.dims)
        if len(self.op.inputs) < 3:
            return (at.emit(OpKind.FULL, (0.0 if is_float(wide.dtype) else 0,), wide),)
        return (at.emit(OpKind.CAST, (self.op.inputs[2],), wide),)

    def turn(self, at: Ops, tile: Tile, carried: Carried, taken: Taken) -> Carried:
        left, right = map(taken, self.op.inputs[:2])
        return (at.emit(OpKind.DOT, (left, right, *carried), carried[0].type, self.op.attrs),)

    def finish(self, at: Ops, carried: Carried) -> None:
        # no cast: a product in a half type is in registers as it was summed, in a loop or not
        attrs = PointwiseAttrs("positive", carried[0].type.dtype)
        at.again(Op(OpKind.POINTWISE, (), self.op.outputs, attrs, (), self.op.loc), *carried)
