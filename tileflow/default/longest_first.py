"""Tiles of unequal work, as a causal loop's rows are: the longest of several heads come first.

A tile of rows that begins later has more turns, or fewer. The author's grid goes over the tiles of one head, then over
those of the next; so the longest tile of the last head begins when the rest of the grid is nearly over: 16 heads of
4000 rows had 0.78 of the speed of torch's attention, and 1.13 where the longest tiles of all heads come first, their
gradients at 2048 rows 1.4 times as much (H200, 2026-11-26). It is Graham's rule for schedules, the longest processing
time first (1969). Heads whose tiles are mixed share the second-level cache: no more of them than their keys fit there.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.attributes import AccessAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, walk
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES
from ..ir.types import Value, itemsize
from ..space.grids import growing_tiles
from ..space.knobs import DESCENDING, GROUP, ORDER, PERSISTENT
from ..target import Target
from .sizes import tiles_of_axes

MOST_COUNTED = 1 << 13  # tiles, beyond which no order leaves much of a difference
EVEN = 1.05  # the last multiprocessor's end, as a multiple of the mean's, by which a smaller section is good enough
SHARED_BY = 4  # programs that read the keys of one head, of heads that do not fit the cache


def longest_first(ir: KernelIR, chosen: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """The order of the grid's axes by which its tiles come out most even under the chosen blocks; none where it is the
    author's, or where programs walk over tiles. Measured on NVIDIA's devices alone."""
    last, fits = len(ir.grid) - 1, _sections(ir, chosen, target)
    share = section_of(ir, chosen, target)
    if not fits or share == fits[last]:
        return {}
    outer = min(n for n, heads_inside in fits.items() if heads_inside == share)
    return {ORDER.name(ir): ",".join(map(str, (*range(outer), last, *range(outer, last))))}


def section_of(ir: KernelIR, chosen: Mapping[str, Choice], target: Target) -> int:
    """How many heads the longest tiles come first of, under the chosen blocks; one where the order is the author's."""
    fits, tiles = _sections(ir, chosen, target), tiles_of_axes(ir, chosen)
    if not fits:
        return 1
    return _best_section(tiles[-1], sorted(set(fits.values())), prod(tiles[:-1]), target.sm_count)


def _sections(ir: KernelIR, chosen: Mapping[str, Choice], target: Target) -> dict[int, int]:
    """By the axis in front of which the rows' may stand, how many heads' tiles are mixed then; none where the order
    stays. In front of the last axis is the author's order."""
    last, count = len(ir.grid) - 1, target.sm_count
    loops = _unequal_loops(ir, chosen)
    is_plain = not chosen.get(PERSISTENT.name(ir)) and chosen.get(GROUP.name(ir), 1) == 1
    tiles = tiles_of_axes(ir, chosen)
    if last < 1 or not loops or not is_plain or target.vendor != "nvidia" or not count < prod(tiles) <= MOST_COUNTED:
        return {}
    inside = {n: prod(tiles[n:-1]) for n in range(last + 1)}
    heads = prod(tiles[:-1])
    return {n: share for n, share in inside.items() if n == last or _is_at_hand(ir, loops, share, heads, target)}


def _unequal_loops(ir: KernelIR, chosen: Mapping[str, Choice]) -> list[Op]:
    """The loops that end where a tile of the grid's last axis does, if its tiles come from the last to the first; of
    other axes, those that begin where the tile does, whose first one is long as they come."""
    rows = ir.grid[-1] if ir.grid else ""
    grows = rows in growing_tiles(ir)
    if grows and not chosen.get(DESCENDING.name(ir)):
        return []
    corner = OpKind.TILE_END if grows else OpKind.TILE_BEGIN
    corners = {v for op in ir.walk() if op.kind is corner and TileAttrs.of(op).tile == rows for v in op.outputs}

    def is_unequal(op: Op) -> bool:
        tile = ir.tiles[TileAttrs.of(op).tile]
        moving, fixed = (tile.end, tile.begin) if grows else (tile.begin, tile.end)
        return isinstance(moving, Value) and moving in corners and isinstance(fixed, Expr)

    return [op for op in ir.walk() if op.kind is OpKind.FOR and is_unequal(op)]


def _is_at_hand(ir: KernelIR, loops: Iterable[Op], inside: int, heads: int, target: Target) -> bool:
    """Whether what the loops of ``inside`` of the heads read fits the second-level cache, or several programs read
    those of each head at one time. 128 heads of 2 MB in turn had 0.8 of the speed of one after the other."""
    paths = {AccessAttrs.of(op).tensor for loop in loops for op in walk(loop.regions[0]) if op.kind in ACCESSES}
    total = sum(prod(map(ir.hint, ir.tensor(p).shape)) * itemsize(ir.tensor(p).dtype) for p in paths)
    return total * inside // heads <= target.l2_bytes or inside * SHARED_BY <= target.sm_count


# ---- how even an order is ------------------------------------------------------------------------


def turns_in_order(of_a_head: int, heads: int, section: int) -> Iterator[int]:
    """The turns of each tile, in the order of a grid that takes the longest first in sections of so many heads."""
    for head in range(0, heads, section):
        for turns in range(of_a_head, 0, -1):
            yield from (turns for _ in range(min(section, heads - head)))


def dealt(turns: Sequence[int], count: int) -> float:
    """Of ``count`` programs that are dealt tiles to and fro the work of the one that has most, as a multiple of the
    mean."""
    sums = [0] * count
    for number, own in enumerate(turns):
        row, place = divmod(number, count)
        sums[count - 1 - place if row % 2 else place] += own
    return max(sums) * count / sum(sums)


def taken(turns: Iterable[int], count: int) -> float:
    """When the last of ``count`` multiprocessors ends that take a tile whenever they have done one, as a multiple of
    the mean."""
    ends, total = [0] * count, 0
    for own in turns:
        heapq.heapreplace(ends, ends[0] + own)
        total += own
    return max(ends) * count / total


def _best_section(of_a_head: int, sections: Sequence[int], heads: int, count: int) -> int:
    """Of some numbers of heads, from few to many, the first whose tiles come out even when the longest of them are
    taken first; else the one by which they come out most even."""
    ends: dict[int, float] = {}
    for section in sections:
        ends[section] = taken(turns_in_order(of_a_head, heads, section), count)
        if ends[section] <= EVEN:
            return section
    return min(ends, key=lambda section: ends[section])
