"""Long tiles that are parts of others, without the others: what lies side by side, and parts of a product's columns.

``torch.cat([a, b], 1) @ w[:, :]`` is a product of each of both with its own rows of ``w``, added up, and the sum of a
row that was put together is the sum of both sums. ``(x @ w[:, :]).chunk(2, 1)`` are products with either half of ``w``.
A tile that holds all of them could be no loop, and of two rows of 2048 elements there was no config at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from ..expr import Expr
from ..ir.attributes import ArangeAttrs, AxisAttrs, LoadAttrs, PermuteAttrs
from ..ir.graph import Op, Operand, SliceIndex
from ..ir.kinds import OpKind
from ..ir.types import ONE, Dim, Value
from .trace import Tracer
from .values import TileValue

_LEAST = 256  # elements up to which a tile that was put together stays one
_COLUMNS = 512  # of a product, up to which they are taken apart in registers
_BY_ELEMENT = frozenset({OpKind.CAST, OpKind.POINTWISE, OpKind.EXPAND})


def remember(t: Tracer, made: TileValue, axis: int, parts: Sequence[Value]) -> TileValue:
    """``made``, whose parts along ``axis`` are known from here on, in the dtype that they have in common."""
    t.side_by_side[made.value] = axis, tuple(t.cast(t.wrap(part), made.value.type.dtype).value for part in parts)
    return made


def summed_apart(t: Tracer, left: Value, right: Value) -> list[tuple[Value, Value]]:
    """The products that add up to the one of two tiles, of which one is long and was put together along what is summed
    over; none where it was not, or where the other has no such parts."""
    axis, other = len(left.dims) - 1, len(right.dims) - 2
    if not _is_long(t, left.dims[axis], _LEAST):
        return []
    sizes = _sizes(t, left, axis) or _sizes(t, right, other)
    pairs = zip(pieces(t, left, axis, sizes), pieces(t, right, other, sizes), strict=False)
    return list(pairs)


def parts_of(t: Tracer, value: Value, axis: int) -> list[Value]:
    """The parts of a long tile that was put together along an axis; none where it was not."""
    return pieces(t, value, axis, _sizes(t, value, axis)) if _is_long(t, value.dims[axis], _LEAST) else []


def columns_apart(t: Tracer, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
    """Parts of a product's many columns or rows as products of their own; none of anything else."""
    return pieces(t, value, axis, sizes) if _has_columns(t, value, axis) else []


def some_columns(t: Tracer, value: Value, axis: int, begin: int, size: int) -> Value | None:
    """Some of a product's many columns or rows as a product of their own; None of anything else."""
    return _Pieces(t).of(value, axis, begin, size) if _has_columns(t, value, axis) else None


