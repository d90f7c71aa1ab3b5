"""Lengthening: a region prepared for longer dimensions than those of the example that it was traced from.

A dimension that is held in one piece takes registers for the example's size, up to a power of two, and each launch
checks that its own fits. The example only steers choices, so that another one in its place gives a variant for more
launches: one so long that a reduction is looped, and where that cannot be, one with more registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..expr import Expr
from ..ir.graph import KernelIR
from ..ir.op_table import PRODUCTS
from ..ir.types import Value
from . import specialise
from .roll import roll_all, rollable
from .structural_choice import StructuralChoice

ROLLED = 1 << 17  # of what a loop takes block by block


@dataclass(frozen=True, slots=True)
class Reach:
    """How long a dimension in one piece may be at most: ``whole``; ``in_product``, where a product takes or gives it.
    Registers bound both, shared memory the second. ``loop``: how far loops run at least, for which blocks are chosen.
    """

    whole: int
    in_product: int
    loop: int = 0


def lengthen(ir: KernelIR, reach: Reach) -> KernelIR:
    """The region as if traced from sizes up to ``reach``. A size that the region takes as a number stays; so do those
    that are longer."""
    limits = _limits(ir, reach)
    groups = _Groups(ir, limits)
    hints = dict(ir.hints)
    for symbols, extents in groups:
        hints |= _scaled(ir, symbols, {e: limits[e] for e in extents})
    return replace(ir, hints=hints) if hints != ir.hints else ir


def never_looped(ir: KernelIR) -> set[Expr]:
    """The sizes that registers must hold at once, whatever the config."""
    return _in_one_piece(_looped(ir))


def _looped(ir: KernelIR) -> KernelIR:
    """The region with all loops that it may have. What products take is not among them: their first blocks are those
    of operands in one piece, which grow with it."""
    multiplied = {dim for op in ir.walk() if op.kind in PRODUCTS for v in (*op.values, op.output) for dim in v.dims}
    sites: tuple[str, ...] = ()
    for site, dim in rollable(ir).items():
        if dim not in multiplied and roll_all(ir, (*sites, site)) is not None:
            sites += (site,)
    return specialise(ir, StructuralChoice(rolled_reductions=sites))


def _in_one_piece(ir: KernelIR) -> set[Expr]:
    return {d.extent for v in _values(ir) for d in v.dims if d.tile is None and _is_open(ir, d.extent)}


def _is_open(ir: KernelIR, extent: Expr) -> bool:
    return bool(extent.symbols()) and extent.symbols() <= ir.hints.keys()


def _values(ir: KernelIR) -> Iterator[Value]:
    for op in ir.walk():
        yield from op.values
        yield from op.outputs


def _limits(ir: KernelIR, reach: Reach) -> dict[Expr, int]:
    """How long each loop and each dimension in one piece shall be."""
    looped = _looped(ir)
    left = _in_one_piece(looped)
    dots = [op for op in looped.walk() if op.kind in PRODUCTS]
    multiplied = {d.extent for op in dots for v in (*op.values, *op.outputs) for d in v.dims}
    loops = (t.end - t.begin for t in ir.tiles.values() if isinstance(t.begin, Expr) and isinstance(t.end, Expr))
    return {length: reach.loop for length in loops if _is_open(ir, length)} | {
        extent: ROLLED if extent not in left else reach.in_product if extent in multiplied else reach.whole
        for extent in _in_one_piece(ir)
    }


class _Groups:
    """Sizes that guards or extents tie to one another are scaled together, so that what they say stays true."""

    def __init__(self, ir: KernelIR, extents: Iterable[Expr]) -> None:
        self._home: dict[str, str] = {}
        self._extents = tuple(extents)
        self._fixed: set[str] = set()
        for extent in self._extents:
            self._tie(extent.symbols())
        for guard in ir.guards:
            if guard.op == "eq" and guard.symbols() <= ir.hints.keys():
                self._tie(guard.symbols())
                if any(side.constant is not None for side in guard.args):
                    self._fixed |= guard.symbols()

    def __iter__(self) -> Iterator[tuple[list[str], list[Expr]]]:
        homes = {self._root(next(iter(e.symbols()))) for e in self._extents}
        for home in sorted(homes - {self._root(s) for s in self._fixed}):
            symbols = [s for s in self._home if self._root(s) == home]
            yield symbols, [e for e in self._extents if e.symbols() <= set(symbols)]

    def _root(self, symbol: str) -> str:
        while (home := self._home.setdefault(symbol, symbol)) != symbol:
            symbol = home
        return symbol

    def _tie(self, symbols: Iterable[str]) -> None:
        first, *rest = sorted(symbols)
        for symbol in rest:
            self._home[self._root(symbol)] = self._root(first)
        self._root(first)


def _scaled(ir: KernelIR, symbols: list[str], limits: dict[Expr, int]) -> dict[str, int]:
    """The hints of ``symbols``, doubled as long as no extent is longer than its limit."""
    hints = {s: ir.hints[s] for s in symbols}
    while True:
        longer = {s: 2 * max(n, 1) for s, n in hints.items()}
        lengths = {e: e.evaluate(longer) for e in limits}
        if any(_covering(lengths[e]) > limit for e, limit in limits.items()):
            return hints
        if not any(lengths[e] > e.evaluate(hints) for e in limits):  # a difference that no scale changes
            return hints
        hints = longer


def _covering(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()
