"""The rule of each kind of op for masked lanes: which number its output holds there, and which one it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from .attributes import (
    AxisAttrs,
    CombineAttrs,
    FoldAttrs,
    LoadAttrs,
    PermuteAttrs,
    PointwiseAttrs,
    WhereMaskAttrs,
)
from .graph import Op
from .opdef import Fill, Known
from .ops import POINTWISE, holds, neutral
from .types import Dim, Value, is_float

_ROUNDED_BY = 1 / 8  # at most, of a number that its dtype does not hold: float8 has two bits of a fraction


def load(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """Masked lanes of a load hold its ``other``."""
    return float(LoadAttrs.of(op).other)


def full(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """Masked lanes of a constant tile hold the constant; a tile filled with a value of the kernel has none that is
    known."""
    return None if isinstance(op.inputs[0], Value) else float(op.inputs[0])


def cast(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """A number that the new dtype has is kept; of another one nothing is known."""
    found = known.at(op.inputs[0], axis)
    return None if found is None or not holds(value.type.dtype, found) else found


def same(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """Dimension ``axis`` is the input's, so masked lanes hold what they hold there."""
    return known.at(op.inputs[0], axis)


def unsqueeze(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """The other axes keep what the input holds; of the inserted one nothing is known."""
    inserted = AxisAttrs.of(op).axis
    return None if axis == inserted else known.at(op.inputs[0], axis - (axis > inserted))


def squeeze(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """The axes that are left keep what the input holds."""
    return known.at(op.inputs[0], axis + (axis >= AxisAttrs.of(op).axis))


def permute(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """Each axis holds what the input's axis that it was made of holds."""
    return known.at(op.inputs[0], PermuteAttrs.of(op).order[axis])


def expand(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """A broadcast input says it where it has the axis itself."""
    return known.broadcast(op.inputs[0], value, axis)


def reshape(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """A dimension that the reshape keeps holds what it held before; of the others nothing is known."""
    source = op.inputs[0]
    assert isinstance(source, Value)
    found = _reshaped(source, value.dims[axis])
    return None if found is None else known.at(source, found)


def _reshaped(source: Value, dim: Dim) -> int | None:
    """The axis of ``source`` whose masked lanes are those of ``dim`` after a reshape; None where there is no one."""
    same = [n for n, d in enumerate(source.dims) if d == dim or (dim.tile is not None and d.tile == dim.tile)]
    return same[0] if len(same) == 1 else None


def join(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """An axis of both sides holds a number where both hold the same one; of the new last axis nothing is known."""
    if axis == len(value.dims) - 1:
        return None
    first, second = (known.at(v, axis) for v in op.inputs)
    return first if _is_one(first, second) else None


def nibbles(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """Masked lanes of nibbles hold 0 where their byte's do; else nothing is known."""
    return 0.0 if known.at(op.inputs[0], axis) == 0.0 else None


def where_mask(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """Masked lanes of the named axes hold the second operand; of the other axes nothing is known."""
    return known.at(op.inputs[1], axis) if axis in WhereMaskAttrs.of(op).axes else None


def pointwise(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """Torch's own result for what the operands hold. A mask by position may choose for all masked lanes."""
    attrs, found = PointwiseAttrs.of(op), [known.broadcast(v, value, axis) for v in op.inputs]
    if attrs.fn == "where" and (chosen := _chosen(known, op, value, axis)) is not None:
        return found[chosen]
    if found == [-math.inf, None] and _keeps_infinity(known, op, value, axis):
        return -math.inf
    if any(f is None for f in found):
        return None
    numbers = [f for f in found if f is not None]
    result = _evaluated(attrs, numbers)
    return result if _is_sure(attrs, numbers, result, value.type.dtype) else None


def _is_sure(attrs: PointwiseAttrs, numbers: list[float], result: float, dtype: str) -> bool:
    """Whether the kernel has no other number where a result looks exact: an operand that its dtype does not hold is
    rounded there, by which a comparison may say the other truth, and a difference be one beside 0."""
    if not math.isnan(result) and not holds(dtype, result):
        return True  # which says itself that it is rounded
    for place, number in enumerate(numbers):
        if math.isnan(number) or holds(attrs.operand, number):
            continue
        for factor in (1 - _ROUNDED_BY, 1 + _ROUNDED_BY):
            moved = _evaluated(attrs, [*numbers[:place], number * factor, *numbers[place + 1 :]])
            if moved != result and not (math.isnan(moved) and math.isnan(result)):
                return False
    return True


def _evaluated(attrs: PointwiseAttrs, numbers: Sequence[float]) -> float:
    """Torch's own result, of floats in doubles."""
    dtype = getattr(torch, attrs.operand)
    wide = torch.float64 if dtype.is_floating_point else dtype
    operands = [torch.tensor(n, dtype=wide) for n in numbers]
    if attrs.fn == "where":
        operands[0] = operands[0].bool()
    return float(POINTWISE[attrs.fn].evaluate(*operands))


def _chosen(known: Known, op: Op, value: Value, axis: int) -> int | None:
    """The operand that a selection gives in all masked lanes."""
    tile = _lone_tile(value, axis)
    if tile is None:
        return None
    return next(
        (n for n, truth in ((2, True), (1, False)) if known.positions.is_never(op.inputs[0], truth, tile)), None
    )


def _lone_tile(value: Value, axis: int) -> str | None:
    """The tile whose lanes a dimension has, where no other dimension of the value has them."""
    tile = value.dims[axis].tile
    return tile if sum(dim.tile == tile for dim in value.dims) == 1 else None


def _keeps_infinity(known: Known, op: Op, value: Value, axis: int) -> bool:
    """Whether minus infinity times a positive number, or less the largest number of its row, is minus infinity, or all
    of the row is NaN, which nothing asks for."""
    left, right = op.inputs[:2]
    match PointwiseAttrs.of(op).fn:
        case "mul":
            return known.positions.is_positive(right)
        case "sub":
            is_of_row = not isinstance(right, Value) or value.dims[axis] not in right.dims
            return is_of_row and known.positions.is_peak(right, left) and op.output not in known.positions.asked
    return False


def branch(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """What both sides hold, or the first one where the second is that of full blocks."""
    place, tile = op.outputs.index(value), _lone_tile(value, axis)
    first, second = (known.broadcast(side.results[place], value, axis) for side in op.regions)
    is_full = tile is not None and bool(op.inputs) and known.positions.is_full_without(op.inputs[0], tile)
    return first if is_full or _is_one(first, second) else None


def _is_one(first: float | None, second: float | None) -> bool:
    """Whether both are known to be one number: 0.0 and -0.0 are equal, and their reciprocals are not."""
    if first is None or second is None or first != second:
        return False
    return math.copysign(1.0, first) == math.copysign(1.0, second)


def fold_fills(op: Op) -> tuple[Fill, ...]:
    """A reduction or a scan needs what leaves it unchanged."""
    attrs = FoldAttrs.of(op)
    return (Fill(0, attrs.axis, neutral(attrs.fn, op.values[0].type.dtype)),)


def sort_fills(op: Op) -> tuple[Fill, ...]:
    """Lanes that do not count come last."""
    return (Fill(0, AxisAttrs.of(op).axis, torch.iinfo(getattr(torch, op.values[0].type.dtype)).max),)


def combine_fills(op: Op) -> tuple[Fill, ...]:
    """What the author named; else the emitted function looks at flags."""
    attrs = CombineAttrs.of(op)
    return tuple(Fill(n, attrs.axis, number) for n, number in enumerate(attrs.other or ()))


def product_fills(op: Op) -> tuple[Fill, ...]:
    """Both sides hold zeros in the dimension that is summed over."""
    a, b = op.values[:2]
    zero = 0.0 if is_float(a.type.dtype) else 0
    return Fill(0, len(a.dims) - 1, zero), Fill(1, len(b.dims) - 2, zero)
