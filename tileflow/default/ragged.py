"""First blocks of ragged rows: loops whose bounds are both loaded, along memory.

Such a row begins anywhere, so that turns which are loaded ahead are copied element by element, each with an address and
a mask in registers. A block of twice the mean length, where that is more than a thread each, is therefore mostly copies
that a row does not need.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.analysis import contiguous_tiles, is_ragged, mean_length
from ..ir.graph import KernelIR
from ..target import Target
from .sizes import pow2

WARPS = 4
STAGES = 2  # a row of up to twice the mean has two turns, of which one is ahead


def ragged_limits(ir: KernelIR, sizes: Mapping[str, int], target: Target) -> dict[str, int]:
    """Limits of the blocks of ragged rows along memory: the mean length, and an element for each thread at the least.
    Only those that are below ``sizes``."""
    limits: dict[str, int] = {}
    for name in sorted(contiguous_tiles(ir)):
        block = ir.tiles[name].block
        if block.op != "sym" or not is_ragged(ir, name):
            continue
        limit = max(pow2(mean_length(ir, name)), WARPS * target.warp_size)
        limits[block.args[0]] = max(limit, limits.get(block.args[0], limit))
    return {symbol: limit for symbol, limit in limits.items() if sizes.get(symbol, limit) > limit}
