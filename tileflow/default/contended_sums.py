"""The order of programs that add to elements which loaded values choose, as to the bins of histograms.

Programs that run beside each other and add to the same few elements wait for one another at the memory's atomics.
Where an axis of the grid says whose elements they are, as of one histogram for each period, that axis runs fastest.
"""

from __future__ import annotations

from ..config import Choice
from ..ir.analysis import follows_a_load, stepped_tiles
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..space.knobs import ORDER
from ..target import Target


def contended_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The one axis last, and so fastest, that says by itself whose elements a program adds to, where values choose
    among these and another axis shares them: profiles of 64 periods 2342 us with the periods outermost and 464 so,
    joint histograms of 64 pairs of pictures 357 and 239 (H100, 2026-11-28). Empty for others."""
    sums = [op for op in ir.walk() if op.kind is OpKind.ATOMIC]
    if target.vendor != "nvidia" or len(ir.grid) < 2 or not sums or not all(is_chosen(ir, op) for op in sums):
        return {}
    named = {tile for op in sums for item in AccessAttrs.of(op).index for tile in stepped_tiles(ir, op, item)}
    own = [n for n, tile in enumerate(ir.grid) if tile in named]
    if len(own) != 1 or own[0] == len(ir.grid) - 1:
        return {}
    others = [n for n in range(len(ir.grid)) if n != own[0]]
    return {ORDER.name(ir): ",".join(map(str, (*others, own[0])))}


def is_chosen(ir: KernelIR, op: Op) -> bool:
    """Whether a loaded value says which element is added to."""
    return any(
        isinstance(item, ValueIndex) and not stepped_tiles(ir, op, item) and follows_a_load(ir, op.inputs[item.input])
        for item in AccessAttrs.of(op).index
        if not isinstance(item, TileIndex)
    )
