"""Histograms: a program counts what its lanes choose, and adds each count to its element once.

``tfl.atomic_add(counts, [bin], 1)`` adds 1 for each lane, and all lanes of all programs meet in a few elements, which
memory changes one after the other: 67 million numbers in 256 bins took 8.3 ms, 150 times as long as to read them (an
H200, 2026-11-30; docs/measurements/default-rules.md). A block of lanes is counted in registers and shared memory
instead, by ballots of each warp (``tl.histogram``), so that the program adds as many numbers as there are bins.

The number that is added must be the same for all lanes, or 0 or 1 as a truth is, and nobody may read what was there
before. Lanes choose along dimensions of the tensor that have a few thousand elements in all; where the sizes are the
call's, code for the example's takes others up to the next power of two. Along the other dimensions a program names one
element: by a number, or by a tile of one lane.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from ..expr import FALSE, TRUE, Expr, all_of, is_knob
from ..ir.attributes import AtomicAttrs, HistogramAttrs, Number, site_of
from ..ir.graph import ExprIndex, IndexItem, KernelIR, Op, Operand, TileIndex, ValueIndex, once
from ..ir.kinds import OpKind
from ..ir.types import Value, itemsize
from .rewrite import map_ops, with_body

WARP = 32  # lanes, each of which counts the same number of bins
MOST_BINS = 1 << 11  # a warp counts each of its bins by an instruction for 32 lanes
_LEAST_BYTES = 4  # of an element, which a block's count fits
_SPREAD = frozenset({OpKind.FULL, OpKind.EXPAND, OpKind.UNSQUEEZE})  # what one lane holds, in all


@dataclass(frozen=True, slots=True)
class Histogram:
    """An atomic that may be one. ``number``, ``chosen``: as of :class:`HistogramAttrs`. ``bins``: elements that lanes
    choose among. ``one_lane``: the condition that the program names one element along the other dimensions."""

    op: Op
    number: Number | None
    chosen: tuple[int, ...]
    bins: int
    one_lane: Expr

    def is_one_lane(self, choices: Mapping[str, object]) -> bool:
        """Whether ``one_lane`` holds: a config that was not normalised may choose a histogram where it does not."""
        sizes = {name: size for name, size in choices.items() if isinstance(size, int)}
        return bool(self.one_lane.evaluate(sizes))

    @property
    def places(self) -> int:
        """What is counted: a power of two, by which each lane of a warp has some."""
        return 1 << (max(self.bins, WARP) - 1).bit_length()


@once
def histograms(ir: KernelIR) -> Mapping[str, Histogram]:
    """The atomics of a region that may be histograms, by their sites."""
    return {site_of(h.op): h for h in _histograms(ir)}


def as_histogram(ir: KernelIR, site: str) -> KernelIR:
    """The region with what other passes left of the atomic ``site`` (one of :func:`histograms`) as histograms."""
    counted = {id(h.op): _counted(h) for h in _histograms(ir) if site_of(h.op) == site}
    return with_body(ir, map_ops(ir.body, lambda op: [counted.get(id(op), op)]))


def _counted(found: Histogram) -> Op:
    old = AtomicAttrs.of(found.op)
    attrs = HistogramAttrs(
        *(old.tensor, old.index, old.site, old.has_mask, old.fn, old.sem), found.number, found.chosen, found.places
    )
    return Op(OpKind.HISTOGRAM, found.op.inputs, (), attrs, (), found.op.loc)


def _histograms(ir: KernelIR) -> list[Histogram]:
    found = (_histogram(ir, op) for op in ir.walk() if op.kind is OpKind.ATOMIC)
    return [h for h in found if h is not None]


def _histogram(ir: KernelIR, op: Op) -> Histogram | None:
    attrs, value = AtomicAttrs.of(op), op.inputs[0]
    is_read = ir.uses.get(op.output, 0) > 0
    if attrs.fn != "add" or attrs.sem != "relaxed" or is_read or not isinstance(value, Value):
        return None
    if itemsize(ir.tensor(attrs.tensor).dtype) < _LEAST_BYTES or not value.dims or value.dims != op.output.dims:
        return None
    number = _number(ir, value)
    if number is None and not _is_truth(ir, value):
        return None
    ways = [Histogram(op, number, *way) for way in _ways(ir, op)]
    return min(ways, key=lambda h: (len(h.one_lane.symbols()), h.bins), default=None)


def _ways(ir: KernelIR, op: Op) -> Iterator[tuple[tuple[int, ...], int, Expr]]:
    """The dimensions along which lanes may choose, the number of their elements, and the condition that the program
    names one element along the others, by which it still has lanes."""
    index, shape = AtomicAttrs.of(op).index, ir.tensor(AtomicAttrs.of(op).tensor).shape
    alone = [_one_lane(op, item) for item in index]
    free = {name for dim in op.output.dims for name in dim.extent.symbols() if is_knob(name)}
    is_wide = any(dim.extent.constant not in (None, 1) for dim in op.output.dims)
    able = [n for n, item in enumerate(index) if isinstance(item, ValueIndex) and alone[n].constant != 1]
    for count in range(1, len(able) + 1):
        for chosen in itertools.combinations(able, count):
            bins = ir.hint(prod((shape[n] for n in chosen), start=Expr.of(1)))
            one_lane = all_of(alone[n] for n in range(len(index)) if n not in chosen)
            names = one_lane.symbols()
            possible = one_lane.constant != 0 and all(map(is_knob, names)) and (is_wide or bool(free - names))
            if 0 < bins <= MOST_BINS and possible:
                yield chosen, bins, one_lane


def _number(ir: KernelIR, operand: Operand) -> Number | None:
    """The number that every lane holds, where it is known."""
    while isinstance(operand, Value):
        maker = ir.definitions.get(operand)
        if maker is None or maker.kind not in _SPREAD:
            return None
        operand = maker.inputs[0]
    return operand


def _is_truth(ir: KernelIR, value: Value) -> bool:
    """Whether lanes hold 0 or 1: a truth in another dtype."""
    maker = ir.definitions.get(value)
    while maker is not None and maker.kind in _SPREAD | {OpKind.CAST} and isinstance(maker.inputs[0], Value):
        if maker.inputs[0].type.dtype == "bool":
            return True
        maker = ir.definitions.get(maker.inputs[0])
    return False


def _one_lane(op: Op, item: IndexItem) -> Expr:
    """The condition that all lanes name one element of a dimension."""
    match item:
        case ExprIndex():
            return TRUE
        case ValueIndex(position, _):
            operand = op.inputs[position]
            return all_of(d.extent.eq(1) for d in operand.dims) if isinstance(operand, Value) else TRUE
        case TileIndex(_, axis):
            return op.output.dims[axis].extent.eq(1)
    return FALSE
