"""Stores by which the programs of one launch overwrite each other.

Programs run in no order. Where those along an axis of the grid store to one element, and what they store is not the
same for all of them, what is left there is any of it: a sum over the axis, written as a store, loses most of its terms.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..expr import Expr
from .attributes import AccessAttrs, Attrs, StoreAttrs
from .graph import Block, ExprIndex, KernelIR, Op, Operand, Tile, TileIndex
from .kinds import OpKind
from .types import Value

Axes = frozenset[str]  # tiles of the grid
_NONE: Axes = frozenset()
_ZERO = Expr.of(0)


def race(ir: KernelIR) -> tuple[Op, str] | None:
    """A store, and the tile of the grid on which what it stores depends, and where it stores does not.

    Stores under an if or a mask are left out: those may choose one program.
    """
    shared = frozenset(name for name in ir.grid if _has_several(ir, ir.tiles[name]))
    return _Follower(ir, shared).race(ir.body) if shared else None


def folded(ir: KernelIR) -> tuple[Op, int] | None:
    """A store, and a dimension along which it names several elements that are one in memory, as ``expand`` makes them:
    what is left there is any of what was stored.

    Stores under a mask are left out: it may choose one of them.
    """
    for op in ir.walk():
        if isinstance(op.attrs, StoreAttrs) and not op.attrs.has_mask:
            stored = ir.tensor(op.attrs.tensor)
            named = zip(op.attrs.index, stored.shape, stored.strides, strict=True)
            for dim, (item, size, stride) in enumerate(named):
                if not isinstance(item, ExprIndex) and stride == _ZERO and size.evaluate(ir.hints) > 1:
                    return op, dim
    return None


def _has_several(ir: KernelIR, tile: Tile) -> bool:
    """Whether several programs run along the axis: a block may cover it, but only one that is given surely does. How
    many a knob says, a config decides, and the author's code with it."""
    if isinstance(tile.begin, Value) or isinstance(tile.end, Value):
        return True
    extent = tile.end - tile.begin
    return extent.symbols() <= ir.hints.keys() and extent.evaluate(ir.hints) > (tile.block.constant or 1)


class _Follower:
    """Follows which axes of the grid each value depends on."""

    def __init__(self, ir: KernelIR, shared: Axes) -> None:
        self.ir, self.shared = ir, shared
        self.known: dict[Value, Axes] = {}
        self.tiles: dict[str, Axes] = {name: frozenset({name}) & shared for name in ir.grid}

    def race(self, block: Block) -> tuple[Op, str] | None:
        for op in block.ops:
            if isinstance(op.attrs, StoreAttrs) and not op.attrs.has_mask:
                (value, *_) = op.inputs
                lost = self._of([value]) - self._of(op.inputs[1:]) - self._of_index(op.attrs.index)
                if lost:
                    return op, min(lost)
            own = self._of(op.inputs) | self._of_op(op.attrs)
            for region in op.regions:
                self.known.update(dict.fromkeys(region.params, own))
                found = self.race(region)
                if found is not None and op.kind is not OpKind.IF:
                    return found
                own |= self._of(region.results)
            self.known.update(dict.fromkeys(op.outputs, own))
        return None

    def _of(self, operands: Iterable[Operand]) -> Axes:
        return _NONE.union(*(self.known.get(v, _NONE) for v in operands if isinstance(v, Value)))

    def _of_op(self, attrs: Attrs) -> Axes:
        tile = getattr(attrs, "tile", None)
        found = self._of_tile(tile) if isinstance(tile, str) else _NONE
        return found | self._of_index(attrs.index) if isinstance(attrs, AccessAttrs) else found

    def _of_index(self, index: Iterable[object]) -> Axes:
        return _NONE.union(*(self._of_tile(i.tile) for i in index if isinstance(i, TileIndex)))

    def _of_tile(self, name: str) -> Axes:
        """Its own axis of the grid; of a loop in the kernel, those on which its bounds depend."""
        if name not in self.tiles:
            tile = self.ir.tiles[name]
            self.tiles[name] = self._of(tile.bounds)
        return self.tiles[name]
