"""Neighbours: accesses of single elements that lie side by side in memory become one access of a pair or of four.

Complex numbers, interleaved rotary embeddings, points and boxes have a short last dimension that the author takes apart
by ints: ``re, im = x[tile, 0], x[tile, 1]``. The lanes of each access then leave a gap for each element: a store fills
half of each sector of memory, and the loads take twice the instructions. As one tile with a last dimension of 2 they
have no gaps, and a thread has both elements of a pair in its registers, so that to split or to join it moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from ..expr import Expr
from ..ir.attributes import NO_ATTRS, AccessAttrs, Attrs, AxisAttrs, ReshapeAttrs
from ..ir.graph import Block, ExprIndex, KernelIR, Op, Operand, SliceIndex, TileIndex, ValueIndex, once, walk
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES, PRODUCTS, effects_of
from ..ir.types import ONE, Dim, TileType, Value, itemsize
from .rewrite import Fresh, with_body

_WIDTHS = (4, 2)  # elements of one access; those tried first
_TWO = Dim(Expr.of(2))
_WORD = 4  # bytes: two bytes of a picture's four were stored at 0.91 of the speed of single ones (H100, 2026-11-27)
_MOST = 1 << 15  # elements of a tile that no block size changes: a joined one is to fit registers as the others do


def join_neighbours(ir: KernelIR) -> KernelIR:
    """Loads and stores of neighbours as one each. A region with products stays as it is: its operands' layouts are the
    matrix units'."""
    if any(op.kind in PRODUCTS for op in ir.walk()):
        return ir
    groups = _ordered(ir, [group for block in _blocks(ir.body) for group in _Finder(ir, block).groups()])
    return with_body(ir, _Joiner(ir, groups).block(ir.body)) if groups else ir


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from _blocks(region)


@dataclass(frozen=True, slots=True)
class _Single:
    """An access of one element along the dimension ``axis`` of a tensor: ``element``. Accesses with an equal ``key``
    are the same but for the element."""

    op: Op
    axis: int
    element: int
    key: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """Accesses of neighbours in the order of their elements, and the one in whose place all are done."""

    singles: tuple[_Single, ...]
    place: Op

    @property
    def first(self) -> _Single:
        """The access of the first element."""
        return self.singles[0]

    def is_alike_or_apart(self, other: _Group) -> bool:
        """Whether both are of the same elements of the same places of one tensor, or of none that both have."""
        if AccessAttrs.of(self.place).tensor != AccessAttrs.of(other.place).tensor:
            return False
        begin, start = self.first.element, other.first.element
        if begin + len(self.singles) <= start or start + len(other.singles) <= begin:
            return True
        return begin == start and len(self.singles) == len(other.singles)


class _Finder:
    """Finds the neighbours of one block of operations."""

    def __init__(self, ir: KernelIR, block: Block) -> None:
        self._ir, self._ops, self._placing = ir, block.ops, _placing(ir)
        self._rank = max((_rank(v) for op in walk(block) for v in op.outputs), default=0)
        self._singles = [self._single(op) for op in block.ops]
        self._taken: set[int] = set()

    def groups(self) -> Iterator[_Group]:
        """Those of four before pairs; an access is of one group."""
        for width in _WIDTHS:
            for number, single in enumerate(self._singles):
                if single is not None and number not in self._taken and (found := self._group(number, single, width)):
                    self._taken.update(found)
                    singles = [s for n in found if (s := self._singles[n]) is not None]
                    place = self._ops[min(found) if single.op.kind is OpKind.LOAD else max(found)]
                    yield _Group(tuple(sorted(singles, key=lambda s: s.element)), place)

    def _group(self, number: int, single: _Single, width: int) -> list[int]:
        """The places of ``single`` and all its neighbours, which come after it; empty where one is missing, or where
        they cannot be one access."""
        if not _takes(self._ir, single, width):
            return []
        found = {single.element: number}
        for later in range(number + 1, len(self._ops)):
            other = self._singles[later]
            if other is None or later in self._taken or other.key != single.key:
                continue
            if other.element // width == single.element // width:
                found.setdefault(other.element, later)
            if len(found) == width:
                return [*found.values()] if self._may_meet([*found.values()]) else []
        return []

    def _may_meet(self, places: list[int]) -> bool:
        """Whether nothing between accesses minds that they are done at once, and they do not mind it."""
        op, last = self._ops[places[0]], max(places)
        memory = self._ir.sharing(AccessAttrs.of(op).tensor)
        between = [self._ops[n] for n in range(min(places), last) if n not in places]
        return not any(_disturbs(inner, op.kind, memory) for o in between for inner in _with_inner(o))

    def _single(self, op: Op) -> _Single | None:
        """An access that may have neighbours: of one constant element along memory by a tile of the most dimensions.
        What has fewer is read once for many, or is a result of many: it moves little, and to take it apart would have
        threads exchange it where there are as many of them."""
        if op.kind not in (OpKind.LOAD, OpKind.STORE):
            return None
        attrs, tile = AccessAttrs.of(op), _tile(op)
        tensor = self._ir.tensor(attrs.tensor)
        if tile is None or not tile.dims or _rank(tile) < self._rank or tile in self._placing:
            return None
        along = [n for n, stride in enumerate(tensor.strides) if stride.constant == 1]
        if len(along) != 1 or "bool" in (tensor.dtype, tile.type.dtype):
            return None
        if attrs.has_mask and not (isinstance(op.inputs[-1], Value) and op.inputs[-1].dims):
            return None
        item = attrs.index[along[0]]
        if not isinstance(item, ExprIndex) or item.inside is not None or item.value.constant is None:
            return None
        others = replace(attrs, site="", index=tuple(i for n, i in enumerate(attrs.index) if n != along[0]))
        beside = op.inputs if op.kind is OpKind.LOAD else op.inputs[1:]
        return _Single(op, along[0], item.value.constant, (op.kind, others, beside, tile.type))


