"""``x[tile_m, :, None, idx + 1]``: which elements of a tensor an index names, and in which dimensions of the result.

Each item of an index names elements along one dimension of the tensor. Tiles, slices and tiles of ints give dimensions
of the result, in the order in which they stand; ints and scalars give none. What is loaded from a dimension of size 1
by a tile of a longer loop, or by a scalar that the kernel computes from such tiles, is its one element, as broadcasting
has it. Nothing is read or written outside the tensor: where it is not known that an index stays inside, its lanes are
masked.

1-D tiles of ints go together element by element where they are of one dimension, and are an outer product where they
are of several; with a tile of ints of more dimensions among them all broadcast together, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import ShapeError, TraceError
from ..expr import TRUE, Expr
from ..ir.attributes import ArangeAttrs
from ..ir.graph import ExprIndex, IndexItem, Inside, Operand, SliceIndex, Tile, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.signs import is_nonnegative
from ..ir.types import Dim, TileType, Value, is_float
from ..language.rules import (
    BACKWARDS,
    FORWARDS,
    INDEX,
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
from .affine import affine, between, extremes, inside, is_known, is_negative, tile_between
from .dimensions import show
from .intervals import are_longer, fits, interval, is_of_ranges, is_of_tiles, reach, without_lanes
from .open_lengths import way_out
from .trace import Tracer
from .values import SymInt, TensorRef, TileProxy, TileValue


@dataclass(slots=True)
class Resolved:
    """An index over a tensor: one item a tensor dimension, the dims of the result, the axes to insert afterwards.
    ``given``: what was written, with whole dimensions where nothing was."""

    items: list[IndexItem] = field(default_factory=list)
    dims: list[Dim] = field(default_factory=list)
    inputs: list[Operand] = field(default_factory=list)
    new_axes: list[int] = field(default_factory=list)
    given: tuple[Any, ...] = ()


def items_of(tracer: Tracer, ref: TensorRef, index: Any) -> list[Any]:
    """The items of an index, with the slices that an ellipsis, or what is left out at the end, stands for."""
    items = flatten(index, is_traced, is_size)
    used = sum(1 for i in items if i is not None and i is not Ellipsis)
    if used > ref.ndim:
        raise ShapeError(
            f"an index of {ref.path} has at most {ref.ndim} items",
            got=used,
            where=tracer.location(),
            hint="index each dimension once; [:, None] adds one to what was loaded",
        )
    missing = [slice(None)] * (ref.ndim - used)
    at = [n for n, i in enumerate(items) if i is Ellipsis]
    if len(at) > 1:
        raise TraceError("an index has one ellipsis", got="several", where=tracer.location())
    return tracer.facing(items + missing if not at else items[: at[0]] + missing + items[at[0] + 1 :])


def resolve(tracer: Tracer, ref: TensorRef, index: Any, *, reads: bool, masked: bool = False) -> Resolved:
    """Work out every item of an index. ``reads``: of a load, which broadcasts sizes of 1; ``masked``: an explicit mask
    says which lanes lie inside the tensor. Raises TraceError, ShapeError."""
    return _Resolver(tracer, ref, index, reads, masked).run()


class _Resolver:
    def __init__(self, tracer: Tracer, ref: TensorRef, index: Any, reads: bool, masked: bool) -> None:
        self.t, self.ref, self.reads, self.masked = tracer, ref, reads, masked
        self.items = items_of(tracer, ref, index)
        self.resolved = Resolved(given=tuple(self.items))
        self._groups = self._together()
        self._axes: dict[tuple[Dim, ...], tuple[int, ...]] = {}

    def run(self) -> Resolved:
        r, axis = self.resolved, 0
        for item in self.items:
            if item is None:
                r.new_axes.append(len(r.dims) + len(r.new_axes))
                continue
            r.items.append(self._item(item, self.ref.dims[axis]))
            axis += 1
        return r

    def _item(self, item: Any, size: Expr) -> IndexItem:
        if isinstance(item, TileProxy):
            return self._tile(item.name, item.scope, item.offset, size, item.shift)
        if isinstance(item, slice):
            return self._slice(item, size)
        if isinstance(item, (int, SymInt)) and not isinstance(item, bool):
            return self._int(item, size)
        if isinstance(item, TensorRef) and not item.dims:
            return self._ints(item[()], size)
        if isinstance(item, TileValue):
            return self._ints(item, size)
        raise self._wrong(INDEX, f"{item!r}"[:200], instead_of_item(item, is_size))

    # ---- ints -----------------------------------------------------------------------------------

    def _int(self, item: Any, size: Expr) -> ExprIndex:
        """One element; a negative number counts from the end."""
        value = self.t.as_expr(item, "an index")
        if value.symbols() <= self.t.hints.keys() and value.evaluate(self.t.hints) < 0:
            self.t.guard(value.lt(0))
            value = value + size
        bounds = Expr.of(0).le(value).and_(value.lt(size))
        if bounds.symbols() <= self.t.hints.keys():
            if not bounds.evaluate(self.t.hints):
                raise self._shape(
                    f"an index must lie inside {self.ref.path}",
                    f"{item} in a dimension of {size}",
                    "count from 0, or from -1 at the end",
                )
            self.t.guard(bounds)
            return ExprIndex(value)
        if self.reads and size.constant == 1:
            return ExprIndex(Expr.of(0))
        inside = Inside(Expr.of(0).le(value), value.lt(size))
        return ExprIndex(value, None if self.masked else _unless_everywhere(inside))

    # ---- tiles and slices -----------------------------------------------------------------------

    def _tile(self, name: str, scope: int, offset: Expr, size: Expr, shift: TileValue | None = None) -> IndexItem:
        """A tile; shifted, its lanes may lie outside the tensor."""
        tile = self.t.tiles[name]
        if scope not in self.t.scopes:
            raise self._wrong(
                "a tile is used only inside its loop",
                name,
                "store inside the loop, or carry what the tile loads out in a variable",
            )
        if offset != Expr.of(0) or shift is not None:
            begin = tile.begin + offset if isinstance(tile.begin, Expr) and shift is None else Expr.sym("%begin")
            end = tile.end + offset if isinstance(tile.end, Expr) and shift is None else Expr.sym("%end")
            lanes = TileProxy(name, self.t, scope, offset, shift).index
            return self._lanes(lanes, inside(self.t, begin, end - begin, size))
        if self._broadcasts(tile, size):
            one = Dim(Expr.of(1))
            return SliceIndex(Expr.of(0), one, self._axis(one))
        if self.masked:
            return TileIndex(name, self._axis(tile.dim))
        return TileIndex(name, self._axis(tile.dim), self._of_loop(tile, size))

    def _slice(self, item: slice, size: Expr) -> IndexItem:
        step = 1 if item.step is None else int(item.step) if isinstance(item.step, SymInt) else item.step
        if not isinstance(step, int) or step != 1:
            return self._every(slice(item.start, item.stop, step), size)
        start = Expr.of(0) if item.start is None else affine(self.t, self._end(item.start))
        stop = size if item.stop is None else affine(self.t, self._end(item.stop))
        if not (start.symbols() | stop.symbols()) - self.t.hints.keys():
            return self._part(start, stop, size)
        length = stop - start
        tile = tile_between(self.t, start, length)
        if tile is not None:
            return self._tile(tile[0], self.t.scopes[-1], tile[1], size)
        if not is_known(length):
            self._check_widths(item.start, item.stop)
            raise self._wrong(
                "a slice has a length in sizes and block sizes",
                f"{item.start!r} : {item.stop!r}"[:200],
                way_out(
                    self.t,
                    item.start,
                    item.stop,
                    "loop over what only the kernel knows: for tile in tfl.tile(start, stop)",
                ),
            )
        if is_negative(start) or is_negative(stop):
            raise self._wrong(
                "a slice by block sizes counts from the start",
                f"{item.start!r} : {item.stop!r}"[:200],
                "from the end: x[x.size(0) - n : x.size(0)]",
            )
        dim = Dim(self.t.extent(length))
        lanes = self.t.emit(OpKind.ARANGE, (), TileType("int32", (dim,)), ArangeAttrs(Expr.of(0)))
        if self.t.shape_mode.is_wide:
            lanes = self.t.cast(lanes, "int64")
        if start != Expr.of(0):
            lanes = lanes + (self.t.size(start) if is_known(start) else item.start)
        return self._lanes(lanes, inside(self.t, start, length, size))

    def _check_widths(self, *ends: Any) -> None:
        """Raises TraceError where an end of a slice may wrap around, so that its length is not known."""
        for end in ends:
            if isinstance(end, (TileValue, TensorRef)) and end.dtype not in (torch.int32, torch.int64):
                raise self._wrong(
                    "the ends of a slice are sizes, or scalars of int32 or int64: others wrap around within its length",
                    f"one of {str(end.dtype).removeprefix('torch.')}",
                    "widen what is loaded: s = s.int(), then x[s : s + n]",
                )

    def _every(self, item: slice, size: Expr) -> ValueIndex:
        """Every ``step``-th element between sizes, which become constants."""
        if not isinstance(item.step, int) or item.step < 1:
            raise self._wrong(FORWARDS, item.step, BACKWARDS)
        start, stop = (
            None if e is None else self.t.specialize(self.t.as_expr(e, "a slice's end"))
            for e in (item.start, item.stop)
        )
        every = range(*slice(start, stop, item.step).indices(self.t.specialize(size)))
        dim = Dim(Expr.of(len(every)))
        lanes = (
            self.t.emit(OpKind.ARANGE, (), TileType("int32", (dim,)), ArangeAttrs(Expr.of(0))) * every.step
            + every.start
        )
        self.resolved.inputs.append(lanes.value)
        return ValueIndex(len(self.resolved.inputs) - 1, (self._axis(dim),), None)

    def _end(self, end: Any) -> Any:
        """An end of a slice: a size, or an integer scalar of the kernel."""
        end = end[()] if isinstance(end, TensorRef) and not end.dims else end
        if isinstance(end, TileValue) and not end.value.dims and not is_float(end.value.type.dtype):
            return end
        if isinstance(end, SymInt) or (isinstance(end, int) and not isinstance(end, bool)):
            return end
        raise self._wrong(
            "a slice is between ints, sizes and integer scalars",
            f"{end!r}"[:200],
            "divide sizes by //, convert a float by .int()",
        )

    def _part(self, start: Expr, stop: Expr, size: Expr) -> SliceIndex:
        """A part of a dimension known in host code, clipped as in Python."""
        start, stop = (self._clip(e, size) for e in (start, stop))
        length = stop - start
        if length.evaluate(self.t.hints) < 0:
            start, length = stop, Expr.of(0)
        dim = Dim(self.t.extent(length))
        return SliceIndex(start, dim, self._axis(dim))

    def _clip(self, e: Expr, size: Expr) -> Expr:
        decide = self.t.decide
        if e == size or e.constant == 0:
            return e
        if e.op != "sym" and decide(e.lt(0)):
            e = e + size
            return Expr.of(0) if decide(e.lt(0)) else e
        return e if decide(e.le(size)) else size

    def _axis(self, dim: Dim) -> int:
        self.resolved.dims.append(dim)
        return len(self.resolved.dims) - 1

    def _lanes(self, lanes: TileValue, inside: Inside) -> ValueIndex:
        """A 1-D tile of indices that stands for a tile or a slice: a dimension of its own."""
        self.resolved.inputs.append(lanes.value)
        axis = self._axis(lanes.value.dims[0])
        return ValueIndex(len(self.resolved.inputs) - 1, (axis,), _unless_everywhere(inside))

    # ---- tiles of ints --------------------------------------------------------------------------

    def _together(self) -> dict[tuple[Dim, ...], tuple[Dim, ...]]:
        """The dimensions that each tile of ints has once broadcast with the tiles that it is indexed with."""
        found = [i.value.dims for i in self.items if isinstance(i, TileValue) and i.value.dims]
        if not all(len(dims) == 1 for dims in found):
            return dict.fromkeys(found, self.t.broadcast(found))
        merged: dict[tuple[Dim, ...], tuple[Dim, ...]] = {}
        for dims in found:
            merged[dims] = next((other for other in merged.values() if self._is_as_long(dims[0], other[0])), dims)
        return merged

    def _is_as_long(self, a: Dim, b: Dim) -> bool:
        """Whether dimensions are the same to an index: of one loop, or as long where no loop is theirs. Sizes that are
        equal in this call are so in each that the kernel serves."""
        if a == b or a.tile is not None or b.tile is not None:
            return a == b
        are_sizes = (a.extent.symbols() | b.extent.symbols()) <= self.t.hints.keys()
        return are_sizes and self.t.decide(a.extent.eq(b.extent))

    def _ints(self, item: TileValue, size: Expr) -> ValueIndex | ExprIndex:
        value = self.t.operand(item)
        assert isinstance(value, Value)
        if value.type.dtype == "bool" or is_float(value.type.dtype):
            raise self._wrong(
                "a tile of indices holds ints", value.type.dtype, "boolean masks select with torch.where or extra_mask="
            )
        if value.type.dtype == "int32" and not fits(self.t, value):
            raise self._wrong(
                "a tile of indices is computed in as many bits as its numbers have",
                f"one of int32 up to {reach(self.t, value)}",
                "compute it in 64 bits: tile.index.long() * n",
            )
        if size.constant == 1 and self.reads and is_of_tiles(self.t, value) and are_longer(self.t, value):
            return ExprIndex(Expr.of(0))
        value = from_the_end(self.t, value, lambda: self.t.size(size))
        inside = None if self.masked else self._of_value(value, size)
        self.resolved.inputs.append(value)
        position = len(self.resolved.inputs) - 1
        if not value.dims:
            return ValueIndex(position, (), inside)
        merged = self._groups[value.dims]
        if len(merged) == 1 and merged[0].tile is None and OUTER_CONSTANTS.get():
            return ValueIndex(position, (self._axis(merged[0]),), inside)
        if merged not in self._axes:
            self._axes[merged] = tuple(self._axis(dim) for dim in merged)
        return ValueIndex(position, self._axes[merged][len(merged) - len(value.dims) :], inside)

    # ---- ends of the tensor ---------------------------------------------------------------------

    def _broadcasts(self, tile: Tile, size: Expr) -> bool:
        """Whether a dimension of size 1 is loaded as one by a tile of a longer loop. A loop whose end only the device
        knows may be as short as the dimension: its tiles are masked."""
        if size.constant != 1 or not self.reads or not isinstance(tile.end, Expr):
            return False
        return tile.end.symbols() <= self.t.hints.keys() and tile.end.evaluate(self.t.hints) > 1

    def _of_loop(self, tile: Tile, size: Expr) -> Inside | None:
        """Whether a loop stays inside the tensor: checked where its bounds are sizes."""
        for bound, within in ((tile.begin, Expr.of(0).le), (tile.end, lambda end: end.le(size))):
            condition = within(bound) if isinstance(bound, Expr) else TRUE
            if condition.symbols() <= self.t.hints.keys() and not condition.evaluate(self.t.hints):
                raise self._shape(
                    f"a tile must not run past the end of {self.ref.path}",
                    f"tile {tile.name} from {tile.begin} up to {tile.end} in a dimension of {size}",
                    f"loop over tfl.tile({self.ref.path}.size(...)), or use extra_mask=",
                )
            self.t.guard(condition)
        if isinstance(tile.begin, Expr) and isinstance(tile.end, Expr):
            return None
        least, end = interval(self.t, tile.begin).least, interval(self.t, tile.end).most
        return _unless_everywhere(between(self.t, least, end, size))

    def _of_value(self, value: Value, size: Expr) -> Inside | None:
        """Whether the numbers of an index stay inside the tensor. A scalar is known by its form, or like tiles of ints
        by the interval of what it is computed from."""
        found, form = interval(self.t, value), (None, None) if value.dims else extremes(self.t, value)
        least = form[0] if form[0] is not None else found.least
        most = form[1] if form[1] is not None else found.most
        end = None if most is None else most + 1
        inside = _unless_everywhere(between(self.t, least, end, size, without_lanes(self.t, value)))
        if inside is not None and self.reads and is_of_tiles(self.t, value) and size.symbols():
            self._not_one(size)
        return inside

    def _not_one(self, size: Expr) -> None:
        """Where sizes are open: a scalar of tiles would broadcast a size of 1."""
        if self.t.decide(size.eq(1)):
            raise self._shape(
                f"a dimension of size 1 that tiles index is one in every call of {self.ref.path}",
                size,
                "give the tensor its sizes of 1 in the example too",
            )

    # ---- errors ---------------------------------------------------------------------------------

    def _wrong(self, what: str, got: Any, hint: str = "") -> TraceError:
        return TraceError(what, got=got, where=self.t.location(), hint=hint)

    def _shape(self, what: str, got: Any, hint: str) -> ShapeError:
        return ShapeError(what, got=got, where=self.t.location(), hint=hint)


def from_the_end(t: Tracer, value: Value, size: Callable[[], Any]) -> Value:
    """An int of the author's that may be negative, which counts from the end as in Python: ``x[n - 2]`` in ``for n in
    range(x.size(0))`` is the last but one at first. Of a range whose bounds are loaded none is negative."""
    least = interval(t, value).least if is_of_ranges(t, value) else None
    if least is None or is_nonnegative(least):
        return value
    index = t.wrap(value)
    wrapped = t.operand(t.pointwise("where", index < 0, index + size(), index))
    assert isinstance(wrapped, Value)
    return wrapped


def _unless_everywhere(inside: Inside) -> Inside | None:
    return None if inside.below.constant == 1 and inside.above.constant == 1 else inside


def is_traced(item: Any) -> bool:
    """Whether an item of an index is a tile, or what the kernel computes."""
    return isinstance(item, (TileProxy, TileValue))


def is_size(item: Any) -> bool:
    """Whether an item of an index is an int that Python or a launch knows."""
    return isinstance(item, (int, SymInt)) and not isinstance(item, bool)


def written(tracer: Tracer, resolved: Resolved, value: TileValue) -> TileValue:
    """A value to be written, without the dimensions that the index inserts."""
    rank = len(resolved.dims) + len(resolved.new_axes)
    shape = value.value.dims
    for axis in reversed(resolved.new_axes):
        position = axis - (rank - len(shape))
        if position >= 0 and value.value.dims[position].extent.constant == 1:
            value = value.squeeze(position)
        elif position >= 0:
            raise ShapeError(
                "what is stored has size 1 where the index has None",
                where=tracer.location(),
                got=f"{show(shape)}, dimension {position}",
            )
    if len(value.value.dims) > len(resolved.dims):
        tiles = [d.tile for d in value.value.dims if d.tile]
        hint = "reduce it with .sum(dim), take an element with [:, 0], or store to more"
        twice = [tile for tile in dict.fromkeys(tiles) if tiles.count(tile) > 1]
        if twice:
            behind = [d.tile for d in reversed(shape)].index(twice[0])
            hint = _for_each_lane(twice, behind)
        raise ShapeError(
            "a stored tile must broadcast to the index",
            where=tracer.location(),
            got=f"{show(shape)} for {show(tuple(resolved.dims))}",
            hint=hint,
        )
    return value


def check_once(tracer: Tracer, ref: TensorRef, resolved: Resolved, values: Sequence[TileValue]) -> None:
    """Raise ShapeError where elements are written for pairs of a loop's lanes that nobody wrote as pairs."""
    tiles = [d.tile for d in resolved.dims]
    axis = named_twice(tiles, [_axes(item) for item in resolved.items])
    if axis is None:
        return
    tile = tiles[axis]
    of_tiles = [i for i in resolved.items if isinstance(i, TileIndex) and i.tile == tile]
    if len(of_tiles) == tiles.count(tile) and all([d.tile for d in v.value.dims].count(tile) > 1 for v in values):
        return
    got = f"{show(values[0].value.dims)} for {show(tuple(resolved.dims))} of {ref.path}"
    behind = most_behind([_axes(item) for item in resolved.items], [own == tile for own in tiles])
    raise ShapeError(ONCE, got=got, where=tracer.location(), hint=once_hint(str(tile), behind))


def _axes(item: IndexItem) -> tuple[int, ...]:
    if isinstance(item, ValueIndex):
        return item.axes
    return (item.axis,) if isinstance(item, (TileIndex, SliceIndex)) else ()


def _for_each_lane(tiles: list[str], behind: int) -> str:
    """What takes one element for each lane of a tile, or of the pairs of two, where the index had all by all.
    ``behind``: the dimensions of the index behind the first tile's own."""
    first, other = tiles[0], tiles[1] if len(tiles) > 1 else None
    if other is None:
        rows, loaded = lane_index(first, behind), loaded_index(first, behind)
        return f"one element for each lane of {first}: x[{rows}, {loaded}]; x[{first}, {loaded}] is all pairs"
    lanes, both = f"{first}.index[:, None], {other}.index[None, :]", f"{first}, {other}"
    return f"one element for each pair of lanes: x[{lanes}, y[{both}]]; x[{both}, y[{both}]] is all by all"
