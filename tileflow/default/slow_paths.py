"""Programs that compute sines and cosines: more warps, each lane with fewer of them.

A sine in full precision has a slow way for large arguments, which every element brings along: branches, and some bytes
of local memory for the reduction of the argument. A lane that has many of them holds their registers all at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import mul

from ..config import Choice
from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.types import itemsize
from ..space.knobs import NUM_WARPS
from ..target import Target
from .sizes import chosen_sizes, register_elements

MANY = 8  # registers of a lane's elements: one of float32, two of float64
_REGISTER = 4  # bytes
MOST_WARPS = 16
_TURNING = ("sin", "cos")


def slow_path_config(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """Twice the warps where a lane computes many sines. Six kernels take 0.62 to 0.96 of their time so (H100, by hand,
    2026-11-27; docs/measurements/default-rules.md); one in float64, of half as many, 0.62. ``wanted``: the blocks and
    warps without this rule. A program of one warp stays one: it has that since its lanes exchange, without a
    barrier."""
    warps = wanted.get(NUM_WARPS.name(ir), NUM_WARPS.default)
    if target.vendor != "nvidia" or not isinstance(warps, int) or not 1 < warps <= MOST_WARPS // 2:
        return {}
    lanes = warps * target.warp_size
    return {NUM_WARPS.name(ir): 2 * warps} if _registers(ir, wanted) >= MANY * lanes else {}


def _registers(ir: KernelIR, wanted: Mapping[str, Choice]) -> int:
    """Registers of the largest tile of sines or cosines; 0 where there is none."""
    sizes = chosen_sizes(ir, wanted)
    turning = [op.output for op in ir.walk() if op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn in _TURNING]
    counts = (register_elements(v, sizes) for v in turning)
    words = (max(itemsize(v.type.dtype) // _REGISTER, 1) for v in turning)
    return max(map(mul, counts, words), default=0)
