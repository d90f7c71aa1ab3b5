"""Knobs of each load and store: by pointers or by descriptor, what the caches shall do with it, in how many parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..config import Constraint, Knob
from ..expr import TRUE, Expr, all_of
from ..ir.access import ALIGNMENT, box_order, boxed
from ..ir.attributes import AccessAttrs, LoadAttrs, site_of
from ..ir.combined import Combined, combined
from ..ir.graph import ExprIndex, KernelIR, Op, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import itemsize
from ..passes.histograms import histograms
from ..passes.subtile import subtilable
from ..target import Target
from .extents import Extents
from .knobs import COPIES, EVICTION, HISTOGRAM, LOAD_CACHE, STORE_CACHE, SUBTILE, access_of

LEAST_BYTES = 128
LONGEST = 256
MOST_ELEMENTS = 1 << 15  # of a tensor that programs have copies of
MOST_ROOM = 2 * MOST_ELEMENTS  # that one takes, with what lies between its elements
_LARGE = 128  # the least side of a tile that is worth storing in parts


def access_knobs(ir: KernelIR, target: Target) -> Iterator[Knob]:
    """The knobs of accesses. Each load of a tile has an eviction policy where the author left it open, and a cache
    level; each store of a tile has a cache policy. An access that a copy engine could do has a kind, and as a box no
    policies."""
    for op in ir.walk():
        site = site_of(op)
        by_pointer = access_of(op).symbol(site).eq(0) if _has_choice(ir, op, target) else TRUE
        if op.kind is OpKind.LOAD and op.output.dims:
            yield from _load_knobs(op, site, by_pointer, target)
        if op.kind is OpKind.STORE and boxed(op):
            yield STORE_CACHE.at(site, by_pointer, STORE_CACHE.on(target))
        if _has_choice(ir, op, target):
            yield access_of(op).at(site)


def _load_knobs(op: Op, site: str, by_pointer: Expr, target: Target) -> Iterator[Knob]:
    if target.vendor == "amd":  # whose backend drops eviction policies
        yield LOAD_CACHE.at(site, by_pointer)
    elif LoadAttrs.of(op).eviction is None:
        yield EVICTION.at(site, by_pointer)
        # an instruction has one or the other
        yield LOAD_CACHE.at(site, by_pointer.and_(EVICTION.symbol(site).eq(0)))


def subtile_knobs(ir: KernelIR, extents: Extents) -> Iterator[Knob]:
    """Stores of large accumulators in halves: what follows the loop then needs half the registers, and the store half
    the shared memory."""
    for site, op in subtilable(ir).items():
        rows, columns = (extents.of(d) for d in boxed(op))
        active = Expr.of(_LARGE).le(rows).and_(Expr.of(_LARGE).le(columns))
        yield SUBTILE.at(site, active)


def histogram_knobs(ir: KernelIR) -> Iterator[Knob]:
    """Atomics that may be counted in the program first, which matters where a program names one element beside."""
    for site, found in histograms(ir).items():
        yield HISTOGRAM.at(site, found.one_lane)


def copies_knobs(ir: KernelIR) -> Iterator[Knob]:
    """Tensors that programs may have copies of, since all would wait for the same elements."""
    return (COPIES.at(site) for site in copyable(ir))


def copyable(ir: KernelIR) -> dict[str, Combined]:
    """Tensors of few elements that programs combine numbers into, by the sites of their first atomics."""
    return {
        site: found
        for site, found in combined(ir).items()
        if 0 < ir.hint(found.elements) <= MOST_ELEMENTS and ir.hint(found.room) <= MOST_ROOM
    }


def access_constraints(ir: KernelIR, extents: Extents, target: Target) -> Iterable[Constraint]:
    """What a box must be: 16 bytes wide, 128 in all (a stage's place in shared memory starts at a multiple), and no
    longer than 256 in each dimension but the last, which Triton cuts up."""
    for op in ir.walk():
        if not _has_choice(ir, op, target):
            continue
        site, size = site_of(op), itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype)
        order = box_order(ir, op)
        assert order is not None
        last = AccessAttrs.of(op).index[order[-1]]
        assert not isinstance(last, ExprIndex | ValueIndex)
        dims = boxed(op)
        limits = [
            Expr.of(ALIGNMENT).le(extents.of(dims[last.axis]) * size),
            Expr.of(LEAST_BYTES).le(extents.elements(dims) * size),
            *(extents.of(d).le(LONGEST) for n, d in enumerate(dims) if n != last.axis),
        ]
        fits = all_of(limits)
        if fits.constant is not None and fits.constant:
            continue
        knob = access_of(op)
        check = knob.symbol(site).eq(knob.encoded("pointer")).or_(fits)
        reason = (
            f"the copy engine of {target.name} moves boxes of at least {ALIGNMENT} bytes a row and {LEAST_BYTES} "
            f"in all, at most {LONGEST} long"
        )
        yield Constraint(f"{site} is a box", check, ((knob.name(site), "down"),), reason)


def _has_choice(ir: KernelIR, op: Op, target: Target) -> bool:
    return target.has_tensor_maps and box_order(ir, op) is not None
