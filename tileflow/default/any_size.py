"""What variants for any size have beside the example's own config, each with the sizes at which it is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import prod

from ..config import Choice
from ..expr import TRUE, Expr
from ..ir.graph import KernelIR
from ..ir.types import itemsize
from ..passes.unit_batches import as_matrices
from ..schedule.computed import Computed
from ..schedule.single import Single
from ..schedule.structure import find_structure
from ..space.cluster_loops import MOST_AT_ONCE
from ..space.knobs import LOOP_CTAS, SCHEDULE
from ..space.names import is_block, loop_site
from ..space.schedules import refusal
from ..target import Target
from .cluster_loops import JOINED_US
from .copied_operands import BEGIN_NS, copies_fit, copies_ns, pipelined_ns
from .sizes import length_over, programs_over, symbol, times
from .specialised import tiles_of_copies
from .split_products import both_tiles
from .ways import IN_PARTS, OF_HALVES, Way, all_at_once, at_once, ends_over, shared_over, soonest, ways_of

# nanoseconds of a turn of 64 numbers of 16 bits, of a pipelined block of up to so many sums
PIPELINED_NS = {64 * 64: 170, 64 * 128: 200, 128 * 128: 340, 128 * 256: 650}
PIPELINED_TURN = 64
NEVER_NS = 1 << 50  # what does not run at once is taken to end then
LATER_NS = 1500  # that a warp-specialised kernel begins later


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
    """Warp-specialised ways of a launch, for which the ``chosen`` knobs are the example's, in the order in which they
    are tried, each with its condition on a call's sizes. None where one way is as good as any, or was not compared.
    ``is_copied``: of a variant whose operands are all copied."""
    if refusal(ir, target):
        return ()
    is_pipelined = chosen.get(SCHEDULE.name(ir), SCHEDULE.default) == SCHEDULE.default
    ir = as_matrices(ir)
    found = find_structure(ir)
    if isinstance(found, Computed):
        return () if is_pipelined else _of_computed(ir, found, chosen, target)
    if not isinstance(found, Single) or len(found.products) > 1:
        return ()
    if found.is_split or found.copied or is_copied:
        return () if is_pipelined else _of_specialised(ir, found, chosen, target)
    return _of_halves(ir, found, chosen, target)


def _of_computed(
    ir: KernelIR, found: Computed, chosen: Mapping[str, Choice], target: Target
) -> tuple[tuple[Mapping[str, Choice], Expr], ...]:
    """Blocks of clusters, where the example has them, for calls of which all run at once, and one block a tile else:
    what was timed is the example's size alone."""
    name = LOOP_CTAS.name(loop_site(ir, found.keys))
    blocks = chosen.get(name, 1)
    if not isinstance(blocks, int) or blocks == 1:
        return ()
    fits = (programs_over(ir, chosen) * blocks).le(at_once(target, blocks))
    return (chosen, fits), ({**chosen, name: 1}, TRUE)


def _of_specialised(
    ir: KernelIR, found: Single, chosen: Mapping[str, Choice], target: Target
) -> tuple[tuple[Mapping[str, Choice], Expr], ...]:
    """Blocks of clusters where all run at once, whichever end sooner, then tiles likewise: one tile of a float32
    product is at 0.6 times another's speed at some sizes. The last way has no condition."""
    tiles = both_tiles(ir, found, target) if found.is_split else tiles_of_copies(ir, found)
    shared_tile = IN_PARTS[1] if found.is_split else OF_HALVES[1]
    shared = ways_of(ir, found, target, (shared_tile,), blocks=(8, 4, 2), of_any_size=True)
    known = [*shared, *tiles, *ways_of(ir, found, target, of_any_size=True)]
    own = next((way for way in known if _is_chosen(way, chosen)), None)
    if own is None or not tiles:
        return ()
    if own.blocks > 1:
        shared = [own, *(way for way in shared if way is not own)]
    elif own not in tiles:
        tiles = [own, *tiles]
    ends = [ends_over(ir, way, found.keys, target) for way in tiles]
    first = [ends[n].le(reduce(Expr.min, ends)) for n in range(len(tiles) - 1)]
    of_tiles = zip((way.knobs for way in tiles), (*first, TRUE), strict=True)
    return (*_soonest_at_once(ir, shared, found.keys, target), *of_tiles)


