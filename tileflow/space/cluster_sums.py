"""The knob of loops whose turns the blocks of a cluster share, and what its configs must satisfy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..config import Constraint, Direction, Knob
from ..expr import Expr, all_of
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR
from ..ir.types import itemsize
from ..passes.cluster_sums import Summing, summing
from ..passes.roll import rollable
from ..target import Target
from .extents import Extents
from .knobs import NUM_WARPS, PERSISTENT, STATIC, SUM_CTAS, UNROLL
from .names import loop_site

BOXES = 1 << 15  # bytes of a block's shared memory, at most (:mod:`tileflow.emit.cluster_sums`)
MOST_REGISTERS = 64  # of a thread's sums, each an operand of one assembly text, which then has as many results
_REGISTER = 4  # bytes


def cluster_sum_knob(ir: KernelIR, target: Target, known: Mapping[str, Knob]) -> Iterator[Knob]:
    """How many blocks of a cluster share the turns of a region's loop. Each reduction around it is in one piece, for
    the loop is to be the only one, or is the loop itself; a program has one tile, since a box in shared memory is not
    used again; and turns are neither unrolled nor written out, for a block may have none."""
    found = _found(ir, target)
    if found is None:
        return
    site = loop_site(ir, found.tile)
    alone = [PERSISTENT.symbol(ir).eq(0)]
    alone += [Expr.sym(r).ne(0) if r == found.rolled else Expr.sym(r).eq(0) for r in rollable(ir)]
    alone += [k.symbol(site).eq(int(k.default)) for k in (STATIC, UNROLL) if k.name(site) in known]
    yield SUM_CTAS.at(site, all_of(alone))


def cluster_sum_constraints(ir: KernelIR, extents: Extents, target: Target) -> Iterator[Constraint]:
    """What a loop carries is few enough registers for a text that names each."""
    found = _found(ir, target)
    if found is None:
        return
    site, down = loop_site(ir, found.tile), list[tuple[str, Direction]]()
    down.append((SUM_CTAS.name(site), "down"))
    for value in found.loop.outputs:
        words = extents.elements(value.dims) * itemsize(value.type.dtype)
        threads = NUM_WARPS.symbol(ir) * target.warp_size
        yield Constraint(
            f"blocks of a cluster add up {words} bytes of {site}",
            SUM_CTAS.symbol(site).eq(1).or_(words.le(threads * (MOST_REGISTERS * _REGISTER))),
            tuple(down),
            f"blocks of a cluster add up at most {MOST_REGISTERS} registers of each thread",
        )


def boxes(ir: KernelIR, knobs: Mapping[str, Knob]) -> Expr:
    """Bytes of shared memory that blocks hand sums on by, beside all else."""
    found = summing(ir)
    name = SUM_CTAS.name(loop_site(ir, found.tile)) if found is not None else ""
    return Expr.sym(name).ne(1) * BOXES if name in knobs else Expr.of(0)


def _found(ir: KernelIR, target: Target) -> Summing | None:
    """The loop that has the knob; None where none has, as one of a single turn."""
    found = summing(ir) if target.has_clusters else None
    return found if found is not None and tile_length(found.region, found.tile) > 1 else None
