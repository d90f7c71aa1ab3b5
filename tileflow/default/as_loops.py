"""Products of whole dimensions, seen as the loops over blocks that they become: the rules for an author's loops say how
large the blocks of these are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..ir.graph import BlockSymbol, KernelIR, once
from ..ir.kinds import OpKind
from ..ir.types import Dim
from ..passes.roll import roll_all, rollable
from .sizes import pow2

INNER = 128  # elements up to which the inner dimension of products stays whole
HEAD = 256  # the same where another product follows, or in an author's loop: what each turn takes again is read once
COLUMNS = 256  # elements of a whole dimension of results up to which one has all
LEAST_BLOCK = 16


@once
def as_loops(ir: KernelIR) -> KernelIR:
    """The region with its products' long dimensions as loops, whose blocks have the names of their knobs; the region
    itself where there are none."""
    sites = tuple(_sites(ir))
    while sites:
        looped = roll_all(ir, sites)
        if looped is not None:
            dims = rollable(ir)
            blocks = (BlockSymbol(site, LEAST_BLOCK, pow2(ir.hint(dims[site].extent)) // 2) for site in sites)
            return replace(looped, blocks=(*ir.blocks, *blocks))
        sites = sites[:-1]
    return ir


def _sites(ir: KernelIR) -> Iterator[str]:
    """The knobs of the dimensions that are too long for one piece; what products sum over first."""
    dots = [op for op in ir.walk() if op.kind is OpKind.DOT]
    inner = {op.values[0].dims[-1] for op in dots}
    given = {dim for op in dots for dim in op.output.dims[-2:]}
    is_alone = len(dots) == 1 and dots[0] in ir.body.ops
    most: dict[Dim, int] = dict.fromkeys(given, COLUMNS) | dict.fromkeys(inner, INNER if is_alone else HEAD)
    sites = {dim: site for site, dim in rollable(ir).items() if dim in most and ir.hint(dim.extent) > most[dim]}
    return (site for dim, site in sorted(sites.items(), key=lambda item: item[0] not in inner))