def pieces(t: Tracer, value: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
    """The parts of a tile along an axis, one after the other; none where any of them would be cut out of registers."""
    begins = [0, *accumulate(sizes)]
    if not sizes or not t.same_size(value.dims[axis].extent, Expr.of(begins[-1])):
        return []
    made = _Pieces(t)
    found = []
    for begin, size in zip(begins, sizes, strict=False):
        piece = made.of(value, axis, begin, size)
        if piece is None:
            return []
        found.append(piece)
    return found


def _is_long(t: Tracer, dim: Dim, least: int) -> bool:
    is_size = dim.tile is None and dim.extent.symbols() <= t.hints.keys()
    return is_size and dim.extent.evaluate(t.hints) > least


def _size(t: Tracer, dim: Dim) -> int:
    """How long a part is, which is a constant of the kernel since it lies beside others."""
    return t.specialize(dim.extent)


def _has_columns(t: Tracer, value: Value, axis: int) -> bool:
    return _is_long(t, value.dims[axis], _COLUMNS) and _is_multiplied(t, value, axis)


def _sizes(t: Tracer, value: Value, axis: int) -> list[int]:
    """Of what parts a tile was put together along an axis, seen through what is done with each element."""
    own_axis, parts = t.side_by_side.get(value, (-1, ()))
    if own_axis == axis:
        return [_size(t, part.dims[axis]) for part in parts]
    sources = _sources(t, value, axis)
    return next(filter(None, (_sizes(t, source, own) for source, own in sources)), [])


def _is_multiplied(t: Tracer, value: Value, axis: int) -> bool:
    """Whether a dimension is one of a product's result, seen through what is done with each element."""
    op = t.builder.definitions.get(value)
    if op is not None and op.kind is OpKind.DOT:
        return axis >= len(value.dims) - 2
    return any(_is_multiplied(t, source, own) for source, own in _sources(t, value, axis))


def _sources(t: Tracer, value: Value, axis: int) -> list[tuple[Value, int]]:
    """What a tile is made of element by element, with the same axis of each."""
    op = t.builder.definitions.get(value)
    if op is None:
        return []
    if op.kind in _BY_ELEMENT:
        return [(v, own) for v in op.values if (own := _axis_of(v, value, axis)) is not None]
    if op.kind is OpKind.PERMUTE:
        return [(op.values[0], PermuteAttrs.of(op).order[axis])]
    if op.kind is OpKind.UNSQUEEZE and axis != (new := AxisAttrs.of(op).axis % len(value.dims)):
        return [(op.values[0], axis - (axis > new))]
    return []


def _axis_of(operand: Value, result: Value, axis: int) -> int | None:
    """An operand's axis that meets a result's; None where it is broadcast there."""
    own = axis - len(result.dims) + len(operand.dims)
    return own if own >= 0 and operand.dims[own] != ONE else None


class _Pieces:
    """Makes parts of tiles, each once."""

    def __init__(self, t: Tracer) -> None:
        self._t = t
        self._made: dict[tuple[Value, int, int, int], Value | None] = {}

    def of(self, value: Value, axis: int, begin: int, size: int) -> Value | None:
        """``size`` elements of an axis from ``begin``; None where only registers have them."""
        key = value, axis, begin, size
        if key not in self._made:
            self._made[key] = self._new(*key)
        return self._made[key]

    def _new(self, value: Value, axis: int, begin: int, size: int) -> Value | None:
        own_axis, parts = self._t.side_by_side.get(value, (-1, ()))
        if own_axis == axis:
            sizes = [_size(self._t, part.dims[axis]) for part in parts]
            places = zip(accumulate(sizes, initial=0), sizes, parts, strict=False)
            return next((part for at, long, part in places if (at, long) == (begin, size)), None)
        op = self._t.builder.definitions.get(value)
        make = None if op is None else _MAKERS.get(op.kind)
        return None if op is None or make is None else make(self, op, axis, begin, size)

    def _again(self, op: Op, inputs: Sequence[Operand], axis: int, size: int, **changed: object) -> Value:
        """``op`` of other inputs, whose result has ``size`` elements along an axis."""
        dims = op.output.dims
        type_ = replace(op.output.type, dims=(*dims[:axis], Dim(Expr.of(size)), *dims[axis + 1 :]))
        attrs = replace(op.attrs, **changed) if changed else op.attrs
        return self._t.builder.add(op.kind, tuple(inputs), type_, attrs, self._t.location())

    def by_element(self, op: Op, axis: int, begin: int, size: int) -> Value | None:
        """Of what is done with each element, or turns a tile."""
        own_axes = dict(_sources(self._t, op.output, axis))
        inputs: list[Operand] = []
        for operand in op.inputs:
            if not isinstance(operand, Value) or operand not in own_axes:
                inputs.append(operand)
                continue
            piece = self.of(operand, own_axes[operand], begin, size)
            if piece is None:
                return None
            inputs.append(piece)
        return self._again(op, inputs, axis, size) if own_axes else None

    def spread(self, op: Op, axis: int, begin: int, size: int) -> Value | None:
        """Of what is the same along the axis, or is not."""
        own_axes = _sources(self._t, op.output, axis)
        return self.by_element(op, axis, begin, size) if own_axes else self._again(op, op.inputs, axis, size)

    def loaded(self, op: Op, axis: int, begin: int, size: int) -> Value | None:
        """Of what a slice loaded in this block, and nothing wrote since."""
        attrs, builder = LoadAttrs.of(op), self._t.builder
        written = {path for first, path in builder.writes if first > op.output.id}
        own = [item for item in attrs.index if isinstance(item, SliceIndex) and item.axis == axis]
        is_here = any(op is o for o in builder.ops)
        if attrs.has_mask or len(own) != 1 or not is_here or written & self._t.sharing(attrs.tensor):
            return None
        new = SliceIndex(own[0].start + begin, Dim(Expr.of(size)), axis)
        index = tuple(new if item is own[0] else item for item in attrs.index)
        site = self._t.names.numbered(f"load:{attrs.tensor}")
        return self._again(op, op.inputs, axis, size, index=index, site=site)

    def counted(self, op: Op, axis: int, begin: int, size: int) -> Value:
        """Of consecutive ints."""
        return self._again(op, op.inputs, axis, size, start=ArangeAttrs.of(op).start + begin)

    def multiplied(self, op: Op, axis: int, begin: int, size: int) -> Value | None:
        """Of a product's rows or columns."""
        behind = len(op.output.dims) - axis
        if behind > 2:
            return None
        inputs = list(op.values)
        for n in (2 - behind, 2) if len(inputs) > 2 else (2 - behind,):
            piece = self.of(inputs[n], len(inputs[n].dims) - behind, begin, size)
            if piece is None:
                return None
            inputs[n] = piece
        return self._again(op, inputs, axis, size, site=self._t.names.numbered("dot"))


_MAKERS: dict[OpKind, Callable[[_Pieces, Op, int, int, int], Value | None]] = {
    OpKind.CAST: _Pieces.by_element,
    OpKind.POINTWISE: _Pieces.by_element,
    OpKind.PERMUTE: _Pieces.by_element,
    OpKind.UNSQUEEZE: _Pieces.by_element,
    OpKind.EXPAND: _Pieces.spread,
    OpKind.FULL: _Pieces.spread,
    OpKind.LOAD: _Pieces.loaded,
    OpKind.ARANGE: _Pieces.counted,
    OpKind.DOT: _Pieces.multiplied,
}
