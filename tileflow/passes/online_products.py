"""Products of a softmax, found: what is a multiple of exponentials less a maximum, before it is multiplied by a matrix.

What weights are divided by is the same for a row, so that the product can be divided by it in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..ir.attributes import AxisAttrs, DotAttrs
from ..ir.graph import Op, Operand, uses
from ..ir.kinds import OpKind
from ..ir.types import ONE, Dim, Value, is_float
from .makers import Makers, function_of
from .online import EXPONENTIALS, base_of, peaks_of

_SAME = (OpKind.UNSQUEEZE, OpKind.SQUEEZE, OpKind.CAST, OpKind.EXPAND)  # the same numbers
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclass(frozen=True, slots=True)
class Step:
    """An op on the way from the exponentials to the product, whose input at ``place`` the former is."""

    op: Op
    place: int

    @property
    def others(self) -> tuple[Operand, ...]:
        """What else it takes."""
        return self.op.inputs[: self.place] + self.op.inputs[self.place + 1 :]


@dataclass(frozen=True, slots=True)
class OnlineProduct:
    """``total`` multiplies ``fn(x - shift)`` by its right operand, where ``peak`` is the maximum of the same ``x``.
    ``within``: what a turn does to the exponentials first; ``after``: what multiplies or divides whole rows, in
    order."""

    peak: Op
    total: Op
    fn: str
    shift: Operand
    within: tuple[Step, ...]
    after: tuple[Step, ...]

    @property
    def taken(self) -> Iterator[Value]:
        """The values that a turn needs besides the scores."""
        operands = (self.total.inputs[1], *(other for step in self.within for other in step.others))
        return (v for v in operands if isinstance(v, Value))


def online_products(dim: Dim, folding: Iterable[Op], makers: Makers) -> list[OnlineProduct]:
    """The products over ``dim`` that can be summed along with a maximum over it. ``folding``: all ops over it."""
    folding = tuple(folding)
    peaks = peaks_of(folding, makers)
    found = []
    for op in folding:
        steps = _way(op.inputs[0], dim, makers) if op.kind is OpKind.DOT and is_float(DotAttrs.of(op).acc) else None
        if steps is None:
            continue
        exponential, *rest = steps
        difference = makers[exponential.op.values[0]]
        peak, shift = peaks.get(base_of(difference.values[0], makers)), difference.inputs[1]
        if peak is None or not _is_of_rows(peak, op) or not _shifts_rows(shift, peak) or _is_compared(peak, makers):
            continue
        within = tuple(step for step in rest if _is_within(step, dim))
        after = tuple(step for step in rest if not _is_within(step, dim))
        found.append(OnlineProduct(peak, op, function_of(exponential.op), shift, within, after))
    return found


def _way(value: Operand, dim: Dim, makers: Makers) -> list[Step] | None:
    """The exponential that ``value`` is a multiple of, and the ops from there to it."""
    op = makers.get(value) if isinstance(value, Value) else None
    if op is None or not is_float(op.output.type.dtype):
        return None
    if op.kind is OpKind.CAST and isinstance(op.inputs[0], Value) and is_float(op.inputs[0].type.dtype):
        way = _way(op.inputs[0], dim, makers)
        return way and [*way, Step(op, 0)]
    fn = function_of(op)
    if fn in EXPONENTIALS:
        difference = makers.get(op.values[0]) if op.values else None
        if difference is None or function_of(difference) != "sub" or not isinstance(difference.inputs[0], Value):
            return None
        return [Step(op, 0)]
    for place in _places(op, fn):
        step = Step(op, place)
        way = _way(op.inputs[place], dim, makers)
        if way and (_is_within(step, dim) or all(map(_is_a_row, step.others))):
            return [*way, step]
    return None


def _places(op: Op, fn: str) -> tuple[int, ...]:
    """The operands of which a function is a multiple."""
    match fn:
        case "mul":
            return (0, 1)
        case "div":
            return (0,)
        case "where":
            return (1,) if op.inputs[2] == 0 and not isinstance(op.inputs[2], Value) else ()
    return ()


def _is_within(step: Step, dim: Dim) -> bool:
    """Whether a turn does it: a conversion, or what differs within a row."""
    is_within = step.op.kind is OpKind.CAST or function_of(step.op) == "where"
    return is_within or any(isinstance(other, Value) and dim in other.dims for other in step.others)


def _is_a_row(operand: Operand) -> bool:
    """The same for all of a row."""
    return not isinstance(operand, Value) or not operand.dims or operand.dims[-1] == ONE


def _is_of_rows(peak: Op, product: Op) -> bool:
    """Whether the maximum is one of each row of the product's result."""
    is_last = AxisAttrs.of(peak).axis == len(peak.values[0].dims) - 1
    return is_last and peak.output.dims == product.output.dims[:-1]


def _is_compared(peak: Op, makers: Makers) -> bool:
    """Whether something asks which scores are the maximum: the loop's own is as near as rounding, not the same."""
    known = {peak.output}
    for op in makers.values():
        inner = {v for region in op.regions for v in uses(region)}
        if not known.isdisjoint(inner) or (function_of(op) in _COMPARISONS and not known.isdisjoint(op.values)):
            return True
        if not known.isdisjoint(op.values) and (op.kind in _SAME or function_of(op) in ("sub", "where")):
            known.update(op.outputs)
    return False


def _shifts_rows(shift: Operand, peak: Op) -> bool:
    return isinstance(shift, Value) and shift.dims == (*peak.output.dims, ONE)
