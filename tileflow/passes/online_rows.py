"""Attention as it is written down: a maximum, sums of exponentials less it, and products of those exponentials, in one
loop over the dimension that all of them are over.

Dao et al. (2022, arXiv:2205.14135): each row has a running maximum, and what was summed of the row shrinks when that
grows. Exponents have the base 2, which is what the hardware computes: the running maximum is of the scores times
``log2(e)`` and whatever positive number they were scaled by, which is one multiplication and addition a score. What
weights are divided by divides the product after the loop. Of keys that a mask keeps out of all rows of a block
(:mod:`kept_keys`) there are no turns.

Infinities and NaN come out as from loops of their own: a row that saw nothing but -inf counts as 0 unless the shift is
-inf too, when its results are NaN as ``exp(-inf + inf)`` is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from ..ir.attributes import NO_ATTRS, AxisAttrs, DotAttrs, PointwiseAttrs, ReduceAttrs, SizeAttrs, WhereMaskAttrs
from ..ir.graph import Op, Operand, Tile
from ..ir.kinds import OpKind
from ..ir.ops import neutral
from ..ir.types import ONE, Dim, TileType, Value
from .folds import Carried, Ops, Taken
from .kept_keys import Kept, kept_by, kept_where, narrowed
from .makers import Makers, function_of
from .online import OnlineSum, base_of
from .online_products import OnlineProduct

_WIDE = ("float32", "float64")
Online = OnlineSum | OnlineProduct  # what is found along with a maximum


@dataclass(frozen=True, slots=True)
class _Scores:
    """What a maximum is over: ``scale`` times a value, -inf where one of the ``wheres`` says so. ``left``: what the
    product that gives the value takes in place of its left operand, which is a multiple of that."""

    value: Value
    scale: float
    wheres: tuple[Op, ...] = ()
    left: Value | None = None

    @staticmethod
    def of(value: Value, makers: Makers) -> _Scores:
        """Without the choices of -inf and the multiplication by a positive number that the value ends with."""
        op = makers.get(value)
        if op is not None and op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).operand in _WIDE:
            kept = _kept_side(op)
            if kept is not None:
                inner = _Scores.of(kept, makers)
                return replace(inner, wheres=(*inner.wheres, op))
            value, scale = _multiple(op) or (value, 1.0)
            return _Scores._of_product(value, scale, makers)
        return _Scores._of_product(value, 1.0, makers)

    @staticmethod
    def _of_product(value: Value, scale: float, makers: Makers) -> _Scores:
        """Where queries were multiplied by a number, the scores are: it is rounded nowhere, and queries stay as they
        lie in memory."""
        product = makers.get(base_of(value, makers))
        if product is None or product.kind is not OpKind.DOT or len(product.inputs) > 2:
            return _Scores(value, scale)
        queries = makers.get(product.values[0])
        found = _multiple(queries) if queries is not None else None
        if found is None or found[0].type != product.values[0].type:
            return _Scores(value, scale)
        return _Scores(product.output, scale * found[1], left=found[0])

    def kept(self, dim: Dim, makers: Makers) -> tuple[Kept, ...]:
        """What each of the choices says of keys."""
        return tuple(kept_by(op.inputs[0], dim, makers, is_negated=op.inputs[1] == -math.inf) for op in self.wheres)


def _kept_side(op: Op) -> Value | None:
    """What a choice between a value and -inf chooses from."""
    if function_of(op) != "where" or -math.inf not in op.inputs[1:]:
        return None
    kept = op.inputs[1 if op.inputs[2] == -math.inf else 2]
    return kept if isinstance(kept, Value) and kept.dims == op.output.dims else None


def _multiple(op: Op) -> tuple[Value, float] | None:
    """The value that an op multiplies by a positive number, and that number."""
    sides = {"mul": (op.inputs, op.inputs[::-1]), "div": (op.inputs,)}.get(function_of(op), ())
    for one, other in sides:
        if isinstance(one, Value) and one.dims == op.output.dims and _is_positive(other):
            return one, float(other) if function_of(op) == "mul" else 1 / other
    return None


def _is_positive(operand: Operand) -> TypeGuard[float]:
    return isinstance(operand, (int, float)) and not isinstance(operand, bool) and 0 < operand < math.inf


def have_one_base(found: Iterable[Online]) -> bool:
    """Whether all that is found along with each maximum has exponentials of one base."""
    bases: dict[Value, set[bool]] = {}
    for its in found:
        bases.setdefault(its.peak.output, set()).add(its.fn == "exp2")
    return all(len(its) == 1 for its in bases.values())


@dataclass(frozen=True, slots=True)
class OnlineRows:
    """A maximum ``op``, and the ``sums`` and ``products`` that are found along with it: of each row the maximum, the
    sums, and the sums of products. ``own``: those results whose shift is the maximum itself."""

    op: Op
    sums: tuple[OnlineSum, ...]
    products: tuple[OnlineProduct, ...]
    scores: _Scores
    own: frozenset[Value]
    kept: tuple[Kept, ...]
    makers: Makers
    tiles: Mapping[str, Tile]

    @staticmethod
    def of(peak: Op, along: Iterable[Online], makers: Makers, tiles: Mapping[str, Tile]) -> OnlineRows:
        """``along``: what is found along with the maximum. ``makers``: the op of each value of the block. ``tiles``:
        all of the region."""
        along = tuple(along)
        scores = _Scores.of(base_of(peak.values[0], makers), makers)
        return OnlineRows(
            peak,
            tuple(its for its in along if isinstance(its, OnlineSum)),
            tuple(its for its in along if isinstance(its, OnlineProduct)),
            scores,
            frozenset(its.total.output for its in along if _is_own(its.shift, peak, makers)),
            scores.kept(peak.values[0].dims[-1], makers),
            makers,
            tiles,
        )

    def narrowed(self, at: Ops, tile: Tile) -> Tile:
        """The loop's tile without the blocks of which no row keeps a key. It may be that of a loop that does nothing
        else."""
        return narrowed(at, tile, [bound for kept in self.kept for bound in kept.bounds], self.tiles)

    @property
    def _dtype(self) -> str:
        return "float64" if self.scores.value.type.dtype == "float64" else "float32"

    @property
    def _log2(self) -> float:
        """What turns the exponents into those of 2."""
        return 1.0 if self.products[0].fn == "exp2" else 1 / math.log(2)

    @property
    def _first(self) -> int:
        """The place of the first product among what is carried: all sums of a row are one."""
        return 2 if self.sums else 1

    def start(self, at: Ops, tile: Tile) -> Carried:
        """Of each row no maximum yet, and no sums."""
        rows = TileType(self._dtype, self.op.output.dims)
        peak = at.emit(OpKind.FULL, (neutral("max", self._dtype),), rows)
        totals = [at.emit(OpKind.FULL, (0.0,), rows)] if self.sums else []
        sums = [at.emit(OpKind.FULL, (0.0,), _summed(its)) for its in self.products]
        return (peak, *totals, *sums)

    def turn(self, at: Ops, tile: Tile, carried: Carried, taken: Taken) -> Carried:
        """The running maximum, sums and products, with this block added."""
        peak, totals, sums = carried[0], carried[1 : self._first], carried[self._first :]
        scores = self._block(at, tile, taken)
        rows, scale = len(self.op.output.dims), self.scores.scale * self._log2
        most = at.emit(OpKind.REDUCE, (scores,), peak.type, ReduceAttrs(rows, "max", ""))
        top = at.compute("maximum", peak, at.compute("mul", most, scale, like=peak), like=peak)
        # less nothing where an infinity less itself would be NaN
        base = at.compute("where", at.test("isinf", top), 0.0, top, like=peak)
        around = self._column(at, base)
        exponents = at.compute("sub", at.compute("mul", scores, scale, like=scores), around, like=scores)
        weights = at.compute("exp2", exponents, like=scores)
        shrink = at.compute("exp2", at.compute("sub", peak, base, like=peak), like=peak)
        found = []
        for total in totals:
            more = at.emit(OpKind.REDUCE, (weights,), peak.type, ReduceAttrs(rows, "sum", ""))
            found.append(at.compute("add", at.compute("mul", total, shrink, like=total), more, like=total))
        for its, total in zip(self.products, sums, strict=True):
            left = self._left(at, its, weights, taken)
            kept = at.compute("mul", total, self._column(at, shrink), like=total)
            inputs = (left, taken(its.total.inputs[1]), kept)
            found.append(at.emit(OpKind.DOT, inputs, total.type, its.total.attrs))
        return (top, *found)

    def finish(self, at: Ops, carried: Carried) -> None:
        """The maximum; sums and products wait for their shift (:meth:`settle`)."""
        peak = at.compute("div", carried[0], self._log2, like=carried[0])
        at.again(Op(OpKind.CAST, (), self.op.outputs, NO_ATTRS, (), self.op.loc), peak)

    def settle(self, at: Ops, carried: Carried, its: Online, shift: Operand) -> None:
        """A sum or a product relative to the shift that its readers expect."""
        peak = carried[0]
        found = carried[self._first + self.products.index(its) if isinstance(its, OnlineProduct) else 1]
        base = peak
        if its.total.output not in self.own:
            assert isinstance(shift, Value)
            row = at.emit(OpKind.SQUEEZE, (shift,), TileType(shift.type.dtype, peak.dims), AxisAttrs(len(peak.dims)))
            base = at.compute("mul", row, self._log2, like=peak)
        # 1 where both are the same number, NaN where they are the same infinity
        factor = at.compute("exp2", at.compute("sub", peak, base, like=peak), like=peak)
        if isinstance(its, OnlineProduct):
            found = at.compute("mul", found, self._column(at, factor), like=found)
            for step in its.after:
                found = at.compute(PointwiseAttrs.of(step.op).fn, found, *step.others, like=found)
            found = self._unless_empty(at, found)
            for added in its.total.inputs[2:]:
                found = at.compute("add", found, added, like=found)
        else:
            found = at.compute("mul", found, factor, like=found)
        attrs = PointwiseAttrs("positive", found.type.dtype)
        at.again(Op(OpKind.POINTWISE, (), its.total.outputs, attrs, (), its.total.loc), found)

    def _unless_empty(self, at: Ops, found: Value) -> Value:
        """A product, which is 0 of no keys at all: there a row has no maximum, and no weight that is NaN."""
        keys = self.op.values[0].dims[-1].extent
        if keys.constant:
            return found
        count = at.emit(OpKind.SIZE, (), TileType("int64", ()), SizeAttrs(keys))
        is_empty = at.emit(OpKind.POINTWISE, (count, 0), TileType("bool", ()), PointwiseAttrs("eq", "int64"))
        return at.compute("where", is_empty, 0.0, found, like=found)

    def _block(self, at: Ops, tile: Tile, taken: Taken) -> Value:
        """The scores of a block, -inf past the end, before they are scaled."""
        value = taken(self.scores.value) if self.scores.left is None else self._product(at, taken)
        assert isinstance(value, Value)
        wide = TileType(self._dtype, value.dims)
        if value.type != wide:
            value = at.emit(OpKind.CAST, (value,), wide)
        for op, kept in zip(self.scores.wheres, self.kept, strict=True):
            if kept.is_all:
                value = kept_where(at, tile, kept.bounds, self.tiles, value, self.op.values[0].dims[-1].extent)
            else:
                sides = (value, -math.inf) if op.inputs[2] == -math.inf else (-math.inf, value)
                value = at.compute("where", taken(op.inputs[0]), *sides, like=value)
        attrs = WhereMaskAttrs((len(value.dims) - 1,))
        return at.emit(OpKind.WHERE_MASK, (value, -math.inf), wide, attrs)

    def _product(self, at: Ops, taken: Taken) -> Value:
        """The scores of queries that nothing was multiplied by."""
        op = self.makers[self.scores.value]
        left, right = taken(self.scores.left or op.inputs[0]), taken(op.inputs[1])
        assert isinstance(right, Value)
        dims = (*op.output.dims[:-1], right.dims[-1])
        return at.emit(OpKind.DOT, (left, right), TileType(op.output.type.dtype, dims), op.attrs)

    def _left(self, at: Ops, its: OnlineProduct, weights: Value, taken: Taken) -> Value:
        """A product's left operand: the weights, changed as their author does, and as narrow."""
        for step in its.within:
            operands = [taken(other) for other in step.others]
            operands.insert(step.place, weights)
            weights = at.emit(step.op.kind, tuple(operands), _as_wide_as(weights, step.op.output), step.op.attrs)
        operand = its.total.inputs[0]
        assert isinstance(operand, Value)
        narrow = _as_wide_as(weights, operand)
        return weights if weights.type == narrow else at.emit(OpKind.CAST, (weights,), narrow)

    def _column(self, at: Ops, rows: Value) -> Value:
        return at.emit(
            OpKind.UNSQUEEZE, (rows,), TileType(rows.type.dtype, (*rows.dims, ONE)), AxisAttrs(len(rows.dims))
        )


def _is_own(shift: Operand, peak: Op, makers: Makers) -> bool:
    """Whether a shift is the maximum itself, as a column."""
    op = makers.get(base_of(shift, makers)) if isinstance(shift, Value) else None
    return op is not None and op.kind is OpKind.UNSQUEEZE and base_of(op.values[0], makers) == peak.output


def _summed(its: OnlineProduct) -> TileType:
    return TileType(DotAttrs.of(its.total).acc, its.total.output.dims)


def _as_wide_as(value: Value, like: Value) -> TileType:
    """The type of ``value`` with the dtype of ``like``."""
    return TileType(like.type.dtype, value.dims)
