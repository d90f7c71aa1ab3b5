"""The knob of loops whose turns the blocks of a cluster share, and what its configs must satisfy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..config import Constraint, Direction, Knob
from ..expr import Expr, all_of
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR
from ..ir.types import itemsize
from ..passes.cluster_loops import SharedLoops, shared_loops
from ..passes.roll import rollable
from ..target import Target
from .extents import Extents
from .knobs import LOOP_CTAS, NUM_WARPS, PERSISTENT, SCHEDULE, STATIC, TUNABLE, UNROLL
from .names import loop_site

BOXES = 1 << 15  # bytes of a block's shared memory, at most (:mod:`tileflow.emit.cluster_boxes`)
MOST_REGISTERS = 64  # of a thread's sums, each an operand of one assembly text, which then has as many results
# Of a variant for any size: most blocks of a multiprocessor, and least turns of a block. Others are for other variants.
MOST_AT_ONCE, LEAST_TURNS = 2, 4
_REGISTER = 4  # bytes


def cluster_loop_knob(ir: KernelIR, target: Target, known: Mapping[str, Knob]) -> Iterator[Knob]:
    """How many blocks of a cluster share the turns of a region's loops; the knob is the first one's. Each reduction
    around them is in one piece, for the loops are to be all that there are, or is the loops itself; a program has one
    tile, since clusters are for few of them; and turns are neither unrolled nor written out, for a block may have
    none."""
    found = _found(ir, target)
    if found is None:
        return
    site = loop_site(ir, found.tile)
    alone = [PERSISTENT.symbol(ir).eq(0)]
    alone += [Expr.sym(r).ne(0) if r == found.rolled else Expr.sym(r).eq(0) for r in rollable(ir)]
    each = dict.fromkeys(loop_site(ir, tile) for tile in found.tiles)
    alone += [k.symbol(of).eq(int(k.default)) for of in each for k in (STATIC, UNROLL) if k.name(of) in known]
    yield LOOP_CTAS.at(site, all_of(alone))


def has_shared_loops(ir: KernelIR, target: Target) -> bool:
    """Whether a region has the knob."""
    return _found(ir, target) is not None


def cluster_loop_constraints(
    ir: KernelIR, extents: Extents, knobs: Mapping[str, Knob], target: Target
) -> Iterator[Constraint]:
    """What blocks put together is few enough registers for a text that names each, where the launch is pipelined."""
    found = _found(ir, target)
    if found is None:
        return
    site, down = loop_site(ir, found.tile), list[tuple[str, Direction]]()
    down.append((LOOP_CTAS.name(site), "down"))
    alone = LOOP_CTAS.symbol(site).eq(1)
    if SCHEDULE.name(ir) in knobs:
        alone = alone.or_(SCHEDULE.symbol(ir).ne(SCHEDULE.encoded(SCHEDULE.default)))
    for joined in found.joined:
        words = extents.elements(joined.dims) * itemsize(joined.dtype)
        threads = NUM_WARPS.symbol(ir) * target.warp_size
        yield Constraint(
            f"blocks of a cluster put together {words} bytes of {site}",
            alone.or_(words.le(threads * (MOST_REGISTERS * _REGISTER))),
            tuple(down),
            f"blocks of a cluster put together at most {MOST_REGISTERS} registers of each thread",
        )
    yield from _serves_the_example(found, site, extents, target, tuple(down))


def _serves_the_example(
    found: SharedLoops, site: str, extents: Extents, target: Target, down: tuple[tuple[str, Direction], ...]
) -> Iterator[Constraint]:
    """A variant for any size takes the call that it was lowered for, as its guards have it: none is about the turns of
    a loop whose bounds only the device knows."""
    ir, ctas = found.region, LOOP_CTAS.symbol(site)
    if ir.mode == "static":
        return
    programs = Expr.of(1)
    for name in ir.grid:
        length = _length(ir, name)
        if length is None:
            return
        programs = programs * length.cdiv(ir.tiles[name].block.substitute(ir.hints))
    few = (programs * ctas).le(MOST_AT_ONCE * target.sm_count)
    turns = [(ctas * _block(found, t) * LEAST_TURNS, _length(ir, t)) for t in found.tiles]
    many = all_of([least.le(length) for least, length in turns if length is not None])
    yield Constraint(
        f"few programs of many turns share {site}",
        ctas.eq(1).or_(few.and_(many)),
        down,
        f"blocks of a cluster share a loop of at least {LEAST_TURNS} turns for each, and there are at most "
        f"{MOST_AT_ONCE} for each multiprocessor",
        of_example=True,
    )


def _length(ir: KernelIR, name: str) -> Expr | None:
    """How many indices a tile has in the example, by the knobs that host code asks for; None where only the device
    knows."""
    begin, end = ir.tiles[name].begin, ir.tiles[name].end
    if not isinstance(begin, Expr) or not isinstance(end, Expr):
        return None
    length = (end - begin).substitute(ir.hints)
    knobs = {block.name for block in ir.blocks}
    is_known = all(symbol in knobs or TUNABLE.matches(symbol) for symbol in length.symbols())
    return length.max(0) if is_known else None


def _block(found: SharedLoops, tile: str) -> Expr:
    """Elements of a turn."""
    return (
        Expr.sym(found.rolled) if found.rolled else found.region.tiles[tile].block.substitute(found.region.hints)
    ).max(1)


def boxes(ir: KernelIR, knobs: Mapping[str, Knob]) -> Expr:
    """Bytes of shared memory that blocks hand sums on by, beside all else."""
    found = shared_loops(ir)
    name = LOOP_CTAS.name(loop_site(ir, found.tile)) if found is not None else ""
    return Expr.sym(name).ne(1) * BOXES if name in knobs else Expr.of(0)


def _found(ir: KernelIR, target: Target) -> SharedLoops | None:
    """The loops that have the knob; None where there are none, or none of several turns."""
    found = shared_loops(ir) if target.has_clusters else None
    return found if found is not None and any(tile_length(found.region, t) > 1 for t in found.tiles) else None
