"""Where the gradient of a load goes: what can be proved of the elements that programs, turns and lanes name."""

from __future__ import annotations

from dataclasses import dataclass

from ..expr import Expr
from ..ir.attributes import AccessAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import ExprIndex, KernelIR, Op, Operand, SliceIndex, TileIndex, ValueIndex
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
    whole = not attrs.has_mask
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
    pairs = zip(AccessAttrs.of(a).index, AccessAttrs.of(b).index, strict=True)
    for one, other in pairs:
        spans = [_span(ir, item) for item in (one, other)]
        if None not in spans:
            (low, high), (begin, end) = spans  # type: ignore[misc]
            if high <= begin or end <= low:
                return True
    return False


def _span(ir: KernelIR, item: object) -> tuple[int, int] | None:
    if isinstance(item, SliceIndex):
        start, extent = _known(ir, item.start), _known(ir, item.dim.extent)
        return None if start is None or extent is None else (start, start + extent)
    if isinstance(item, ExprIndex):
        value = _known(ir, item.value)
        return None if value is None else (value, value + 1)
    return None
