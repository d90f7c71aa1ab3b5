"""Copies of tensors in whose few elements programs meet, where they would wait for one another
(:mod:`tileflow.runtime.copies`).

Making and combining the copies takes 7 to 12 us. Where lanes choose their elements, 256 copies took 0.04 to 0.92 of the
time: 2022 us became 75, 6979 became 880, 4042 became 397. Histograms to each of whose elements 16384 programs and more
add what they counted took 0.55 to 1.06, those of fewer 0.70 to 1.07, most of them more than 1. Of twenty kernels whose
programs end with sums that no lane chooses five gained, none to less than 0.82, since programs come to those one after
the other anyway (an H200, 2026-11-30; docs/measurements/default-rules.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..ir.attributes import site_of
from ..ir.combined import Combined
from ..ir.graph import KernelIR, Op
from ..passes.histograms import histograms
from ..space.access import copyable
from ..space.knobs import COPIES, HISTOGRAM
from .contended_sums import is_chosen
from .sizes import extent_length, tiles_of_axes

LEAST_CHOSEN = 1 << 22  # numbers that lanes bring to elements of their choice
LEAST_MEETING = 1 << 16  # of them to each element, where they are fewer
LEAST_BESIDE = 1 << 20  # numbers that come to each element, which no lane chooses
LEAST_COUNTING = 1 << 14  # numbers to each element, of programs that counted their lanes first
COUNTED = 64  # copies for those
MOST_COPIED = 1 << 21  # elements of all copies


def copies_config(ir: KernelIR, wanted: Mapping[str, Choice]) -> dict[str, Choice]:
    """How many copies of each tensor that programs combine numbers into, and nothing else."""
    counts = {COPIES.name(site): _count(ir, found, wanted) for site, found in copyable(ir).items()}
    return {name: count for name, count in counts.items() if count > 1}


def _count(ir: KernelIR, found: Combined, wanted: Mapping[str, Choice]) -> int:
    elements, numbers = ir.hint(found.elements), sum(_numbers(ir, op, wanted) for op in found.ops)
    if any(wanted.get(HISTOGRAM.name(site_of(op))) for op in found.ops):
        return COUNTED if numbers >= LEAST_COUNTING * elements else 1
    chosen = any(is_chosen(ir, op) for op in found.ops)
    least = min(LEAST_CHOSEN, LEAST_MEETING * elements) if chosen else LEAST_BESIDE * elements
    return max(n for n in COPIES.choices if n * elements <= MOST_COPIED) if numbers >= least else 1


def _numbers(ir: KernelIR, op: Op, wanted: Mapping[str, Choice]) -> int:
    """How many numbers all programs bring to memory: each lane one, or where a program counts its lanes, the program
    one for each element that they choose among."""
    counts, dims = dict(zip(ir.grid, tiles_of_axes(ir, wanted), strict=True)), op.output.dims
    if wanted.get(HISTOGRAM.name(site_of(op))):
        return histograms(ir)[site_of(op)].bins * prod(counts.values())
    lanes = prod(extent_length(ir, dim.tile, dim.extent) for dim in dims)
    return lanes * prod(count for tile, count in counts.items() if tile not in {dim.tile for dim in dims})