def _soonest_at_once(
    ir: KernelIR, ways: Sequence[Way], keys: str, target: Target
) -> Iterator[tuple[Mapping[str, Choice], Expr]]:
    """Ways of clusters, each with the condition that all its blocks run at once, and no other such way ends sooner."""
    fits = [all_at_once(ir, way, target) for way in ways]
    ends = [shared_over(ir, way, keys) + fit.eq(0) * NEVER_NS for way, fit in zip(ways, fits, strict=True)]
    for way, fit, its in zip(ways, fits, ends, strict=True):
        yield way.knobs, fit.and_(its.le(reduce(Expr.min, ends)))


def _of_halves(
    ir: KernelIR, found: Single, chosen: Mapping[str, Choice], target: Target
) -> tuple[tuple[Mapping[str, Choice], Expr], ...]:
    """Of products of 16 bits: tiles that all run at once, by blocks of clusters or one each, where the pipelined blocks
    of an example of another size would take longer. At ten sizes these had 1.17 times the speed of such variants in the
    mean, 0.9 at least (docs/data/shared-turns-h100.json). An example that is shared by clusters itself is so where all
    blocks run at once, and pipelined else."""
    others = [name for name in ir.grid if name not in (found.rows, found.columns.tile)]
    if others or found.parts is not None or found.is_ragged or itemsize(found.product.values[0].type.dtype) != 2:
        return ()
    ways = ways_of(ir, found, target, (OF_HALVES[1],), blocks=(8, 4, 2, 1), of_any_size=True)
    schedule: dict[str, Choice] = {SCHEDULE.name(ir): "warp_specialised"}
    if chosen.get(SCHEDULE.name(ir), SCHEDULE.default) != SCHEDULE.default:
        known = [*ways, *ways_of(ir, found, target, of_any_size=True)]
        own = next((way for way in known if way.blocks > 1 and _is_chosen(way, chosen)), None)
        if own is None:
            return ()
        shared = sorted({id(way): way for way in (own, *ways)}.values(), key=lambda way: -way.blocks)
        return tuple((way.knobs, all_at_once(ir, way, target)) for way in shared)
    takes = pipelined_over(ir, found, chosen, target)
    if takes is None:
        return ()
    sooner = [(shared_over(ir, way, found.keys) + LATER_NS).lt(takes) for way in ways]
    conditions = [all_at_once(ir, way, target).and_(is_so) for way, is_so in zip(ways, sooner, strict=True)]
    return tuple((way.knobs | schedule, when) for way, when in zip(ways, conditions, strict=True))


def pipelined_over(ir: KernelIR, found: Single, chosen: Mapping[str, Choice], target: Target) -> Expr | None:
    """What the turns of pipelined blocks take, in nanoseconds, over the call's sizes; None of blocks as large as none
    that was measured."""
    sides = (chosen.get(ir.tiles[found.rows].block.args[0]), chosen.get(symbol(found.columns)))
    sums = prod(side for side in sides if isinstance(side, int)) * times(found.columns)
    turn_ns = next((ns for most, ns in PIPELINED_NS.items() if sums <= most), None)
    if turn_ns is None:
        return None
    count, turns = programs_over(ir, chosen), length_over(ir, found.keys).cdiv(PIPELINED_TURN)
    alone = count.cdiv(target.sm_count) * turns * turn_ns
    blocks = chosen.get(LOOP_CTAS.name(loop_site(ir, found.keys)), 1)
    if not isinstance(blocks, int) or blocks == 1:
        return alone
    few = (count * blocks).le(MOST_AT_ONCE * target.sm_count)  # as the variant of clusters guards
    shared = (count * blocks).cdiv(target.sm_count) * turns.cdiv(blocks) * turn_ns + int(1000 * JOINED_US[blocks])
    return few * shared + few.eq(0) * alone


def _is_chosen(way: Way, chosen: Mapping[str, Choice]) -> bool:
    """Whether a way has the chosen blocks, of a tile or a cluster."""
    sizes = {name: size for name, size in way.knobs.items() if is_block(name) or LOOP_CTAS.matches(name)}
    return all(chosen.get(name) == size for name, size in sizes.items())
