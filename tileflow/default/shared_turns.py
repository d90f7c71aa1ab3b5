"""Where blocks of a cluster share the turns of a warp-specialised product of 16 bits, by default."""

from __future__ import annotations

from ..config import Choice
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR
from ..ir.types import itemsize
from ..passes.unit_batches import as_matrices
from ..schedule.computed import Computed
from ..schedule.single import Single
from ..schedule.structure import find_structure
from ..space.knobs import SCHEDULE
from ..space.schedules import refusal
from ..target import Target
from .ways import BLOCKS, ends_ns, soonest, ways_of

# Microseconds that such a kernel begins later than a pipelined one: its roles, its barriers, the cluster. Read from 24
# products of 12 sizes (H100, 2026-11-28), of which blocks share the turns of five.
LATER_US = 4.7


def sooner_way(ir: KernelIR, pipelined_us: float, target: Target) -> dict[str, Choice]:
    """The knobs of the way that ends before the pipelined launch does, which takes so long; none where there is none:
    blocks of clusters put together their sums in 2 us so, and in 11 where eight of them are pipelined
    (:mod:`cluster_loops`)."""
    if refusal(ir, target):
        return {}
    ir = as_matrices(ir)
    found = find_structure(ir)
    if not isinstance(found, Single) or isinstance(found, Computed) or found.copied:
        return {}
    others = [name for name in ir.grid if name not in (found.rows, found.columns.tile) and tile_length(ir, name) > 1]
    if others or itemsize(found.product.values[0].type.dtype) != 2:
        return {}
    way = soonest(ir, ways_of(ir, found, target, blocks=BLOCKS[1:]), found.keys, target)
    if way is None or ends_ns(ir, way, found.keys, target) / 1000 + LATER_US >= pipelined_us:
        return {}
    return {**way.knobs, SCHEDULE.name(ir): "warp_specialised"}
