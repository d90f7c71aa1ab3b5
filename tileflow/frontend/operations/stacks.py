"""The traced meaning of stacks: addresses and offsets as tiles of int64, and Triton's own loads and stores of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch

from ...errors import ShapeError, TraceError
from ...expr import Expr
from ...ir.attributes import ArangeAttrs, WhereMaskAttrs
from ...ir.graph import ExprIndex, IndexItem, SliceIndex, TileIndex, ValueIndex, may_lie_outside
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType, Value
from ..dimensions import show
from ..language_registry import register_language
from ..resolve import Resolved, resolve
from ..trace import Tracer
from ..values import TensorRef, TileProxy, TileValue
from .escapes import foreign
from .triton_text import ARGUMENT

_ADDRESS, _OFFSET, _MASK, _VALUE, _EXAMPLE = (
    ARGUMENT.format(name) for name in ("address", "offset", "mask", "value", "example")
)
_POINTER = f"tl.cast({_ADDRESS}, {_EXAMPLE}.dtype) + {_OFFSET}"


class StackRef:
    """A stack in device code: of the tensors at ``pointers``, that are as ``like`` is."""

    __slots__ = ("like", "pointers", "tracer")

    def __init__(self, tracer: Tracer, like: TensorRef, pointers: TileValue) -> None:
        self.tracer, self.like, self.pointers = tracer, like, pointers

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the tensors' elements."""
        return self.like.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the stack, then those of a tensor of it."""
        return (*self.pointers.shape, *self.like.shape)

    def __getitem__(self, index: Any) -> TileValue:
        return load_stack(self.tracer, self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        store_stack(self.tracer, self, index, value)

    def __repr__(self) -> str:
        return f"a stack of {show(self.pointers.value.dims)} tensors like {self.like.path}"


@register_language("stacktensor_like")
def stacktensor_like(t: Tracer, example: Any, dev_ptrs: Any) -> StackRef:
    """A stack. Raises TraceError unless ``example`` is a captured tensor and ``dev_ptrs`` a tile of addresses."""
    if not isinstance(example, TensorRef):
        raise TraceError(
            "a stack's example is a tensor that the kernel captures",
            got=repr(example)[:200],
            where=t.location(),
            hint="pass one of its tensors as an argument",
        )
    if not isinstance(dev_ptrs, TileValue) or dev_ptrs.value.type.dtype not in ("int64", "uint64"):
        raise TraceError(
            "a stack's addresses are a tile of int64 or uint64",
            got=repr(dev_ptrs)[:200],
            where=t.location(),
            hint="load them: pointers[:], of torch.tensor([x.data_ptr() for x in tensors])",
        )
    return StackRef(t, example, dev_ptrs)


def load_stack(t: Tracer, stack: StackRef, index: Any, mask: Any = None, other: Any = 0) -> TileValue:
    """What each tensor of the stack holds at ``index``, with the stack's dimensions in front."""
    if not isinstance(other, (bool, int, float)):
        raise TraceError("a load through a stack fills with a number", got=repr(other)[:200], where=t.location())
    resolved = resolve(t, stack.like, index, reads=True, masked=mask is not None)
    place = _Place.of(t, stack, resolved, (*stack.pointers.value.dims, *resolved.dims), mask)
    dtype = stack.like.dtype_name
    text, like = f"tl.load({_POINTER}, mask={_MASK})", t.full(place.dims, 0, dtype)
    found: TileValue = foreign(t, text, place.arguments(stack), like, ())
    found = t.cast(t.pointwise("where", place.mask, found, other), dtype)
    for axis in resolved.new_axes:
        found = found.unsqueeze(len(stack.pointers.value.dims) + axis)
    return found


def store_stack(t: Tracer, stack: StackRef, index: Any, value: Any, mask: Any = None) -> None:
    """Store to each tensor of the stack its part of a value that broadcasts to the stack and the index."""
    resolved = resolve(t, stack.like, index, reads=False, masked=mask is not None)
    if resolved.new_axes:
        raise TraceError(
            "a store through a stack names dimensions of its tensors", got="None in the index", where=t.location()
        )
    operand = t.operand(value)
    dtype = stack.like.dtype_name
    tile = t.cast(value, dtype) if isinstance(operand, Value) else t.full((), operand, dtype)
    dims = (*stack.pointers.value.dims, *resolved.dims)
    merged = t.broadcast([dims, tile.value.dims])
    if [d.extent for d in merged] != [d.extent for d in dims]:
        raise ShapeError(
            "what is stored through a stack broadcasts to the stack's dimensions and the index's",
            got=f"{show(tile.value.dims)} for {show(dims)}",
            where=t.location(),
        )
    place = _Place.of(t, stack, resolved, merged, mask)
    named = {**place.arguments(stack), "value": t.expand(tile, merged)}
    foreign(t, f"tl.store({_POINTER}, {_VALUE}, mask={_MASK})", named, None, ())


@dataclass(frozen=True, slots=True)
class _Place:
    """The elements that an access names: tiles of ``dims``."""

    dims: tuple[Dim, ...]
    address: TileValue
    offset: TileValue
    mask: TileValue

    @staticmethod
    def of(t: Tracer, stack: StackRef, resolved: Resolved, dims: tuple[Dim, ...], mask: Any) -> _Place:
        rank = len(resolved.dims)
        address = t.cast(stack.pointers, "int64")
        for _ in range(rank):
            address = address.unsqueeze(-1)
        offset: Any = t.full((), 0, "int64")
        counts = [_lanes(t, dims)] + ([] if mask is None else [t.cast(mask, "bool")])
        for axis, item in enumerate(resolved.items):
            along = _along(t, resolved, item, rank)
            offset = offset + t.cast(along, "int64") * t.size(stack.like.strides_[axis])
            if may_lie_outside(item):
                counts.append((along >= 0) & (along < t.size(stack.like.dims[axis])))
        every = reduce(lambda a, b: t.pointwise("bitwise_and", a, b), counts)
        return _Place(dims, *(t.expand(tile, dims) for tile in (address, offset, every)))

    def arguments(self, stack: StackRef) -> dict[str, Any]:
        """What the text is given. The example says what kind of pointer an address is, and with which tensor's accesses
        those of the stack stay in order."""
        return {"address": self.address, "offset": self.offset, "mask": self.mask, "example": stack.like}


def _lanes(t: Tracer, dims: tuple[Dim, ...]) -> TileValue:
    """Which lanes count: those of tiles that are cut short and of padded registers do not."""
    every = t.full(dims, True, "bool")
    if not dims:
        return every
    axes = WhereMaskAttrs(tuple(range(len(dims))))
    return t.emit(OpKind.WHERE_MASK, (every.value, False), TileType("bool", dims), axes)


def _along(t: Tracer, resolved: Resolved, item: IndexItem, rank: int) -> TileValue:
    """The indices of one item, with dimensions of 1 where the index's others are."""
    axes: tuple[int, ...]
    match item:
        case TileIndex(name, axis):
            lanes, axes = TileProxy(name, t, t.scopes[-1], Expr.of(0)).index, (axis,)
        case SliceIndex(start, dim, axis):
            lanes, axes = t.emit(OpKind.ARANGE, (), TileType("int32", (dim,)), ArangeAttrs(start)), (axis,)
        case ValueIndex(position, own):
            value = resolved.inputs[position]
            lanes, axes = t.wrap(value) if isinstance(value, Value) else t.full((), value, "int64"), own
        case ExprIndex(value):
            return t.cast(t.size(value), "int64")
    if axes:
        for axis in (a for a in range(rank) if a not in axes):
            lanes = lanes.unsqueeze(axis)
    return lanes
