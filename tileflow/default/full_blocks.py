"""Where masks stand in branches by default: in loops whose masks feed products alone, as those of gradients do.

The gradients of keys and values (64 keys, 128 queries a turn, D = 64) keep their registers, and a turn has 516
instructions in place of 646 to 725: 1.035 to 1.067 times the speed of the whole call on an H200
(docs/measurements/warp-specialisation.md, *Gradients*). Attention's forward turn, whose masked scores are reduced too,
has 521 in place of 655, but takes 205 registers a thread in place of 156: two programs a multiprocessor in place of
three. Which is faster there was not measured.
"""

from __future__ import annotations

from ..config import Choice
from ..ir.attributes import TileAttrs
from ..ir.graph import KernelIR, walk
from ..ir.kinds import OpKind
from ..space.knobs import FULL_BLOCKS
from ..space.names import loop_site

_BESIDE_MASKS = frozenset({OpKind.REDUCE, OpKind.SCAN, OpKind.FOR, OpKind.WHILE})


def full_blocks_config(ir: KernelIR) -> dict[str, Choice]:
    """The choice for each loop of a region, whether or not the space has the knob there."""
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    return {
        FULL_BLOCKS.name(loop_site(ir, TileAttrs.of(op).tile)): True
        for op in loops
        if not any(inner.kind in _BESIDE_MASKS for inner in walk(op.regions[0]))
    }
