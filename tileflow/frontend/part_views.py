"""Names of parts of tensors that the kernel stores through: ``ob = out[b]``, and then ``ob[t] = value``.

To torch ``ob`` is a view. Brackets on a tensor load what they name: most parts are read as a whole, and a copy of what
is overwritten later stays what it was. So a trace that meets a store through a tile notes where the text takes the part
that the tile holds (:class:`tileflow.frontend.taken.Taken`), and begins again: the part is a :class:`PartRef`
there, and an index of it one of the tensor. What is read of it is loaded where it is read, after the stores before.

A view is what ints and slices name, and a view of that. A block by a loop's tile lies in registers, and what a tile of
ints names is a copy in torch too: stores into them stay refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from types import FrameType
from typing import Any

import torch

from ..errors import TraceError
from ..expr import Expr
from ..ir.graph import IndexItem, SliceIndex, ValueIndex
from ..language.captured_views import BY_ITEM, by_item, spelled_view
from ..language.in_place import is_in_place
from ..language.rules import and_the_index, flatten, outside
from ..runtime import views
from .in_place import changed
from .loaded_tiles import Part, Run, is_number
from .part_shapes import shaped, sizes_of, torch_has
from .parts import Access, joined
from .resolve import Resolved, is_size, is_traced, items_of, resolve
from .syntax_registry import SYNTAX, register_syntax
from .taken import Loaded, Taken
from .trace import Tracer
from .values import FACTORIES, TensorRef, TileProxy, TileValue

_BY_INDEX = frozenset({"select", "narrow", "squeeze", "chunk", "split", "unbind"})
INSIDE = "what is stored through a part of a tensor is known to lie inside it"


class PartRef(TensorRef):
    """A part of a captured tensor, which is read and stored by index, as the tensor is. Where no index says which, it
    stands for all of its elements as they are then."""

    __slots__ = ("part",)
    is_part = True

    def __init__(self, t: Tracer, part: Part) -> None:
        runs = [(part.items[axis], part.ref.strides_[axis]) for axis in part.axes]
        dims, strides = tuple(run.size for run, _ in runs), tuple(stride for _, stride in runs)
        super().__init__(part.ref.path, part.ref.dtype_name, dims, strides, t, part.ref.take_view)
        self.part, self.is_whole = part, True

    def index_of(self, index: Any, is_masked: bool = False) -> tuple[Any, ...] | None:
        """The tensor's index for one of the part; None where it may name elements beside the part."""
        items = items_of(self.tracer, self, index)
        return joined(self.tracer, self.part, items, Access(is_memory=True, is_masked=is_masked))

    def place(self, index: Any, is_masked: bool) -> tuple[TensorRef, tuple[Any, ...]]:
        """The tensor, and where it is stored to. Raises TraceError where the index may name elements beside the
        part."""
        found = self.index_of(index, is_masked)
        if found is None:
            raise TraceError(
                INSIDE,
                got=f"{index!r} of {self!r}"[:200],
                where=self.tracer.location(),
                hint=f"loop over the part's own sizes, or store by one index of the tensor: {self.path}[...] = value",
            )
        return self.part.ref, found

    def all(self) -> TileValue:
        """All of its elements, as they are now."""
        found: TileValue = SYNTAX["load"](self.tracer, self, (slice(None),) * len(self.dims))
        return found

    def viewed(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """A view of the part; of what torch would copy, the tile that it is in registers."""
        if name == "view" and any(isinstance(arg, torch.dtype) for arg in (*args, *kwargs.values())):
            return PartRef(self.tracer, Part(self.part.ref.viewed(name, *args, **kwargs), self.part.items))
        found = self._by_index(name, *args, **kwargs) if name in _BY_INDEX else self._shaped(name, *args, **kwargs)
        if found is not None:
            return found
        tile = getattr(self.all(), name)
        return tile if name in views.PROPERTIES else tile(*args, **kwargs)

    def _shaped(self, name: str, *args: Any, **kwargs: Any) -> PartRef | None:
        found = shaped(self.tracer, self.part, name, self._words(name, args, kwargs))
        return None if found is None else PartRef(self.tracer, found)

    def _change(self, name: str, /, *args: Any, **kwargs: Any) -> PartRef:
        """What a method that changes a tensor in place makes of the part, stored there."""
        everywhere = (slice(None),) * len(self.dims)
        made = changed(self.tracer, name, self.all(), args, kwargs)
        SYNTAX["store"](self.tracer, self, everywhere, made)
        return self

    def _words(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """A view as a path says it. Raises TraceError."""
        named = {key: self._plain(arg) for key, arg in kwargs.items()}
        try:
            return spelled_view(name, [self._plain(arg) for arg in args], named, self.path)
        except TraceError as error:
            raise self.tracer.placed(error) from None

    def _by_index(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A view that an index says, of scalars of the kernel too; several of a ``chunk``."""
        if name in BY_ITEM:
            return part_of(self.tracer, self, by_item(name, self.ndim, args, kwargs))
        given = dict(zip(views.METHODS[name], args, strict=False)) | kwargs
        sizes = sizes_of(self.tracer, self.part)
        made = torch_has(self.tracer, sizes, self._words(name, args, kwargs), self.path)
        if name == "squeeze":
            dims = given.get("dim", range(len(sizes)))
            gone = {range(len(sizes))[n] for n in (dims if isinstance(dims, (tuple, list, range)) else [dims])}
            items = [0 if n in gone and size == 1 else slice(None) for n, size in enumerate(sizes)]
            return part_of(self.tracer, self, tuple(items))
        dim = self._plain(given.get("dim", 0))
        if name == "unbind":
            return tuple(self._item(dim, n) for n in range(len(made)))
        ends = [0, *accumulate(one[dim] for one in made)]
        return tuple(self._item(dim, slice(*pair)) for pair in pairwise(ends))

    def _item(self, dim: int, item: Any) -> PartRef | None:
        """The part that an item of one dimension names."""
        items: list[Any] = [slice(None)] * len(self.dims)
        items[dim] = item
        return part_of(self.tracer, self, tuple(items))

    def __getattr__(self, name: str) -> Any:
        if is_in_place(name):
            return partial(self._change, name)
        if name in views.PROPERTIES:
            return self.viewed(name)
        if name in views.METHODS:
            return partial(self.viewed, name)
        return super().__getattr__(name) if name in FACTORIES or name.startswith("__") else getattr(self.all(), name)

    def __repr__(self) -> str:
        return f"a part of {super().__repr__()}"


def in_memory(t: Tracer, x: Any, what: str) -> TensorRef:
    """The tensor that one of the language's functions reads or writes by an index. Raises TraceError for a tile of
    registers. ``what``: the function, and what it does."""
    if isinstance(x, TensorRef):
        return x
    if isinstance(x, TileValue):
        t.store_through(x)
    raise TraceError(outside(what), got=repr(x)[:200], where=t.location(), hint=and_the_index(what))


@register_syntax("take")
def take(t: Tracer, ref: TensorRef, index: Any) -> Any:
    """``ref[index]``: what it holds, or the part itself where the kernel stores through it."""
    taken = _taken(t.frame(), ref.path)
    part = part_of(t, ref, index) if taken in t.found.through else None
    if part is not None:
        return part
    found: TileValue = SYNTAX["load"](t, ref, index, taken=taken)
    if is_view_index(index):
        by_tiles = any(isinstance(item, TileProxy) for item in flatten(index, is_traced, is_size))
        found.loaded = Loaded(ref.path, by_tiles or any(d.tile is not None for d in found.value.dims))
    return found


def _taken(frame: FrameType | None, path: str) -> Taken | None:
    if frame is None:
        return None
    code = frame.f_code
    return Taken(path, code.co_filename, code.co_qualname, frame.f_lineno, frame.f_lasti)


def part_of(t: Tracer, ref: TensorRef, index: Any) -> PartRef | None:
    """The part that an index of ints and slices names; None of others."""
    own = ref.index_of(index) if isinstance(ref, PartRef) else index
    if own is None:
        return None
    whole = ref.part.ref if isinstance(ref, PartRef) else ref
    mark = t.mark()
    resolved = resolve(t, whole, own, reads=True)
    t.rewind(mark)  # an index of the part is resolved by itself, and says all that this one does
    items = view_items(whole, resolved)
    if items is None:
        return None
    found = PartRef(t, Part(whole, tuple(item.all() if isinstance(item, TensorRef) else item for item in items)))
    for axis in resolved.new_axes:
        found = found.viewed("unsqueeze", axis)
    return found


def is_view_index(index: Any) -> bool:
    """Whether torch has a view of what an index names: it is of numbers, slices and loops' tiles."""
    return all(
        item is None
        or item is Ellipsis
        or isinstance(item, (slice, TileProxy))
        or is_number(item)
        or (isinstance(item, TensorRef) and not item.dims)
        for item in flatten(index, is_traced, is_size)
    )


def view_items(ref: TensorRef, resolved: Resolved) -> list[Any] | None:
    """The items of the part that an index names which is a view in torch, of numbers and slices; None of another one. A
    loop's tile is a block that lies in registers, and a tile of ints names elements to copy."""
    given = [item for item in resolved.given if item is not None]
    items = [_view_item(*pair, resolved) for pair in zip(given, resolved.items, ref.dims, strict=True)]
    return None if any(item is None for item in items) else items


def _view_item(wrote: Any, item: IndexItem, whole: Expr, resolved: Resolved) -> Any:
    if is_number(wrote) or (isinstance(wrote, TensorRef) and not wrote.dims):
        return wrote
    if not isinstance(wrote, slice):
        return None
    if isinstance(item, SliceIndex):
        return Run(item.start, item.dim.extent, whole)
    if not isinstance(item, ValueIndex) or wrote.step not in (None, 1):
        return None
    dim = resolved.dims[item.axes[0]]
    return None if dim.tile is not None else Run(wrote.start, dim.extent, whole)
