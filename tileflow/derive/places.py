"""Gradients of gathers along a dimension of a register tile: each element's is the sum of those of the lanes that took
it.

Slices, flips and rolls take each element once at most, at places that are known: their gradient is a gather too, by the
inverse, in which a place outside is 0. Of all others lanes and elements are compared, each with each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from ..expr import Expr
from ..ir.attributes import ArangeAttrs, AxisAttrs, PointwiseAttrs, SizeAttrs
from ..ir.graph import Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import ONE, Dim, Value, is_float

MOST_PAIRS = 1 << 14  # of elements and lanes that are compared: registers of one row

_COMPUTED: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "floordiv": torch.floor_divide,
    "remainder": torch.remainder,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "neg": torch.neg,
    "positive": torch.positive,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "where": torch.where,
}


class Gathered(Protocol):
    """What is asked of the pass."""

    def text(self, x: Operand) -> str:
        """The operand's name, or the number."""

    def shape(self, dims: tuple[Dim, ...]) -> str:
        """Source text of a shape."""

    def name(self, base: str, text: str) -> str:
        """A line that computes ``text``; its name."""

    def number(self, size: Expr) -> int | None:
        """A size, where all calls of this kind have the same."""

    def definition(self, x: Operand) -> Op | None:
        """The op that gives an operand."""


def gradient(r: Gathered, op: Op, grad: str) -> str | None:
    """Source text of the gradient of what ``op`` gathers from; None where too many elements would be compared."""
    value, index = op.values
    axis = AxisAttrs.of(op).axis
    dim, lanes = value.dims[axis], index.dims[axis]
    own = f"tfl.arange({r.shape((dim,))[1:-1]})"
    if lanes == ONE:
        return f"torch.where({r.name('lanes', _along(own, axis, len(value.dims)))} == {r.text(index)}, {grad}, 0.0)"
    size, count = r.number(dim.extent), r.number(lanes.extent)
    if size is None or count is None:
        return None
    known = places_of(r, index, axis, count)
    inverse = inverse_text(known, size, own) if known else None
    if inverse is not None:
        at = r.name("places", inverse)
        return f"{grad}[{', '.join(at if a == axis else ':' for a in range(len(value.dims)))}]"
    if _registers(size) * _registers(count) > MOST_PAIRS:
        return None
    elements = r.name("lanes", _along(own, axis, len(value.dims) + 1))
    took = r.name("took", f"{elements} == {r.text(index)}.unsqueeze({axis})")
    return f"torch.where({took}, {grad}.unsqueeze({axis}), 0.0).sum({axis + 1})"


def _registers(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _along(text: str, axis: int, rank: int) -> str:
    """A 1-D tile along one of ``rank`` dimensions."""
    items = ", ".join(":" if a == axis else "None" for a in range(rank))
    return f"{text}[{items}]" if rank > 1 else text


def inverse_text(places: list[int], size: int, lanes: str) -> str | None:
    """Source text of the lane that took each of ``size`` elements, some number outside where none did. None unless the
    places are a slice by a step, or turned around the end."""
    start, count = places[0], len(places)
    step = places[1] - start if count > 1 else 1
    if step and places == [start + step * n for n in range(count)]:
        if abs(step) == 1:
            return _plus(lanes, -start) if step == 1 else f"{start} - {lanes}"
        found = f"({_plus(lanes, -start)})"
        return f"torch.where({found} % {abs(step)} == 0, {found} // {step}, -1)"
    if count <= size and places == [(start + n) % size for n in range(count)]:
        return f"({_plus(lanes, size - start)}) % {size}"
    return None


def _plus(text: str, number: int) -> str:
    return f"{text} - {-number}" if number < 0 else f"{text} + {number}" if number else text


def places_of(r: Gathered, index: Operand, axis: int, count: int) -> list[int] | None:
    """The places that ``count`` lanes along ``axis`` take, where they are known and the same for all other lanes."""
    found = _known(r, index)
    if found is None:
        return None
    along = [1] * (len(index.dims) if isinstance(index, Value) else 1)
    along[axis] = count
    known: list[int] = found.expand(along).flatten().tolist() if found.numel() in (1, count) else []
    return known or None


def _known(r: Gathered, x: Operand) -> torch.Tensor | None:
    """An operand that follows from numbers alone; of lanes that are the same in each of a dimension one."""
    if not isinstance(x, Value):
        return torch.tensor(int(x))
    op = r.definition(x)
    if op is None:
        return None
    if op.kind is OpKind.ARANGE:
        start, count = r.number(ArangeAttrs.of(op).start), r.number(op.output.dims[0].extent)
        return None if start is None or count is None else torch.arange(start, start + count)
    if op.kind is OpKind.SIZE:
        size = r.number(SizeAttrs.of(op).value)
        return None if size is None else torch.tensor(size)
    operands = [_known(r, v) for v in op.inputs]
    if any(v is None for v in operands):
        return None
    return _computed(op, [v for v in operands if v is not None])


def _computed(op: Op, operands: list[torch.Tensor]) -> torch.Tensor | None:
    if op.kind in (OpKind.EXPAND, OpKind.FULL):
        return operands[0]  # which broadcasts
    if op.kind is OpKind.CAST:
        return None if is_float(op.output.type.dtype) else operands[0]
    if op.kind in (OpKind.UNSQUEEZE, OpKind.SQUEEZE):
        axis = AxisAttrs.of(op).axis
        return operands[0].unsqueeze(axis) if op.kind is OpKind.UNSQUEEZE else operands[0].squeeze(axis)
    compute = _COMPUTED.get(PointwiseAttrs.of(op).fn) if op.kind is OpKind.POINTWISE else None
    if compute is None or any(v.is_floating_point() for v in operands):
        return None
    return compute(*operands)
