"""Blocks that several launches share, as those over a list of tensors do: chosen for all of them.

A loop over a list of tensors is a launch for each tensor, and all have one block. Of the last tensor's one number an
optimiser's step had blocks of 1, and took 37 ms for its 62 million (an H200, 2026-11-30).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from math import prod

from ..config import Choice
from ..ir.graph import KernelIR
from ..ir.op_table import PRODUCTS
from ..space.knobs import NUM_WARPS
from ..space.names import is_block
from .few_programs import MIN_WARPS
from .sizes import chosen_sizes, programs

LEAST_LANES = 32 * MIN_WARPS  # of a program: what fewer take is hardly less
A_PROGRAM = 32  # lanes that another program is worth
AS_FEW = 1.2  # times as many lanes count as equal
Blocks = tuple[tuple[str, Choice], ...]


def together(regions: Sequence[KernelIR], each: Sequence[Mapping[str, Choice]]) -> dict[str, Choice]:
    """The knobs of all launches, of which ``each`` wants some by itself. What several want is as the last one wants it
    by whose blocks all programs together have few lanes; a launch takes that one's warps along, which go with its
    blocks. Launches with products have the last one's knobs."""
    wanted = {name: choice for own in each for name, choice in own.items()}
    own_blocks = [tuple((name, size) for name, size in own.items() if is_block(name)) for own in each]
    if len({*own_blocks}) == 1 or any(op.kind in PRODUCTS for ir in regions for op in ir.walk()):
        return wanted
    lanes = {blocks: sum(map(_lanes, regions, each, repeat(blocks))) for blocks in {*own_blocks}}
    few = AS_FEW * min(lanes.values())
    best = max(n for n, blocks in enumerate(own_blocks) if lanes[blocks] <= few)
    wanted |= each[best]
    for ir, own in zip(regions, each, strict=True):
        if any(is_block(name) and wanted[name] != choice for name, choice in own.items()):
            wanted[NUM_WARPS.name(ir)] = each[best].get(NUM_WARPS.name(regions[best]), NUM_WARPS.default)
    return wanted


def _lanes(ir: KernelIR, own: Mapping[str, Choice], blocks: Blocks) -> int:
    """Lanes of all programs of a launch by another one's blocks, with what the programs themselves are worth."""
    sizes = chosen_sizes(ir, {**own, **dict(blocks)})
    lanes = prod(ir.tiles[name].block.evaluate(sizes) for name in ir.grid)
    return programs(ir, sizes) * (max(lanes, LEAST_LANES) + A_PROGRAM)
