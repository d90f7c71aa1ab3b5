"""Programs that end with sums to elements which all share: larger ones, so that fewer wait for one another."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import Value
from .sizes import programs

MOST_ADDED = 1 << 18  # sums of all programs, which memory makes one after the other
MOST_ELEMENTS = 1 << 12  # of a program's tile


def shared_sum_config(ir: KernelIR, sizes: Mapping[str, int], used: int) -> dict[str, Choice]:
    """The one block of a region without loops that is more than 1, doubled while programs add too often to elements
    that all share: the normal equations of 8 million points, 43 sums each, took 740 us in blocks of 512 and 235 in
    blocks of 2048, a summary of prices in 36 sums 750 and 571 (H100, 2026-11-26); 36 sums of a mixture of directions
    3722 us in blocks of 32 and 1888 in blocks of 64, 8 of models 263 in blocks of 128 and 114 in blocks of 512 (H200,
    2026-12-01). ``used``: elements of a program's tile."""
    added = sum(_numbers(ir, op) for op in ir.walk() if op.kind is OpKind.ATOMIC and _is_shared(ir, op))
    cut = {symbol: size for symbol, size in sizes.items() if size > 1 or len(sizes) == 1}
    if len(cut) != 1 or any(op.kind is OpKind.FOR for op in ir.walk()):
        return {}
    ((symbol, size),) = cut.items()
    grown = size
    while added * programs(ir, {**sizes, symbol: grown}) > MOST_ADDED and 2 * used * grown // size <= MOST_ELEMENTS:
        grown *= 2
    return {symbol: grown} if grown > size else {}


def _numbers(ir: KernelIR, op: Op) -> int:
    """How many elements a program adds to."""
    return prod(ir.hint(dim.extent) for dim in op.output.dims)


def _is_shared(ir: KernelIR, op: Op) -> bool:
    """Whether no lane and no program has an element of its own: all is named by numbers and sizes."""
    index = AccessAttrs.of(op).index
    named = [op.inputs[item.input] for item in index if isinstance(item, ValueIndex)]
    makers = [ir.definitions.get(value) for value in named if isinstance(value, Value)]
    is_fixed = all(maker is not None and maker.kind is OpKind.SIZE for maker in makers)
    return is_fixed and not any(isinstance(item, TileIndex) for item in index)
