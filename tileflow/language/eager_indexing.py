"""Where ``x[...]`` reads and writes in the eager meaning, lane by lane, by the language's own rules.

A slice between block sizes or scalars of the kernel is as long as it says, and a shifted tile as its tile. Whatever
lies outside the tensor reads 0 and is not written; but a dimension of size 1 is read as one by tiles of longer loops
and by ints that are computed from them. Slices between plain ints are clipped, as in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..errors import ShapeError, TraceError
from ..lazy_dataclass import dataclass
from .alignment import check_order, facing, stood
from .dim_identity import BLOCK, Identity, Lanes, counted, is_elastic, lanes_of, tag
from .rules import (
    ALIGNED,
    BACKWARDS,
    BACKWARDS_IN_A_TILE,
    FORWARDS,
    FORWARDS_IN_A_TILE,
    INDEX,
    MEET,
    ONCE,
    OUTER_CONSTANTS,
    flatten,
    instead_of_item,
    lane_index,
    loaded_index,
    most_behind,
    named_twice,
    once_hint,
)


class DeviceBool(int):
    """A comparison of an int that a kernel computes: a bool of Python, and to torch's functions a tensor."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = {name: _as_tensor(value) for name, value in (kwargs or {}).items()}
        return func(*map(_as_tensor, args), **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(_as_tensor(self), name)  # (i > 0).float()

    def __repr__(self) -> str:
        return str(bool(self))

    def __invert__(self) -> DeviceBool:
        return DeviceBool(not self)


def _as_tensor(value: Any) -> Any:
    return torch.tensor(bool(value)) if isinstance(value, DeviceBool) else value


class TileEnd(NamedTuple):
    """Where a tile begins, or ends (``is_last``), and how far behind that."""

    tile: TileLike
    is_last: bool
    shift: int


class DeviceInt(int):
    """An int that a kernel computes, or a block size: slices that it bounds are as long as they say."""

    lanes: Lanes | None = None  # of dimensions of this length, once there are any
    is_lone: bool = False  # whether it comes of tiles of loops over one element alone, and so broadcasts to nothing
    end_of: TileEnd | None = None  # of what a tile begins or ends at, which a slice between the two is

    @classmethod
    def of_loop(cls, value: int, length: int) -> DeviceInt:
        """Where a tile begins or ends, or its number, in a loop over so many elements."""
        found = cls(value)
        found.is_lone = length == 1
        return found


_SHIFTS = ("__add__", "__radd__", "__sub__")


def _operator(name: str) -> Any:
    plain = getattr(int, name)

    def apply(self: DeviceInt, *others: Any) -> Any:
        value = plain(self, *others)
        if type(value) is not int:
            return value
        found = DeviceInt(value)
        found.is_lone = self.is_lone and all(o.is_lone for o in others if isinstance(o, DeviceInt))
        if self.end_of is not None and name in _SHIFTS:
            found.end_of = self.end_of._replace(shift=self.end_of.shift + value - self)
        return found

    return apply


def _logical(name: str) -> Any:
    plain = getattr(int, name)

    def apply(self: DeviceBool, other: Any) -> Any:
        value = plain(self, other)
        return DeviceBool(value) if isinstance(other, (bool, DeviceBool)) else value

    return apply


def _comparison(name: str) -> Any:
    plain = getattr(int, name)

    def apply(self: DeviceInt, other: Any) -> Any:
        value = plain(self, other)
        return value if value is NotImplemented else DeviceBool(value)

    return apply


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "mod", "rmod", "neg"):
    setattr(DeviceInt, f"__{_name}__", _operator(f"__{_name}__"))
for _name in ("and", "rand", "or", "ror", "xor", "rxor"):
    setattr(DeviceBool, f"__{_name}__", _logical(f"__{_name}__"))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(DeviceInt, f"__{_name}__", _comparison(f"__{_name}__"))


def lanes_by(size: Any) -> Lanes | None:
    """The lanes of a dimension as long as a tile, or as a block size says, the same ones each time; None for other
    sizes."""
    if isinstance(size, TileLike):
        return size.lanes
    if not isinstance(size, DeviceInt):
        return None
    if size.lanes is None:
        size.lanes = Lanes(elastic=True)
    return size.lanes


