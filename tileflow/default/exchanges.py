"""Warps of programs whose lanes exchange what they have again and again: each exchange of several warps is two barriers
and a way through shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ..config import Choice
from ..ir.attributes import AxisAttrs
from ..ir.graph import KernelIR, Op, walk
from ..ir.kinds import OpKind
from ..ir.types import Dim, Value
from ..space.knobs import NUM_WARPS
from ..target import Target
from .sizes import pow2, programs

WARPS = 4  # of which some are given up
FEW = 2
BUSY = 2  # programs of a multiprocessor
EXCHANGES = 4  # from which on fewer warps are faster
IN_A_LANE = 8  # elements that a lane reduces itself
MOST_LIVE = 4  # tiles in two warps' registers
_COLLECTIVE = frozenset({OpKind.REDUCE, OpKind.SCAN, OpKind.COMBINE, OpKind.COMBINE_SCAN, OpKind.SORT, OpKind.GATHER})


def lone_warp_config(ir: KernelIR, sizes: Mapping[str, int], target: Target) -> dict[str, Choice]:
    """One warp, where turns of loops compute no more than it has lanes, which others would only repeat: a volatility's
    likelihood over 1000 steps took 15.2 ms by four and 4.5 by one (H100, 2026-11-26)."""
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    is_small = bool(loops) and all(_most(ir, sizes, loop) <= target.warp_size for loop in loops)
    return {NUM_WARPS.name(ir): 1} if is_small and _is_busy(ir, sizes, target) else {}


def exchange_config(
    ir: KernelIR, sizes: Mapping[str, int], live: int, warps: Choice, target: Target
) -> dict[str, Choice]:
    """Two warps in place of four, where a program without loops reduces again and again. By four and by two on an H100
    (2026-11-26): reads' qualities 3926 and 3097 us, an autocorrelation 843 and 727, rays through a volume 268 and 164;
    of a series' deepest fall 144 and 150. ``live``: tiles at a time."""
    has_loop = any(op.kind is OpKind.FOR for op in ir.walk())
    if warps != WARPS or live > MOST_LIVE or has_loop or not _is_busy(ir, sizes, target):
        return {}
    return {NUM_WARPS.name(ir): FEW} if len(list(_exchanges(ir, sizes))) >= EXCHANGES else {}


def _is_busy(ir: KernelIR, sizes: Mapping[str, int], target: Target) -> bool:
    """Whether the warps of one program are not all that a multiprocessor has; on the devices where it was measured."""
    return target.vendor == "nvidia" and programs(ir, sizes) >= BUSY * target.sm_count


def _exchanges(ir: KernelIR, sizes: Mapping[str, int]) -> Iterator[Op]:
    """The ops for which lanes need others' elements."""
    for op in ir.walk():
        if op.kind in _COLLECTIVE and op.values:
            axis = AxisAttrs.of(op).axis
            if _length(ir, sizes, op.values[0].dims[axis]) > IN_A_LANE:
                yield op


def _most(ir: KernelIR, sizes: Mapping[str, int], loop: Op) -> int:
    """Elements of the largest tile of a turn."""
    (turn,) = loop.regions
    return max((_elements(ir, sizes, v) for op in walk(turn) for v in op.outputs), default=1)


def _elements(ir: KernelIR, sizes: Mapping[str, int], value: Value) -> int:
    return prod(_length(ir, sizes, dim) for dim in value.dims)


def _length(ir: KernelIR, sizes: Mapping[str, int], dim: Dim) -> int:
    known = {**ir.hints, **sizes}
    return pow2(dim.extent.evaluate(known)) if dim.extent.symbols() <= known.keys() else 1