@once
def _placing(ir: KernelIR) -> frozenset[Value]:
    """What the places of accesses are computed of, where others take runs of the same lanes: lanes of those have
    neighbours in one thread, and those of a pair that is split have not, so that the addresses would be exchanged."""
    if not any(map(_takes_runs(ir), ir.walk())):
        return frozenset()
    left = [
        op.inputs[item.input]
        for op in ir.walk()
        if op.kind in ACCESSES
        for item in AccessAttrs.of(op).index
        if isinstance(item, ValueIndex) and item.axes
    ]
    found = set[Value]()
    while left:
        value = left.pop()
        if isinstance(value, Value) and value not in found:
            found.add(value)
            made = ir.definitions.get(value)
            left += made.inputs if made is not None and made.kind is not OpKind.LOAD else ()
    return frozenset(found)


def _takes_runs(ir: KernelIR) -> Callable[[Op], bool]:
    """Whether an op accesses elements side by side, by a tile or a slice."""

    def takes(op: Op) -> bool:
        if op.kind not in (OpKind.LOAD, OpKind.STORE):
            return False
        strides = ir.tensor(AccessAttrs.of(op).tensor).strides
        items = zip(AccessAttrs.of(op).index, strides, strict=True)
        return any(isinstance(item, TileIndex | SliceIndex) and stride.constant == 1 for item, stride in items)

    return takes


def _tile(op: Op) -> Value | None:
    """What a load gives or a store takes; None for a number."""
    value = op.output if op.kind is OpKind.LOAD else op.inputs[0]
    return value if isinstance(value, Value) else None


def _rank(value: Value) -> int:
    """The dimensions of more than one lane."""
    return sum(d.extent.constant != 1 for d in value.dims)


def _with_inner(op: Op) -> Iterator[Op]:
    yield op
    for region in op.regions:
        yield from walk(region)


def _disturbs(op: Op, kind: OpKind, memory: Collection[str]) -> bool:
    """Whether an access of ``memory`` stays on its side of ``op``. Atomics order what others see of all memory."""
    effects = effects_of(op)
    touched = effects.writes if kind is OpKind.LOAD else effects.tensors
    return op.kind is OpKind.ATOMIC or effects.is_seen or any(path in memory for path in touched)


def _takes(ir: KernelIR, single: _Single, width: int) -> bool:
    """Whether so many elements are a word or more, are aligned wherever the access is, and a tile of them is one that
    registers hold. Four are taken apart by a reshape, which no loop over a whole dimension has blocks of."""
    tensor, tile = ir.tensor(AccessAttrs.of(single.op).tensor), _tile(single.op)
    assert tile is not None
    strides = (stride for n, stride in enumerate(tensor.strides) if n != single.axis)
    if width * itemsize(tensor.dtype) < _WORD or any((stride % width).constant != 0 for stride in strides):
        return False
    whole = [d.extent for d in tile.dims if d.extent.symbols() <= ir.hints.keys()]
    is_small = width * prod(ir.hint(e.next_pow2()) for e in whole) <= _MOST
    return is_small and (width == 2 or all(d.tile is not None for d in tile.dims))


