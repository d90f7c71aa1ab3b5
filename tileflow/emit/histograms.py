"""The Triton text of histograms: a block's lanes are counted by ``tl.histogram``, which meets in shared memory, and the
counts are added to their elements, one lane for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ..expr import Expr
from ..ir.attributes import HistogramAttrs
from ..ir.graph import IndexItem, Op, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import Dim, Value
from . import indexing
from .context import Context
from .dtypes import literal, triton_dtype
from .table import TRITON


@TRITON.emits(OpKind.HISTOGRAM)
def histogram(e: Context, op: Op) -> None:
    """Lanes that the mask leaves out are counted nowhere, and elements that no lane chose are left alone."""
    attrs, dims = HistogramAttrs.of(op), op.values[0].dims
    tensor = e.plan.ir.tensor(attrs.tensor)
    sizes = [tensor.shape[axis] for axis in attrs.chosen]
    e.plan.guard(prod(sizes, start=Expr.of(1)).le(attrs.places))
    mask, place, counts, lane = _mask(e, op), e.fresh("place"), e.fresh("counts"), e.fresh("bin")
    e.writer.line(f"{place} = {_flat(e, dims, _place(e, op, sizes))}")
    masked = f", mask={_flat(e, dims, mask)}" if mask else ""
    e.writer.line(f"{counts} = tl.histogram({place}, {attrs.places}{masked})")
    e.writer.line(f"{lane} = {e.arange(Expr.of(attrs.places))}")
    added = f"{counts}.to({triton_dtype(tensor.dtype)})"
    if attrs.number is not None and attrs.number != 1:
        added = f"{added} * {literal(attrs.number, tensor.dtype)}"
    pointer = " + ".join([e.parameters.tensor(tensor), *_terms(e, op, lane, sizes)])
    e.writer.line(f"tl.atomic_add({pointer}, {added}, mask=({counts} != 0), sem='{attrs.sem}')")


def _mask(e: Context, op: Op) -> str:
    """The lanes that count: those inside that the author's mask lets through, and of truths those that hold."""
    mask = indexing.mask(e, op.values[0].dims, op)
    if HistogramAttrs.of(op).number is None:
        holds = f"({e.name(op.inputs[0])} != 0)"
        return f"{mask} & {holds}" if mask else holds
    return mask


def _place(e: Context, op: Op, sizes: Sequence[Expr]) -> str:
    """The number of the element that each lane chooses, counted along the chosen dimensions."""
    attrs, rank, terms = HistogramAttrs.of(op), len(op.values[0].dims), []
    for axis, step in zip(attrs.chosen, _steps(sizes), strict=True):
        item = attrs.index[axis]
        assert isinstance(item, ValueIndex)
        index = indexing.spread(e.as_dtype(op.inputs[item.input], "int32"), item.axes, rank)
        terms.append(indexing.times(e, index, step))
    return " + ".join(term for term in terms if term is not None)


def _terms(e: Context, op: Op, lane: str, sizes: Sequence[Expr]) -> Iterator[str]:
    """What leads from the tensor's first element to that of each bin."""
    attrs = HistogramAttrs.of(op)
    tensor = e.plan.ir.tensor(attrs.tensor)
    wide = e.plan.is_wide(tensor)
    parts = dict(zip(attrs.chosen, zip(_steps(sizes), sizes, strict=True), strict=True))
    for axis, (item, stride) in enumerate(zip(attrs.index, tensor.strides, strict=True)):
        is_first = axis == attrs.chosen[0]
        text = _part(e, lane, *parts[axis], is_first) if axis in parts else _one(e, op, item, wide)
        term = indexing.times(e, text, stride)
        if term is not None:
            yield term


def _steps(sizes: Sequence[Expr]) -> list[Expr]:
    """How many elements lie between neighbours along each of the chosen dimensions."""
    return [prod(sizes[n + 1 :], start=Expr.of(1)) for n in range(len(sizes))]


def _part(e: Context, lane: str, step: Expr, size: Expr, is_first: bool) -> str:
    """A bin's index along one of the chosen dimensions."""
    text = lane if step.constant == 1 else f"({lane} // {e.plan.text(step)})"
    return text if is_first else f"({text} % {e.plan.text(size)})"


def _one(e: Context, op: Op, item: IndexItem, wide: bool) -> str:
    """The element that the program names along a dimension: a number, or a tile of one lane."""
    match item:
        case TileIndex(tile, _):
            return indexing.index_text(e, op, TileIndex(tile, 0), 1, wide)
        case ValueIndex(position, axes) if axes:
            value = op.inputs[position]
            assert isinstance(value, Value)
            text = e.as_dtype(value, "int64" if wide else "int32")
            return text if len(value.dims) == 1 else f"tl.reshape({text}, [1])"
    return indexing.index_text(e, op, item, 1, wide)


def _flat(e: Context, dims: tuple[Dim, ...], text: str) -> str:
    """A text of such lanes, or that broadcasts to them, along one dimension: a histogram knows no order."""
    return text if len(dims) == 1 else f"tl.ravel(tl.broadcast_to({text}, {e.shape(dims)}))"
