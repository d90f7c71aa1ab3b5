"""Sums to elements that lanes choose: where many meet in few elements, a program counts its lanes first
(:mod:`tileflow.passes.histograms`), and has many for each number that it adds."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..ir.analysis import tile_length
from ..ir.attributes import AtomicAttrs, site_of
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.pressure import live_tiles
from ..passes.histograms import Histogram, histograms
from ..space.knobs import HISTOGRAM, NUM_WARPS
from ..target import Target
from .contended_sums import is_chosen
from .runs import runs_along
from .sizes import chosen_sizes, extent_length, pow2, programs, register_elements, symbol

LEAST_ADDED = 1 << 17  # numbers that all programs add, below which the atomics are over soon
LEAST_MEETING = 64  # of them in each element
FOR_A_BIN = 16  # lanes that a program counts for each number that it adds, where it can
LEAST_FOR_A_BIN = 1.2
MOST_LANES = 1 << 12  # of a program
BESIDE = 4  # elements of a tile in registers for each of these; of tiles with more, as many in all as lanes
MOST_OF_A_THREAD = 16  # lanes
LIVE_REGISTERS = 128  # that a thread spends on tiles


def histogram_config(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """The choice of histograms, and blocks with many lanes for each bin: twelve kernels of others take 0.01 to 0.86 of
    their time so, 8305 us became 226 and 13316 became 165 (an H200, 2026-11-30; docs/measurements/default-rules.md).
    Where other sums wait for shared elements as well, blocks stay, since those wait longer in larger ones (4063 and
    8237). Empty for regions without."""
    found = {site: h for site, h in histograms(ir).items() if _is_contended(ir, h)}
    ones = {name for h in found.values() for name in h.one_lane.symbols()}
    sizes = {**chosen_sizes(ir, wanted), **dict.fromkeys(ones, 1)}
    waits = any(is_chosen(ir, op) and site_of(op) not in found for op in ir.walk() if op.kind is OpKind.ATOMIC)
    for h in found.values() if not waits else ():
        _grow(ir, h, ones, sizes, target)
    found = {site: h for site, h in found.items() if _lanes(h, sizes) >= LEAST_FOR_A_BIN * h.bins}
    if not found:
        return {}
    warps, per_thread = wanted[NUM_WARPS.name(ir)], pow2(LIVE_REGISTERS // _tiles(ir) + 1) // 2
    assert isinstance(warps, int)
    lanes = max(_lanes(h, sizes) for h in found.values()) // target.warp_size
    warps = max(warps, min(lanes // max(min(per_thread, MOST_OF_A_THREAD), 1), MOST_LANES // target.warp_size // 8))
    changed = {name: size for name, size in sizes.items() if size != wanted.get(name, 1) and name not in ir.hints}
    chosen: dict[str, Choice] = {HISTOGRAM.name(site): True for site in found}
    return {**chosen, **changed, **dict.fromkeys(ones, 1), NUM_WARPS.name(ir): warps}


def _grow(ir: KernelIR, found: Histogram, ones: set[str], sizes: dict[str, int], target: Target) -> None:
    """Double blocks, those of the last dimensions first, while a program has few lanes for its bins and programs are
    enough."""
    enough = min(max(FOR_A_BIN * found.bins, MOST_LANES // 2), MOST_LANES)
    most = MOST_LANES * (BESIDE if _held(ir, sizes) <= BESIDE * _lanes(found, sizes) else 1)
    for dim in reversed(found.op.output.dims):
        name = symbol(dim)
        if not name or name in ones or name in ir.hints:
            continue
        length = pow2(extent_length(ir, dim.tile, dim.extent))
        while _lanes(found, sizes) < enough and sizes[name] < length and programs(ir, sizes) > 2 * target.sm_count:
            if _held(ir, {**sizes, name: 2 * sizes[name]}) > most:
                break
            sizes[name] *= 2


def _lanes(found: Histogram, sizes: Mapping[str, int]) -> int:
    return prod(max(dim.extent.evaluate(sizes), 1) for dim in found.op.output.dims)


def _tiles(ir: KernelIR) -> int:
    """How many tiles a thread has registers for at once: those that live together, or those that are loaded."""
    loaded = sum(op.kind is OpKind.LOAD and bool(op.output.dims) for op in ir.walk())
    return max(live_tiles(ir), loaded, 1)


def _held(ir: KernelIR, sizes: Mapping[str, int]) -> int:
    """Elements of the largest tile in registers."""
    return max(register_elements(value, sizes) for op in ir.walk() for value in op.outputs)


def _is_contended(ir: KernelIR, found: Histogram) -> bool:
    """Whether many lanes meet in each element, and none of the blocks that are 1 runs along memory."""
    dims, tensor = found.op.output.dims, ir.tensor(AtomicAttrs.of(found.op).tensor)
    rest = [tile_length(ir, name) for name in ir.grid if name not in {dim.tile for dim in dims}]
    added = prod(extent_length(ir, dim.tile, dim.extent) for dim in dims) * prod(rest)
    elements = prod(map(ir.hint, tensor.shape))
    along = runs_along(ir)
    return added >= max(LEAST_ADDED, LEAST_MEETING * elements) and not any(along[n] for n in found.one_lane.symbols())
