"""Where the gradient of a load goes: what can be proved of the elements that programs, turns and lanes name."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from ..expr import Expr
from ..ir.attributes import AccessAttrs, ArangeAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Block, ExprIndex, KernelIR, Op, Operand, SliceIndex, TileIndex, ValueIndex, once, walk
from ..ir.kinds import OpKind
from ..ir.types import Value


@dataclass(frozen=True, slots=True)
class Named:
    """The elements that a load names. ``owners``: the loops of which each turn names elements of its own, with the
    tensor's dimension that says so, and how the index is shifted there. ``by_lane``: whether two lanes of one turn
    never name the same. ``is_whole``: whether all turns together name every element."""

    owners: frozenset[tuple[str, int, int | None]]
    by_lane: bool
    is_whole: bool

    @property
    def tiles(self) -> frozenset[str]:
        """The loops whose turns name elements of their own."""
        return frozenset(tile for tile, _, _ in self.owners)


def named(ir: KernelIR, op: Op) -> Named:
    """What is known of a load's elements, in the traced call's sizes."""
    attrs = AccessAttrs.of(op)
    tensor = ir.tensor(attrs.tensor)
    owners: set[tuple[str, int, int | None]] = set()
    axes: set[int] = set()
    whole = not attrs.has_mask and not _sides(ir).get(id(op))
    for dim, (size, item) in enumerate(zip(tensor.shape, attrs.index, strict=True)):
        if isinstance(item, TileIndex):
            owners.add((item.tile, dim, 0))
            axes.add(item.axis)
            whole = whole and _spans(ir, item.tile, size)
        elif isinstance(item, SliceIndex):
            axes.add(item.axis)
            whole = whole and _known(ir, item.dim.extent) == ir.hint(size)
        elif isinstance(item, ExprIndex):
            whole = whole and ir.hint(size) == 1
        elif isinstance(item, ValueIndex):
            tile, shift = _moves_with(ir, op.inputs[item.input])
            if tile is None and not item.axes:
                tile, shift = _scalar_of(ir, op.inputs[item.input]), 0
            if tile is not None:
                owners.add((tile, dim, shift))
                axes.update(item.axes)
            whole = whole and tile is not None and shift == 0 and _spans(ir, tile, size)
    return Named(frozenset(owners), axes >= set(range(len(op.output.dims))), whole)


def asked(ir: KernelIR) -> frozenset[str]:
    """The launch symbols that :func:`named` and :func:`disjoint` may decide by, besides tensors' sizes."""
    found: set[str] = set()
    for op in ir.walk():
        for item in AccessAttrs.of(op).index if isinstance(op.attrs, AccessAttrs) else ():
            if isinstance(item, SliceIndex):
                found |= item.start.symbols() | item.dim.extent.symbols()
            elif isinstance(item, ExprIndex):
                found |= item.value.symbols()
    for tile in ir.tiles.values():
        for bound in (tile.begin, tile.end):
            found |= bound.symbols() if isinstance(bound, Expr) else frozenset()
    return frozenset(s for s in found if ".shape." not in s)


def _known(ir: KernelIR, e: Expr) -> int | None:
    return ir.hint(e) if e.symbols() <= ir.hints.keys() else None


def _spans(ir: KernelIR, tile: str, size: Expr) -> bool:
    found = ir.tiles[tile]
    bounds = [_known(ir, b) if isinstance(b, Expr) else None for b in (found.begin, found.end)]
    return found.lengths is None and bounds == [0, ir.hint(size)]


def _moves_with(ir: KernelIR, x: Operand) -> tuple[str | None, int | None]:
    """The tile whose indices a 1-D value holds, and by how much they are shifted; None: by what nobody knows."""
    op = ir.definitions.get(x) if isinstance(x, Value) else None
    if op is None:
        return None, None
    if op.kind is OpKind.TILE_INDEX:
        return TileAttrs.of(op).tile, 0
    if op.kind is OpKind.CAST:
        return _moves_with(ir, op.inputs[0])
    if op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn in ("add", "sub"):
        first, second = op.inputs
        tile, shift = _moves_with(ir, first)
        if isinstance(second, int) and shift is not None:
            return tile, shift + (second if PointwiseAttrs.of(op).fn == "add" else -second)
        if isinstance(second, int) or _is_size(ir, second):
            return tile, None
    return None, None


def _is_size(ir: KernelIR, x: Operand) -> bool:
    op = ir.definitions.get(x) if isinstance(x, Value) else None
    return op is not None and op.kind is OpKind.SIZE


def _scalar_of(ir: KernelIR, x: Operand) -> str | None:
    """The tile of which a scalar is the begin or the number."""
    op = ir.definitions.get(x) if isinstance(x, Value) else None
    return TileAttrs.of(op).tile if op is not None and op.kind in (OpKind.TILE_BEGIN, OpKind.TILE_ID) else None


