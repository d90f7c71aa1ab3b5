"""What variants for any size have beside the example's own config, each with the sizes at which it is better."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from ..config import Choice
from ..expr import TRUE, Expr
from ..ir.graph import KernelIR
from ..passes.unit_batches import as_matrices
from ..schedule.computed import Computed
from ..schedule.single import Single
from ..schedule.structure import find_structure
from ..space.knobs import LOOP_CTAS, SCHEDULE
from ..space.names import is_block
from ..space.schedules import refusal
from ..target import Target
from .copied_operands import BEGIN_NS, copies_fit, copies_ns, pipelined_ns
from .specialised import tiles_of_copies
from .split_products import both_tiles
from .ways import IN_PARTS, OF_HALVES, Way, all_at_once, ends_over, soonest, ways_of


def copied_config(
    ir: KernelIR, unaligned: Mapping[str, Choice], target: Target
) -> tuple[dict[str, Choice], Expr] | None:
    """For any rows of one product's operands: the knobs of the schedule whose operands are all copied, and when that is
    worth it, as a condition on a call's sizes, where the pipelined variant has ``unaligned``. None for what has no such
    schedule."""
    if refusal(ir, target):
        return None
    ir = as_matrices(ir)
    found = find_structure(ir)
    if not isinstance(found, Single) or isinstance(found, Computed) or found.is_ragged or found.parts is not None:
        return None
    if not found.by_columns:  # a whole row changes lanes, for which there is no memory
        return None
    ways = both_tiles(ir, found, target) if found.is_split else tiles_of_copies(ir, found)
    way = soonest(ir, ways, found.keys, target)
    if way is None:
        return None
    operands = (found.left, *found.rights)
    ends = reduce(Expr.min, [ends_over(ir, way, found.keys, target) for way in ways])
    pipelined = pipelined_ns(ir, found, unaligned, target) + BEGIN_NS
    worth = (ends + copies_ns(ir, operands)).lt(pipelined).and_(copies_fit(ir, operands, target))
    return {**way.knobs, SCHEDULE.name(ir): "warp_specialised"}, worth


def other_ways(
    ir: KernelIR, chosen: Mapping[str, Choice], target: Target, is_copied: bool
) -> tuple[tuple[Mapping[str, Choice], Expr], ...]:
    """The ways of a warp-specialised launch, of which the ``chosen`` one is the example's, in the order in which they
    are tried, each with its condition on a call's sizes: blocks of clusters where all run at once, the most first, then
    tiles, whichever end sooner. One tile of a float32 product is at 0.6 times another's speed at some sizes. None where
    one way is as good as any, or was not compared. ``is_copied``: of a variant whose operands are all copied."""
    if refusal(ir, target):
        return ()
    ir = as_matrices(ir)
    found = find_structure(ir)
    if not isinstance(found, Single) or isinstance(found, Computed):
        return ()
    if not (found.is_split or found.copied or is_copied):
        return ()
    tiles = both_tiles(ir, found, target) if found.is_split else tiles_of_copies(ir, found)
    shared_tile = IN_PARTS[1] if found.is_split else OF_HALVES[1]
    shared = ways_of(ir, found, target, (shared_tile,), blocks=(8, 4, 2), of_any_size=True)
    known = [*shared, *tiles, *ways_of(ir, found, target, of_any_size=True)]
    own = next((way for way in known if _is_chosen(way, chosen)), None)
    if own is None or not tiles or len(found.products) > 1:
        return ()
    if own.blocks > 1:
        shared = sorted([own, *(way for way in shared if way is not own)], key=lambda way: -way.blocks)
    elif own not in tiles:
        tiles = [own, *tiles]
    ends = [ends_over(ir, way, found.keys, target) for way in tiles]
    first = [ends[n].le(reduce(Expr.min, ends)) for n in range(len(tiles) - 1)]
    of_tiles = zip((way.knobs for way in tiles), (*first, TRUE), strict=True)
    return (*((way.knobs, all_at_once(ir, way, target)) for way in shared), *of_tiles)


def _is_chosen(way: Way, chosen: Mapping[str, Choice]) -> bool:
    """Whether a way has the chosen blocks, of a tile or a cluster."""
    sizes = {name: size for name, size in way.knobs.items() if is_block(name) or LOOP_CTAS.matches(name)}
    return all(chosen.get(name) == size for name, size in sizes.items())
