"""Programs that end with sums to elements which all share: larger ones, so that fewer wait for one another."""

from __future__ import annotations

from collections.abc import Mapping

from ..config import Choice
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import Value
from .sizes import programs

MOST_ADDED = 1 << 18  # sums of all programs, which memory makes one after the other
MOST_WAITING = 1 << 16  # programs that wait for one element
MOST_ELEMENTS = 1 << 12  # of a program's tile


def shared_sum_config(ir: KernelIR, sizes: Mapping[str, int], used: int) -> dict[str, Choice]:
    """The blocks of a region without loops, of which the smallest is doubled while programs add too often to elements
    that all share: the normal equations of 8 million points, 43 sums each, took 740 us in blocks of 512 and 235 in
    blocks of 2048, a summary of prices in 36 sums 750 and 571, the largest of 67 million numbers 435 in blocks of 8 by
    32 and 149 in blocks of 32 by 32 (H100, 2026-11-26). ``used``: elements of a program's tile."""
    added = sum(_is_shared(ir, op) for op in ir.walk() if op.kind is OpKind.ATOMIC)
    if not added or not sizes or any(op.kind is OpKind.FOR for op in ir.walk()):
        return {}
    grown = dict(sizes)
    while _is_crowded(added, programs(ir, grown)) and 2 * used <= MOST_ELEMENTS:
        grown[min(grown, key=grown.__getitem__)] *= 2
        used *= 2
    return {symbol: size for symbol, size in grown.items() if size > sizes[symbol]}


def _is_crowded(added: int, count: int) -> bool:
    return added * count > MOST_ADDED or count > MOST_WAITING


def _is_shared(ir: KernelIR, op: Op) -> bool:
    """Whether no lane and no program has an element of its own: all is named by numbers and sizes."""
    index = AccessAttrs.of(op).index
    named = [op.inputs[item.input] for item in index if isinstance(item, ValueIndex)]
    makers = [ir.definitions.get(value) for value in named if isinstance(value, Value)]
    is_fixed = all(maker is not None and maker.kind is OpKind.SIZE for maker in makers)
    return is_fixed and not any(isinstance(item, TileIndex) for item in index)
