"""The knob of loops whose turns the blocks of a cluster share, and what its configs must satisfy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..config import Constraint, Direction, Knob
from ..expr import Expr, all_of
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR
from ..ir.types import itemsize
from ..passes.cluster_loops import Joined, SharedLoops, shared_loops
from ..passes.roll import rollable
from ..target import Target
from .extents import Extents
from .knobs import LOOP_CTAS, NUM_WARPS, PERSISTENT, STATIC, UNROLL
from .names import loop_site

BOXES = 1 << 15  # bytes of a block's shared memory, at most (:mod:`tileflow.emit.cluster_loops`)
# Bytes of a box, at least, and what it begins at a multiple of. Triton's own shared memory begins behind all boxes,
# and the copy engine's tiles in it lie at multiples of 1024.
LEAST_BOX = 1 << 10
FEW = 8  # registers at once of a tile of fewer elements than threads, several of which hold each
MOST_REGISTERS = 64  # of a thread's sums, each an operand of one assembly text, which then has as many results
# Of a variant for any size: most blocks of a multiprocessor, and least turns of a block. Others are for other variants.
MOST_AT_ONCE, LEAST_TURNS = 2, 4
_REGISTER = 4  # bytes


def cluster_loop_knob(ir: KernelIR, target: Target, known: Mapping[str, Knob]) -> Iterator[Knob]:
    """How many blocks of a cluster share the turns of a region's loops; the knob is the first one's. Each reduction
    around them is in one piece, for the loops are to be all that there are, or is the loops itself; a program has one
    tile, since a box in shared memory is not used again; and turns are neither unrolled nor written out, for a block
    may have none."""
    found = _found(ir, target)
    if found is None:
        return
    site = loop_site(ir, found.tile)
    alone = [PERSISTENT.symbol(ir).eq(0)]
    alone += [Expr.sym(r).ne(0) if r == found.rolled else Expr.sym(r).eq(0) for r in rollable(ir)]
    each = dict.fromkeys(loop_site(ir, tile) for tile in found.tiles)
    alone += [k.symbol(of).eq(int(k.default)) for of in each for k in (STATIC, UNROLL) if k.name(of) in known]
    yield LOOP_CTAS.at(site, all_of(alone))


def cluster_loop_constraints(ir: KernelIR, extents: Extents, target: Target) -> Iterator[Constraint]:
    """What blocks put together is few enough registers for a text that names each."""
    found = _found(ir, target)
    if found is None:
        return
    site, down = loop_site(ir, found.tile), list[tuple[str, Direction]]()
    down.append((LOOP_CTAS.name(site), "down"))
    declared = Expr.of(0)
    for joined in found.joined:
        declared = declared + least_declared(ir, extents, joined, target)
        words = extents.elements(joined.dims) * itemsize(joined.dtype)
        threads = NUM_WARPS.symbol(ir) * target.warp_size
        yield Constraint(
            f"blocks of a cluster put together {words} bytes of {site}",
            LOOP_CTAS.symbol(site).eq(1).or_(words.le(threads * (MOST_REGISTERS * _REGISTER))),
            tuple(down),
            f"blocks of a cluster put together at most {MOST_REGISTERS} registers of each thread",
        )
    yield from _serves_the_example(found, site, extents, target, tuple(down))
    yield Constraint(
        f"boxes for what blocks put together of {site}",
        LOOP_CTAS.symbol(site).eq(1).or_(declared.le(BOXES)),
        tuple(down),
        f"the boxes for all that blocks put together, two for each text, are {BOXES} bytes of shared memory at most",
    )


def _serves_the_example(
    found: SharedLoops, site: str, extents: Extents, target: Target, down: tuple[tuple[str, Direction], ...]
) -> Iterator[Constraint]:
    """A variant for any size takes the call that it was lowered for, as its guards have it."""
    ir, ctas = found.region, LOOP_CTAS.symbol(site)
    ends = [(ir.tiles[name].begin, ir.tiles[name].end) for name in (*found.tiles, *ir.grid)]
    known = [
        isinstance(b, Expr) and isinstance(e, Expr) and (b.symbols() | e.symbols()) <= ir.hints.keys() for b, e in ends
    ]
    if ir.mode == "static" or not all(known):
        return
    programs = Expr.of(1)
    for name in ir.grid:
        programs = programs * Expr.of(tile_length(ir, name)).cdiv(ir.tiles[name].block.substitute(ir.hints))
    few = (programs * ctas).le(MOST_AT_ONCE * target.sm_count)
    many = all_of([(ctas * _block(found, t) * LEAST_TURNS).le(tile_length(ir, t)) for t in found.tiles])
    yield Constraint(
        f"few programs of many turns share {site}",
        ctas.eq(1).or_(few.and_(many)),
        down,
        f"blocks of a cluster share a loop of at least {LEAST_TURNS} turns for each, and there are at most "
        f"{MOST_AT_ONCE} for each multiprocessor",
    )


def _block(found: SharedLoops, tile: str) -> Expr:
    """Elements of a turn."""
    return (
        Expr.sym(found.rolled) if found.rolled else found.region.tiles[tile].block.substitute(found.region.hints)
    ).max(1)


def least_declared(ir: KernelIR, extents: Extents, joined: Joined, target: Target) -> Expr:
    """Bytes of shared memory that the texts of a sum declare where each hands on one register a thread at a time."""
    threads = NUM_WARPS.symbol(ir) * target.warp_size
    box = (threads * itemsize(joined.dtype)).max(LEAST_BOX)
    return texts(extents.elements(joined.dims), threads, len(joined.dims)) * box * 2


def texts(elements: Expr, threads: Expr, axes: int) -> Expr:
    """How many assembly texts the sum of a tile may be: Triton repeats one where a thread has more registers than it
    names, of elements that several threads hold. A vector's may all be one thread's."""
    return elements.cdiv(FEW) if axes == 1 else elements.lt(threads * FEW) * 3 + 1


def boxes(ir: KernelIR, knobs: Mapping[str, Knob]) -> Expr:
    """Bytes of shared memory that blocks hand sums on by, beside all else."""
    found = shared_loops(ir)
    name = LOOP_CTAS.name(loop_site(ir, found.tile)) if found is not None else ""
    return Expr.sym(name).ne(1) * BOXES if name in knobs else Expr.of(0)


def _found(ir: KernelIR, target: Target) -> SharedLoops | None:
    """The loops that have the knob; None where there are none, or none of several turns."""
    found = shared_loops(ir) if target.has_clusters else None
    return found if found is not None and any(tile_length(found.region, t) > 1 for t in found.tiles) else None
