"""Loads and stores of boxes by tensor descriptor: one address computation a box, done by the copy engine.

The engine fills with zero what lies outside the tensor and does not write there. Where lanes do not count for another
reason (a loop that ends before the tensor does, a fill other than zero), a load goes by pointers: replaced after it,
such lanes came out wrong on an H200 when the other operand of a product was moved by the engine too (Triton 3.6).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..expr import Expr
from ..ir.access import ALIGNMENT, boxed, covers, same_end
from ..ir.attributes import AccessAttrs, LoadAttrs, site_of
from ..ir.graph import ExprIndex, IndexItem, Op, SliceIndex, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import INT32_MAX, itemsize
from ..space.knobs import access_of
from .context import Context
from .parameters import Box, is_matrix


def wanted(e: Context, op: Op) -> bool:
    """Whether the config asks for a descriptor here and one does. The variant of a dynamic kernel whose strides may
    have any value goes by pointers, as do loads of lanes that the engine does not fill as they ask. In the one that
    assumes what boxes do and no more, all matrices are loaded by boxes or none is: by pointers, each element would have
    an address of its own.
    """
    if e.divisible == "none" and _has_open_strides(e, op):
        return False
    if e.divisible == "boxes" and not all(_asked(e, load) for load in e.plan.ir.walk() if _is_open_matrix(e, load)):
        return False
    return _asked(e, op)


def _has_open_strides(e: Context, op: Op) -> bool:
    """Whether only a launch knows where rows of the accessed tensor begin."""
    return any(s.constant is None for s in e.plan.ir.tensor(AccessAttrs.of(op).tensor).strides)


def _asked(e: Context, op: Op) -> bool:
    """A tile that has one row under this config has lost a dimension, and with it the box, which has two or more."""
    by_box = e.plan.choice(access_of(op), site_of(op)) == "descriptor" and e.box_order(op) is not None
    return by_box and (op.kind is OpKind.STORE or not needs_mask(e, op))


def _is_open_matrix(e: Context, op: Op) -> bool:
    return op.kind is OpKind.LOAD and _has_open_strides(e, op) and is_matrix(op)


def load(e: Context, op: Op) -> None:
    """Write a load of a box, reshaped and permuted where its dimensions are not the tile's."""
    out = op.output
    box, axes = box_of(e, op), axes_of(e, op)
    text = f"{box.name}.load([{', '.join(offsets(e, op))}])"
    if len(box.block) != len(axes):
        text = f"tl.reshape({text}, {e.shape(tuple(out.dims[a] for a in axes))})"
    if axes != sorted(axes):
        text = f"tl.permute({text}, ({', '.join(str(axes.index(n)) for n in range(len(axes)))}))"
    e.define(out, text, out.type.dtype)


def store(e: Context, op: Op) -> None:
    """Write a store of a box, for which the value is permuted and reshaped where its dimensions are not the box's."""
    box, axes = box_of(e, op), axes_of(e, op)
    value = e.as_dtype(op.inputs[0], box.tensor.dtype)
    if axes != sorted(axes):
        value = f"tl.permute({value}, ({', '.join(map(str, axes))}))"
    if len(box.block) != len(axes):
        value = f"tl.reshape({value}, [{', '.join(_sides(e, op))}])"
    e.writer.line(f"{box.name}.store([{', '.join(offsets(e, op))}], {value})")


def axes_of(e: Context, op: Op) -> list[int]:
    """Which of the tile's dimensions each dimension of its box is, without those of a single element."""
    return [i.axis for i in items_of(e, op) if not isinstance(i, ExprIndex | ValueIndex)]


def items_of(e: Context, op: Op) -> list[IndexItem]:
    """The indices of an access in the order of its box."""
    order = e.box_order(op)
    assert order is not None
    return [AccessAttrs.of(op).index[n] for n in order]


def _sides(e: Context, op: Op) -> Iterator[str]:
    """The sides of a box, as text that follows from the block sizes."""
    dims = boxed(op)
    for item in items_of(e, op):
        yield "1" if isinstance(item, ExprIndex | ValueIndex) else e.plan.extent_text(dims[item.axis].extent)


def block_of(e: Context, op: Op) -> tuple[int, ...]:
    """The sides of the box of this access."""
    dims = boxed(op)
    items = items_of(e, op)
    return tuple(1 if isinstance(i, ExprIndex | ValueIndex) else e.extent(dims[i.axis]) for i in items)


def box_of(e: Context, op: Op, pieces: int = 1, cut: int = -1) -> Box:
    """The descriptor of this access, noted as an argument, with what it assumes as guards. ``pieces``: of so many parts
    of its columns, one; ``cut``: the dimension of the box that columns are."""
    access, order = AccessAttrs.of(op), e.box_order(op)
    tensor, block = e.plan.ir.tensor(access.tensor), [*block_of(e, op)]
    block[cut] //= pieces
    assert order is not None
    for size in tensor.shape:
        e.plan.guard(Expr.of(1).le(size))
        if e.plan.is_open(size):
            e.plan.guard(size.le(INT32_MAX))  # boxes are counted in 32 bits, whatever the offset in bytes
    copied = e.is_copied(op)
    for stride in (tensor.strides[n] for n in order[:-1] if not copied):
        e.plan.guard((stride * itemsize(tensor.dtype) % ALIGNMENT).eq(0))
    for item, size in zip(access.index, tensor.shape, strict=True):
        if isinstance(item, TileIndex | SliceIndex) and covers(e.plan.ir, item, size):
            e.plan.guard(same_end(e.plan.ir, item, size))
    e.plan.guard(e.box_starts_aligned(op, order))
    return e.parameters.box(tensor, tuple(block), order, copied)


def offsets(e: Context, op: Op) -> list[str]:
    """The box's first element, as one text for each of its dimensions."""
    return [_offset(e, op, item) for item in items_of(e, op)]


def _offset(e: Context, op: Op, item: IndexItem) -> str:
    match item:
        case TileIndex(tile):
            begin = f"{e.tile(tile)}_begin"
            return f"{begin}.to(tl.int32)" if e.plan.ir.tiles[tile].wide else begin
        case SliceIndex(start, dim):
            first, part = _narrow(e, start), e.plan.begin(dim.extent)
            return first if not part else part if start.constant == 0 else f"{first} + {part}"
        case ExprIndex(value):
            return _narrow(e, value)
        case ValueIndex(position):
            return e.as_dtype(op.inputs[position], "int32")


def _narrow(e: Context, value: Expr) -> str:
    text = e.plan.text(value)
    return f"tl.cast({text}, tl.int32)" if e.plan.is_open(value) else text


def needs_mask(e: Context, op: Op) -> bool:
    """Whether some dimension of a load has lanes that do not count and that the engine fills otherwise than asked."""
    sizes = e.plan.ir.tensor(AccessAttrs.of(op).tensor).shape
    return any(
        e.plan.is_masked(op.output.dims[item.axis])
        and (LoadAttrs.of(op).other != 0 or not covers(e.plan.ir, item, size))
        for item, size in zip(AccessAttrs.of(op).index, sizes, strict=True)
        if isinstance(item, TileIndex | SliceIndex)
    )