def tile_between(start: Any, stop: Any) -> tuple[TileLike, int] | None:
    """The tile that ``tile.begin + shift`` to ``tile.end + shift`` is, and the shift; None where no tile is it."""
    first, last = (bound.end_of if isinstance(bound, DeviceInt) else None for bound in (start, stop))
    if first is None or last is None or first.tile is not last.tile or first.shift != last.shift:
        return None
    return (first.tile, first.shift) if last.is_last and not first.is_last else None


def _is_tile(item: Any) -> bool:
    return isinstance(item, TileLike) or (isinstance(item, slice) and tile_between(item.start, item.stop) is not None)


class TileLike:
    """What an index takes as a tile: its lanes ``begin`` to ``end``, which ``block_size`` would be at most."""

    __slots__ = ()
    begin: int
    end: int
    block_size: int
    limit: int
    lanes: Lanes

    def __add__(self, offset: int) -> TileLike:
        """The same tile, shifted."""
        raise NotImplementedError


@dataclass(slots=True)
class _Along:
    """The indices along one dimension of the tensor, and the axes of the result that they lie in."""

    index: torch.Tensor
    axes: tuple[int, ...]
    inside: torch.Tensor | None = None
    is_tile: bool = False


class IndexedElements:
    """The elements that an index names. ``shape``: of the result, with the axes that None inserts; ``lanes``: what its
    dimensions are. ``reads``: of a load, which broadcasts sizes of 1. ``masked``: a mask of the author's says which
    count. Raises ShapeError for a tile of a loop up to a size that is larger than the tensor's."""

    def __init__(self, tensor: torch.Tensor, index: Any, *, reads: bool = False, masked: bool = False) -> None:
        self.reads, self.masked = reads, masked
        self.tensor = tensor.view(torch.uint8) if tensor.dtype is torch.float4_e2m1fn_x2 else tensor
        self.shape: list[int] = []
        self._lanes: list[Lanes | None] = []
        self._elastic: dict[int, int] = {}  # axes whose length may be another than a block, and the block's
        self._groups: dict[Any, tuple[int, ...]] = {}
        items = _facing(_whole(tensor, flatten(index, is_traced, is_size)))
        self.is_block = any(map(_is_tile, items))  # whether it is of a loop's tile
        self._vectors = [i for i in items if isinstance(i, torch.Tensor) and i.ndim]
        self._along: list[_Along] = []
        self._plain: list[Any] = []  # the index as torch's own basic one, as far as it is
        self._named: list[Any] = []  # the same of ints and slices alone, by which torch has a view
        self.is_outside = False  # whether an int lies outside the tensor
        for item in items:
            if item is None:
                self._axis(1, None)
                self._plain.append(None)
                self._named.append(None)
            else:
                self._along.append(self._item(item, tensor.shape[len(self._along)]))

    @property
    def lanes(self) -> Identity:
        """Whose lanes each dimension of the result is, in order."""
        return tuple(self._lanes)

    @property
    def kept(self) -> tuple[bool, ...]:
        """Of each dimension of the tensor, whether the index leaves it."""
        return tuple(bool(along.axes) for along in self._along)

    def read(self, mask: torch.Tensor | None = None, other: Any = 0) -> torch.Tensor:
        """A copy of the elements; ``other`` outside the tensor, and where ``mask`` is false."""
        if mask is None and self._is_plain():
            return tag(self.tensor[tuple(self._plain)].clone(), self.lanes)
        indices, inside = self.everywhere(mask)
        values = self.tensor[indices] if self.tensor.numel() else self.tensor.new_zeros(self.shape)
        other = self._opposite(other)
        kept = values if inside is None else torch.where(inside, values, other).to(values.dtype)
        return tag(kept.expand(self.shape), self.lanes)

    def view(self) -> torch.Tensor | None:
        """The elements in memory, where the index is of ints and slices, as a view of torch's; None of others. A part
        outside the tensor has no memory of the tensor's."""
        if sum(i is not None for i in self._named) < self.tensor.ndim:
            return None
        if self.is_outside:
            return self.tensor.new_zeros(self.shape)
        return self.tensor[tuple(self._named)]

    def write(self, value: Any, mask: torch.Tensor | None = None) -> None:
        """Lanes that ``value`` or the tensor does not have stay as they are, and those where ``mask`` is false."""
        made = torch.as_tensor(value, device=self.tensor.device)
        value = tag(made.to(self.tensor.dtype), lanes_of(made))
        self.check_once([value])
        value = self.fit(stood(value, self.lanes, self.shape))
        if value.ndim > len(self.shape):
            rows, loaded = lane_index("tile", len(self.shape) - 1), loaded_index("tile", len(self.shape) - 1)
            raise ShapeError(
                "a stored tile must broadcast to the index",
                got=f"{tuple(value.shape)} for {tuple(self.shape)}",
                hint=f"one element for each lane: x[{rows}, {loaded}]; x[tile, {loaded}] is all pairs",
            )
        check_order(value, self.lanes, self.shape)
        if _met([tuple(value.shape), tuple(self.shape)]) != tuple(self.shape):
            raise ShapeError(MEET, got=f"{tuple(value.shape)} and {tuple(self.shape)}", hint=ALIGNED)
        if mask is None and self._is_plain():
            self.tensor[tuple(self._plain)] = value.expand(self.shape)
            return
        indices, inside = self.everywhere(mask)
        if inside is None:
            self.tensor[indices] = value.expand(self.shape)
            return
        *found, inside = torch.broadcast_tensors(*indices, inside.expand(self.shape))  # type: ignore[no-untyped-call]
        self.tensor[tuple(i[inside] for i in found)] = value.expand(self.shape)[inside]

    def _opposite(self, operand: Any) -> Any:
        """A mask, or what stands for elements that it leaves out, a tile's dimension opposite the index's."""
        return stood(operand, self.lanes, self.shape) if isinstance(operand, torch.Tensor) else operand

    def check_once(self, values: Sequence[Any]) -> None:
        """Raise ShapeError where elements are written for pairs of a loop's lanes that nobody wrote as pairs."""
        lanes = [None if is_elastic(own) else own for own in self._lanes]
        axis = named_twice(lanes, [along.axes for along in self._along])
        if axis is None:
            return
        own = lanes[axis]
        of_tiles = [a for a in self._along if a.is_tile and lanes[a.axes[0]] is own]
        have_both = all(isinstance(v, torch.Tensor) and lanes_of(v).count(own) > 1 for v in values)
        if len(of_tiles) < lanes.count(own) or not have_both:
            behind = most_behind([along.axes for along in self._along], [lane is own for lane in lanes])
            raise ShapeError(ONCE, got="two dimensions of the index are of one loop", hint=once_hint("t", behind))

    def everywhere(self, mask: torch.Tensor | None = None) -> tuple[tuple[torch.Tensor, ...], torch.Tensor | None]:
        """An index tensor for each dimension of the tensor, and which lanes count (None: all), by ``mask`` too. They
        broadcast to ``shape``; what does not count names an element all the same."""
        inside = counted(self.lanes, self.shape, self.tensor.device)
        if mask is not None:
            mask = self._opposite(mask)
            inside = mask if inside is None else inside & mask
        for along in self._along:
            if along.inside is not None:
                mask = self._spread(along.inside, along.axes)
                inside = mask if inside is None else inside & mask
        indices = [self._spread(a.index, a.axes) for a in self._along]
        if inside is not None:
            indices = [i.clamp(0, max(n - 1, 0)) for i, n in zip(indices, self.tensor.shape, strict=True)]
        return tuple(indices), inside

    def _is_plain(self) -> bool:
        named = sum(i is not None for i in self._plain)
        return named == self.tensor.ndim and counted(self.lanes, self.shape, self.tensor.device) is None

    def fit(self, value: torch.Tensor) -> torch.Tensor:
        """``value`` against the index: where only one of both is a whole block, the lanes that both have."""
        for axis, block in self._elastic.items():
            position = axis - (len(self.shape) - value.ndim)
            if position < 0 or value.shape[position] in (1, self.shape[axis]):
                continue
            if value.shape[position] > self.shape[axis] and value.shape[position] == block:
                value = value.narrow(position, 0, self.shape[axis])
            elif self.shape[axis] == block and value.shape[position] < block:
                self._shorten(axis, value.shape[position])
        return value

    def _shorten(self, axis: int, length: int) -> None:
        self.shape[axis] = length
        self._plain = []
        for along in self._along:
            if along.axes == (axis,):
                along.index = along.index[:length]
                along.inside = None if along.inside is None else along.inside[:length]

    # ---- items ----------------------------------------------------------------------------------

    def _axis(self, length: int, lanes: Lanes | None) -> int:
        self.shape.append(length)
        self._lanes.append(lanes)
        return len(self.shape) - 1

    def _item(self, item: Any, size: int) -> _Along:
        if isinstance(item, TileLike) and size == 1 < item.limit and item.begin == item.lanes.begin:
            return self._one(item)
        if isinstance(item, TileLike):
            if not self.masked and item.begin == item.lanes.begin:
                self._check_loop(item.limit, size)
            return self._run(item.begin, item.end, size, item.lanes, item.block_size)
        if isinstance(item, slice):
            return self._slice(item, size)
        if isinstance(item, torch.Tensor):
            return self._ints(item, size)
        if not isinstance(item, int) or isinstance(item, bool):
            raise TraceError(INDEX, got=f"{item!r}"[:200], hint=instead_of_item(item, is_size))
        if isinstance(item, DeviceInt):
            item = 0 if size == 1 and self.reads and not item.is_lone and not self._is_a_loops() else item
            if not 0 <= item < size:
                return self._scalar(torch.tensor(int(item), device=self.tensor.device), size)
        if not -size <= item < size:
            raise ShapeError("an index must lie inside the tensor", got=f"{item} in a dimension of {size}")
        self._plain.append(int(item))
        self._named.append(int(item))
        return _Along(torch.tensor(item % size, device=self.tensor.device), ())

    def _is_a_loops(self) -> bool:
        """Whether the dimension that comes next is a loop's tile: at the loop's end it may have one element."""
        own = lanes_of(self.tensor)[len(self._along)]
        return own is not None and not own.elastic

    def _one(self, tile: TileLike) -> _Along:
        """A dimension of size 1 by a tile of a longer loop: itself, which broadcasts."""
        if not self.reads:
            raise ShapeError("a tile must not run past the end of a tensor", got=f"up to {tile.limit} in a size of 1")
        self._plain.append(slice(0, 1))
        return _Along(torch.zeros(1, dtype=torch.long, device=self.tensor.device), (self._axis(1, None),))

    def _check_loop(self, limit: int, size: int) -> None:
        """A loop that host code bounds stays inside the tensor, as a launch checks; one that the kernel bounds may end
        behind it."""
        if limit > size and not isinstance(limit, DeviceInt):
            raise ShapeError(
                "a tile must not run past the end of a tensor",
                got=f"a loop up to {limit} in a dimension of {size}",
                where=f"a tensor of shape {tuple(self.tensor.shape)}",
                hint="loop over tfl.tile(tensor.size(...)), or use extra_mask=",
            )

    def _checked(self, index: torch.Tensor, axes: tuple[int, ...], size: int) -> _Along:
        """Indices that the kernel computed: those outside the tensor do not count."""
        inside = (index >= 0) & (index < size)
        return _Along(index, axes, None if bool(inside.all()) else inside)

    def _scalar(self, index: torch.Tensor, size: int) -> _Along:
        """One element by a number that the kernel computed."""
        self.is_outside = self.is_outside or not 0 <= int(index) < size
        self._named.append(int(index))
        return self._checked(index, (), size)

    def _slice(self, item: slice, size: int) -> _Along:
        if item.step is not None and item.step < 1:
            if hasattr(self.tensor, "tileflow_kept"):
                raise ShapeError(FORWARDS_IN_A_TILE, got=item.step, hint=BACKWARDS_IN_A_TILE)
            raise TraceError(FORWARDS, got=item.step, hint=BACKWARDS)
        between = tile_between(item.start, item.stop) if item.step in (None, 1) else None
        if between is not None:
            tile, shift = between
            return self._item(tile + shift if shift else tile, size)
        if item.step in (None, 1) and any(
            isinstance(end, (DeviceInt, torch.Tensor)) for end in (item.start, item.stop)
        ):
            begin = 0 if item.start is None else int(item.start)
            end = size if item.stop is None else int(item.stop)
            self._named += [slice(begin, end)] if 0 <= begin <= end <= size else []
            return self._run(begin, end, size, BLOCK, end - begin)
        begin, end, step = item.indices(size)
        whole = len(self._along)
        own = lanes_of(self.tensor)[whole] if (begin, end, step) == (0, size, 1) else None
        self._plain.append(slice(begin, max(end, begin), step))
        self._named += [slice(begin, max(end, begin))] if step == 1 else []
        index = torch.arange(begin, max(end, begin), step, device=self.tensor.device)
        return _Along(index, (self._axis(len(index), own),))

    def _run(self, begin: int, end: int, size: int, lanes: Lanes | None, block: int) -> _Along:
        index = torch.arange(begin, end, device=self.tensor.device)
        axis = self._axis(len(index), lanes)
        self._elastic[axis] = block
        is_inside = begin >= 0 and end <= size
        if is_inside:
            self._plain.append(slice(int(begin), int(end)))
        inside = None if is_inside else (index >= 0) & (index < size)
        return _Along(index, (axis,), inside, lanes is not None and not is_elastic(lanes))

    def _ints(self, item: torch.Tensor, size: int) -> _Along:
        if item.dtype == torch.bool or item.dtype.is_floating_point:
            raise TraceError(
                "a tile of indices holds ints",
                got=item.dtype,
                hint="boolean masks select with torch.where or extra_mask=",
            )
        if not item.ndim:
            return self._scalar(item.long(), size)
        together = any(v.ndim > 1 for v in self._vectors)
        own = lanes_of(item)[0]
        if not together and (own is None or own is BLOCK or own.elastic) and OUTER_CONSTANTS.get():
            return self._checked(item.long(), (self._axis(len(item), own),), size)
        key = None if together else (*(lanes for lanes in lanes_of(item) if lanes is not BLOCK), item.shape)
        if key not in self._groups:
            members = self._vectors if together else [item]
            shape = _met([tuple(v.shape) for v in members])
            lanes = [
                _first(lanes_of(v)[axis - len(shape)] for v in members if v.ndim >= len(shape) - axis)
                for axis in range(len(shape))
            ]
            self._groups[key] = tuple(self._axis(n, own) for n, own in zip(shape, lanes, strict=True))
        return self._checked(item.long(), self._groups[key][-item.ndim :], size)

    def _spread(self, index: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
        """``index``, which lies in ``axes``, as a tensor that broadcasts over the result."""
        shape = [1] * len(self.shape)
        for axis, length in zip(axes, index.shape, strict=True):
            shape[axis] = length
        return index.reshape(shape)


def _met(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that indices broadcast to. Raises ShapeError."""
    try:
        return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise ShapeError(MEET, got=" and ".join(map(str, shapes)), hint=ALIGNED) from error


def _facing(items: Sequence[Any]) -> list[Any]:
    """The items of an index, a tile's dimension of one opposite the same tile's of the widest."""
    placed = iter(facing([i for i in items if isinstance(i, torch.Tensor)]))
    return [next(placed) if isinstance(i, torch.Tensor) else i for i in items]


def _first(found: Any) -> Lanes | None:
    return next((lanes for lanes in found if lanes is not None), None)


def listed(index: Any) -> Any:
    """The index that one of the language's functions is given: a list is one of several items."""
    return tuple(index) if isinstance(index, list) else index


def is_traced(item: Any) -> bool:
    """Whether an item of an index is a tile, or what a kernel computes."""
    return isinstance(item, (TileLike, torch.Tensor, DeviceInt))


def is_size(item: Any) -> bool:
    """Whether an item of an index is an int that Python or a launch knows."""
    return isinstance(item, int) and not isinstance(item, (bool, DeviceInt, DeviceBool))


def _whole(tensor: torch.Tensor, items: list[Any]) -> list[Any]:
    used = sum(1 for i in items if i is not None and i is not Ellipsis)
    if used > tensor.ndim:
        raise ShapeError(f"an index of this tensor has at most {tensor.ndim} items", got=used)
    at = next((n for n, i in enumerate(items) if i is Ellipsis), len(items))
    return items[:at] + [slice(None)] * (tensor.ndim - used) + items[at + 1 :]