def disjoint(ir: KernelIR, a: Op, b: Op) -> bool:
    """Whether two accesses of one tensor never name the same element, by slices or ints of one dimension."""
    for one, other in zip(AccessAttrs.of(a).index, AccessAttrs.of(b).index, strict=True):
        first, second = _span(ir, _item(a, one)), _span(ir, _item(b, other))
        if first is not None and second is not None and not _meet(first, second):
            return True
    return False


def _meet(a: range, b: range) -> bool:
    """Whether two ranges may have an element in common."""
    return a.start < b.stop and b.start < a.stop and (b.start - a.start) % gcd(a.step, b.step) == 0


def exclusive(ir: KernelIR, a: Op, b: Op) -> bool:
    """Whether a program takes one of two accesses at most, and both name the same elements: they are on the two sides
    of one branch."""
    first, second = _sides(ir).get(id(a), {}), _sides(ir).get(id(b), {})
    if not any(first[branch] != second[branch] for branch in first.keys() & second.keys()):
        return False
    return all(_item(a, x) == _item(b, y) for x, y in zip(*(AccessAttrs.of(op).index for op in (a, b)), strict=True))


def _item(op: Op, item: object) -> object:
    return op.inputs[item.input] if isinstance(item, ValueIndex) else item


@once
def _sides(ir: KernelIR) -> dict[int, dict[int, int]]:
    """The branches around each op that stands in one, and the side of each on which it is; ops and branches by
    Python's id."""
    found: dict[int, dict[int, int]] = {}

    def visit(block: Block, around: dict[int, int]) -> None:
        for op in block.ops:
            if around:
                found[id(op)] = around
            for side, inner in enumerate(op.regions):
                visit(inner, {**around, id(op): side} if op.kind is OpKind.IF else around)

    visit(ir.body, {})
    return found


def is_overwritten(ir: KernelIR, op: Op) -> bool:
    """Whether each turn of a loop around a store names the elements that the one before it wrote."""
    loops = [o for o in ir.walk() if o.kind is OpKind.FOR and any(inner is op for inner in walk(o.regions[0]))]
    return any(not _depends_on(ir, op, loop) for loop in loops)


def _depends_on(ir: KernelIR, op: Op, loop: Op) -> bool:
    """Whether the index or the mask of an access changes from one turn of a loop to the next."""
    attrs, (body,), name = AccessAttrs.of(op), loop.regions, TileAttrs.of(loop).tile
    if any(isinstance(item, TileIndex) and item.tile == name for item in attrs.index):
        return True
    read = {op.inputs[item.input] for item in attrs.index if isinstance(item, ValueIndex)}
    read |= {op.inputs[-1]} if attrs.has_mask else set()
    inside = {v for o in walk(body) for v in o.outputs} | {*body.params}
    return any(isinstance(v, Value) and _varies(ir, v, inside, name) for v in read)


def _varies(ir: KernelIR, value: Value, inside: set[Value], tile: str) -> bool:
    op = ir.definitions.get(value)
    if op is None:
        return value in inside
    if value not in inside:
        return False
    is_of_tile = isinstance(op.attrs, TileAttrs) and op.attrs.tile == tile
    is_load_there = isinstance(op.attrs, AccessAttrs) and any(
        isinstance(i, TileIndex) and i.tile == tile for i in op.attrs.index
    )
    return bool(op.regions) or is_of_tile or is_load_there or any(_varies(ir, v, inside, tile) for v in op.values)


def _span(ir: KernelIR, item: object) -> range | None:
    """The elements that an index names along its dimension, where that is known: of ``a:b:s`` every ``s``-th."""
    if isinstance(item, SliceIndex):
        start, extent = _known(ir, item.start), _known(ir, item.dim.extent)
        return None if start is None or extent is None else range(start, start + extent)
    if isinstance(item, ExprIndex):
        value = _known(ir, item.value)
        return None if value is None else range(value, value + 1)
    return _progression(ir, item) if isinstance(item, Value) else None


def _progression(ir: KernelIR, value: Value) -> range | None:
    """The numbers that ``arange(n) * step + start`` holds."""
    op = ir.definitions.get(value)
    if op is not None and op.kind is OpKind.ARANGE and len(value.dims) == 1:
        start, extent = _known(ir, ArangeAttrs.of(op).start), _known(ir, value.dims[0].extent)
        return None if start is None or extent is None else range(start, start + extent)
    first, second = (*op.inputs, None, None)[:2] if op is not None else (None, None)
    found = _progression(ir, first) if isinstance(first, Value) else None
    if op is None or found is None or op.kind is OpKind.CAST:
        return found
    by = second if isinstance(second, int) and op.kind is OpKind.POINTWISE else None
    if by is not None and PointwiseAttrs.of(op).fn == "add":
        return range(found.start + by, found.stop + by, found.step)
    if by is not None and by > 0 and PointwiseAttrs.of(op).fn == "mul":
        return range(found.start * by, found.stop * by, found.step * by)
    return None