def _ordered(ir: KernelIR, groups: list[_Group]) -> list[_Group]:
    """The groups without those of memory that is both loaded and stored where a lane of one access would be another's:
    a barrier would have to stand between them. The accesses that may stay are all of the same neighbours, or apart."""
    members = {id(s.op) for group in groups for s in group.singles}
    kinds: dict[str, set[OpKind]] = {}
    others = set[str]()  # what accesses touch that are in no group
    for op in ir.walk():
        for tensor in effects_of(op).tensors:
            kinds.setdefault(tensor, set()).add(op.kind)
            others |= {tensor} if id(op) not in members else set()

    def is_ordered(group: _Group) -> bool:
        memory = ir.sharing(AccessAttrs.of(group.place).tensor)
        if len({kind for path in memory for kind in kinds.get(path, ())}) == 1:
            return True
        beside = (g for g in groups if AccessAttrs.of(g.place).tensor in memory)
        return memory.isdisjoint(others) and all(map(group.is_alike_or_apart, beside))

    kept = [group for group in groups if is_ordered(group)]
    return kept if len(kept) == len(groups) else _ordered(ir, kept)


class _Joiner:
    """Rewrites the accesses of groups."""

    def __init__(self, ir: KernelIR, groups: Sequence[_Group]) -> None:
        self._fresh = Fresh(ir)
        self._gone = {id(s.op) for group in groups for s in group.singles}
        self._at = {id(group.place): group for group in groups}

    def block(self, block: Block) -> Block:
        """A block and all that are in it."""
        ops: list[Op] = []
        for op in block.ops:
            if id(op) in self._at:
                ops += _Joined(self._fresh, self._at[id(op)]).ops()
            elif id(op) not in self._gone:
                ops.append(op.with_(regions=tuple(map(self.block, op.regions))) if op.regions else op)
        return Block(block.params, tuple(ops), block.results)


class _Joined:
    """One group as one access."""

    def __init__(self, fresh: Fresh, group: _Group) -> None:
        self._fresh, self._group, self._ops = fresh, group, list[Op]()
        self._loc = group.place.loc
        self._rank = 0  # of the tiles that are joined

    def ops(self) -> list[Op]:
        """The load and what takes it apart, or what joins the values and the store of them."""
        tiles = [tile for s in self._group.singles if (tile := _tile(s.op)) is not None]
        self._rank = len(tiles[0].dims)
        dims = (*tiles[0].dims, Dim(Expr.of(len(tiles))))
        if self._group.place.kind is OpKind.LOAD:
            whole = self._value(tiles[0], dims)
            self._access((), (whole,))
            self._take_apart(whole, tiles)
        else:
            self._access((self._put_together(tiles, dims),), ())
        return self._ops

    def _take_apart(self, whole: Value, tiles: list[Value]) -> None:
        if len(tiles) == 2:
            self._emit(OpKind.SPLIT, (whole,), tuple(tiles))
            return
        pairs = self._value(whole, (*tiles[0].dims, _TWO, _TWO))
        self._emit(OpKind.RESHAPE, (whole,), (pairs,), ReshapeAttrs())
        even, odd = (self._value(whole, (*tiles[0].dims, _TWO)) for _ in range(2))
        self._emit(OpKind.SPLIT, (pairs,), (even, odd))
        self._emit(OpKind.SPLIT, (even,), tuple(tiles[::2]))
        self._emit(OpKind.SPLIT, (odd,), tuple(tiles[1::2]))

    def _put_together(self, tiles: list[Value], dims: tuple[Dim, ...]) -> Value:
        if len(tiles) == 2:
            return self._join(*tiles)
        pairs = self._join(self._join(*tiles[::2]), self._join(*tiles[1::2]))
        whole = self._value(pairs, dims)
        self._emit(OpKind.RESHAPE, (pairs,), (whole,), ReshapeAttrs())
        return whole

    def _join(self, left: Value, right: Value) -> Value:
        both = self._value(left, (*left.dims, _TWO))
        self._emit(OpKind.JOIN, (left, right), (both,))
        return both

    def _access(self, written: tuple[Value, ...], outputs: tuple[Value, ...]) -> None:
        """The access of all elements, by the name that that of the first has."""
        first, place = self._group.first, self._group.place
        attrs = AccessAttrs.of(first.op)
        beside = [*place.inputs[len(written) :]]
        if attrs.has_mask:
            mask = beside[-1]
            assert isinstance(mask, Value)
            of_all = self._fresh.value(replace(mask.type, dims=(*mask.dims, ONE)), mask)
            self._emit(OpKind.UNSQUEEZE, (mask,), (of_all,), AxisAttrs(len(mask.dims)))
            beside[-1] = of_all
        items = [*attrs.index]
        items[first.axis] = SliceIndex(Expr.of(first.element), Dim(Expr.of(len(self._group.singles))), self._rank)
        self._emit(place.kind, (*written, *beside), outputs, replace(attrs, index=tuple(items)))

    def _value(self, like: Value, dims: tuple[Dim, ...]) -> Value:
        return self._fresh.value(TileType(like.type.dtype, dims), like)

    def _emit(
        self, kind: OpKind, inputs: tuple[Operand, ...], outputs: tuple[Value, ...], attrs: Attrs = NO_ATTRS
    ) -> None:
        self._ops.append(Op(kind, inputs, outputs, attrs, (), self._loc))
