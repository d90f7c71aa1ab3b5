"""How much of a whole dimension, which no block size changes, a program holds at once."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.pressure import on_the_way
from ..ir.types import Dim, Value
from ..passes.folds import folded
from ..passes.roll import roll, rollable
from ..space.knobs import ROW
from .columns import tall_dims
from .sizes import block_symbols, pow2

ONE_PIECE = 1 << 15  # elements of a row that a program keeps in registers
JOINED_PIECE = 1 << 14  # where a loop reads them once as well
JOINED_BLOCK = 1 << 13
LIVE_ELEMENTS = 1 << 17  # that it keeps in all: what is not used at once shares registers
LOOP_BLOCK = 1 << 12
NEIGHBOURS = 32  # that a block beside it takes
SHORT_VECTOR = 64  # elements


def held_rows(ir: KernelIR, live: int) -> dict[str, int]:
    """How much of each whole dimension is held at once: 0 for all of it, as far as registers hold that. What a row
    that is only stored does at once all lives at once, and a loop over it reads nothing again."""
    wanted: dict[str, int] = {}
    tall, paired = tall_dims(ir, live, LIVE_ELEMENTS), _paired_rows(ir)
    for site, dim in rollable(ir).items():
        beside = _beside(ir, dim)
        size, kept = pow2(ir.hint(dim.extent)), LIVE_ELEMENTS // (2 if ROW.matches(site) else 1)
        # of two whole dimensions the longer one is rolled, of two as long the one that is farther apart in memory
        is_other = beside > size or (beside == size and _is_last(ir, dim))
        fits = beside * size <= ONE_PIECE or is_other
        wanted[site] = 0 if fits and size * live <= kept else max(LOOP_BLOCK // beside, 1)
        if dim in tall and wanted[site] == 0 and size > LOOP_BLOCK // NEIGHBOURS:
            wanted[site] = max(LOOP_BLOCK // (beside * NEIGHBOURS), 1)
        if size > JOINED_PIECE and _is_read_once(ir, site):
            wanted[site] = max(JOINED_BLOCK // beside, 1)
        if site == paired:
            wanted[site] = 1
    return wanted


def _paired_rows(ir: KernelIR) -> str:
    """The first of two whole dimensions, of which a tile has all pairs that one piece does not hold, where neither is
    farther apart in memory: a turn of its loop has one element, beside all of the other (losses of 200 x 200 quantiles
    12.7 ms by both whole, 0.55 so; H100, by hand, 2026-11-26). Empty where there is none."""
    last = {site: dim for site, dim in rollable(ir).items() if _is_last(ir, dim)}
    tiles = {frozenset(v.dims) for op in ir.walk() for v in op.outputs}
    for site, dim in last.items():
        size = pow2(ir.hint(dim.extent))
        others = [other for other in last.values() if other != dim and pow2(ir.hint(other.extent)) == size]
        is_met = any({dim, other} <= tile for other in others for tile in tiles)
        if is_met and _beside(ir, dim) == size and size**2 > ONE_PIECE:
            return site
    return ""


def _is_last(ir: KernelIR, dim: Dim) -> bool:
    """Whether loads have a dimension as their last."""
    return any(op.output.dims[-1:] == (dim,) for op in ir.walk() if op.kind is OpKind.LOAD)


def _beside(ir: KernelIR, dim: Dim) -> int:
    """The most elements of a register tile for each that it has along a whole dimension, blocks aside."""
    found = [1]
    for op in ir.walk():
        for dims in (v.dims for v in op.outputs if dim in v.dims and v not in on_the_way(ir)):
            whole = [d.extent for d in dims if d != dim and d.extent.symbols() <= ir.hints.keys()]
            found.append(prod(pow2(ir.hint(e)) for e in whole))
    return max(found)


def _is_read_once(ir: KernelIR, site: str) -> bool:
    """Whether reductions over a dimension that need one another are one loop over it. In one piece all of a row is
    there before the first of them ends, and a multiprocessor has no other loads meanwhile: logarithms of sums of
    exponentials of 4096 x 32768 numbers took 102 us so and take 68 (bfloat16, H200, by hand, 2026-11-26)."""
    if _loops(roll(ir, site)) != _loops(ir) + 1:
        return False
    follows, dim = set[Value](), rollable(ir)[site]
    for op in ir.walk():
        follows_one = not follows.isdisjoint(op.values)
        reduces = folded(op) == dim
        if reduces and follows_one:
            return True
        if reduces or follows_one:
            follows.update(op.outputs)
    return False


def _loops(ir: KernelIR) -> int:
    return sum(op.kind is OpKind.FOR for op in ir.walk())


def whole_elements(ir: KernelIR, wanted: Mapping[str, Choice]) -> int:
    """Elements of the largest register tile over dimensions that no block size changes; ``wanted``: how much of those
    that loops may be made for is held at once. A short vector that no tile of blocks has along with them is none of
    it: of the blocks each program has one more tile, not each element a row."""
    return max(whole_elements_beside(ir, wanted).values(), default=1)


def whole_elements_beside(ir: KernelIR, wanted: Mapping[str, Choice]) -> dict[frozenset[str], int]:
    """The same of the tiles that have certain blocks, by the symbols of these."""
    blocks = {dim: int(wanted[site]) for site, dim in rollable(ir).items()}
    sizes: dict[frozenset[str], int] = {}
    for op in ir.walk():
        for value in op.outputs:
            whole = [d for d in value.dims if d.extent.symbols() <= ir.hints.keys()]
            size = prod(blocks.get(d) or pow2(ir.hint(d.extent)) for d in whole)
            is_tile = size > SHORT_VECTOR or len(whole) < len(value.dims) or not ir.blocks
            if is_tile and value not in on_the_way(ir):
                symbols = block_symbols(ir, value)
                sizes[symbols] = max(sizes.get(symbols, 1), size)
    return sizes
