"""Addresses and masks of loads and stores."""

from __future__ import annotations

from ..expr import Expr
from ..ir.attributes import AccessAttrs
from ..ir.graph import ExprIndex, Op, SliceIndex, TileIndex, ValueIndex
from ..ir.types import Dim, Value
from .context import Context
from .dtypes import NARROW_INTS


def pointer(e: Context, op: Op, dims: tuple[Dim, ...], wide: bool = False) -> str:
    """The text of the block of pointers that ``op`` reads or writes; ``wide``: by 64-bit offsets in any case."""
    tensor = e.plan.ir.tensor(AccessAttrs.of(op).tensor)
    wide = e.plan.is_wide(tensor) or wide
    terms = []
    for item, stride in zip(AccessAttrs.of(op).index, tensor.strides, strict=True):
        term = times(e, index_text(e, op, item, len(dims), wide), stride)
        if term is not None:
            terms.append(term)
    return " + ".join([e.parameters.tensor(tensor), *terms])


def index_text(e: Context, op: Op, item: object, rank: int, wide: bool = False) -> str:
    """The indices along one tensor dimension, shaped to broadcast over the result; ``wide``: of 64 bits."""
    convert = ".to(tl.int64)" if wide else ""
    match item:
        case TileIndex(tile, axis):
            return e.lanes(f"{e.tile(tile)}_idx", axis, rank) + ("" if e.plan.ir.tiles[tile].wide else convert)
        case SliceIndex(start, dim, axis):
            lanes = e.lanes(e.arange(dim.extent), axis, rank) + convert
            return lanes if start == Expr.of(0) else f"({e.plan.text(start)} + {lanes})"
        case ExprIndex(size):
            if size.constant is not None:
                return str(size.constant)
            return f"tl.cast({e.plan.text(size)}, tl.int64)" if wide else f"({e.plan.text(size)})"
        case ValueIndex(position, axes):
            value = op.inputs[position]
            # a number beside an int of 8 or 16 bits takes its dtype, in which the product with a stride wraps
            is_narrow = e.held(value) in NARROW_INTS
            text = e.as_dtype(value, "int64" if wide else "int32") if wide or is_narrow else e.name(value)
            return spread(text, axes, rank) if axes else text
    raise AssertionError(item)


def spread(text: str, axes: tuple[int, ...], rank: int) -> str:
    """A text whose dimensions are these axes of ``rank`` dimensions."""
    if axes == tuple(range(rank)):
        return text
    return f"{text}[{', '.join(':' if a in axes else 'None' for a in range(rank))}]"


def times(e: Context, index: str, stride: Expr) -> str | None:
    """An index times a stride, in elements; None for an index that is 0."""
    if stride.constant == 1:
        return index
    if index == "0":
        return None
    return f"{index} * {e.plan.text(stride) if stride.constant is None else stride.constant}"


def mask(e: Context, dims: tuple[Dim, ...], op: Op | None = None) -> str:
    """The text of the mask over ``dims``, with what ``op`` leaves out itself; empty where every lane counts."""
    ends = {} if op is None else _outside(e, op, len(dims))
    parts = []
    for axis, dim in enumerate(dims):
        parts += [e.lane_mask(dims, axis)] if e.plan.is_masked(dim) else []
        parts += ends.pop(axis, [])  # beside the mask of the same lanes, so that a loop over others computes both once
    parts += [text for texts in ends.values() for text in texts]
    if op is not None and AccessAttrs.of(op).has_mask:
        explicit = op.inputs[-1]
        assert isinstance(explicit, Value)
        parts.append(e.name(explicit))
    return " & ".join(parts)


def _outside(e: Context, op: Op, rank: int) -> dict[int, list[str]]:
    """Comparisons with the ends of the tensor, where the config does not settle that an index stays inside: of tiles by
    their axis, all others by the rank."""
    parts: dict[int, list[str]] = {}
    for item, size in zip(AccessAttrs.of(op).index, e.plan.ir.tensor(AccessAttrs.of(op).tensor).shape, strict=True):
        if not isinstance(item, SliceIndex) and item.inside is not None:
            index, own = (
                index_text(e, op, item, rank),
                parts.setdefault(item.axis if isinstance(item, TileIndex) else rank, []),
            )
            if not e.plan.holds(item.inside.below):
                own.append(f"({index} >= 0)")
            if not e.plan.holds(item.inside.above):
                own.append(f"({index} < {e.plan.text(size)})")
    return parts
