"""Warp groups that share a product must each have a part of it.

Triton deals a product's tile out to all warps of a block. Where there is less than one instruction (64 x 8) for each
warp group, several compute the same; and where another product follows from the result, it deals out rows alone, so
that too few rows repeat the work however many columns there are. Nothing is gained then, and the many small
instructions with descriptors of their own can exhaust the uniform registers: ptxas 12.8 then let three of four warp
groups read an address that only the first had set (seen on an H200: results off, illegal addresses).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..config import Constraint, Direction, Knob
from ..expr import Expr
from ..ir.analysis import in_full_precision
from ..ir.attributes import site_of
from ..ir.graph import KernelIR, Op, uses
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..target import Target
from .extents import Extents
from .knobs import NUM_WARPS, PRECISION, TRANSPOSED
from .loops import grouped, turned_round
from .staging import blocks_of

ROWS_OF_A_WARP = 16
LEAST_COLUMNS = 8  # of an instruction


def warp_groups_share(
    ir: KernelIR, extents: Extents, knobs: Mapping[str, Knob], target: Target
) -> Iterator[Constraint]:
    """One for each product that warp groups may do."""
    if not target.has_warp_groups:
        return
    for block, _ in blocks_of(ir, ir.body):
        for n, op in enumerate(block.ops):
            if op.kind is OpKind.DOT and (not in_full_precision(op) or PRECISION.name(site_of(op)) in knobs):
                yield from _shared(ir, extents, knobs, op, _is_followed(op, block.ops[n + 1 :]))


def _shared(ir: KernelIR, extents: Extents, knobs: Mapping[str, Knob], op: Op, followed: bool) -> Iterator[Constraint]:
    a, b = op.values[:2]
    rows, columns = extents.of(a.dims[-2]), extents.of(b.dims[-1])
    warps, site = NUM_WARPS.name(ir), site_of(op)
    fits = grouped(ir, op, extents).eq(0).or_(_enough(rows, columns, warps, followed))
    if TRANSPOSED.name(site) in knobs:
        round_ = turned_round(ir, op, extents).eq(0).or_(_enough(columns, rows, warps, followed))
        is_turned = TRANSPOSED.symbol(site)
        fits = is_turned.eq(0).and_(fits).or_(is_turned.ne(0).and_(round_))
    steps: tuple[tuple[str, Direction], ...] = ((warps, "down"),)
    if PRECISION.name(site) in knobs:
        fits = PRECISION.symbol(site).eq(0).or_(fits)
        steps += ((PRECISION.name(site), "down"),)  # a tile beside it may need the warps
    if fits.constant is None:
        reason = "each warp group has rows and columns of a product that no other has"
        yield Constraint(f"warp groups share {site}", fits, steps, reason)


def _enough(rows: Expr, columns: Expr, warps: str, followed: bool) -> Expr:
    if followed:
        return (Expr.sym(warps) * ROWS_OF_A_WARP).le(rows)
    return (Expr.sym(warps) * (ROWS_OF_A_WARP * LEAST_COLUMNS)).le(rows * columns)


def _is_followed(product: Op, rest: tuple[Op, ...]) -> bool:
    """Whether another product of its block depends on a product: what Triton calls chained."""
    reached: set[Value] = set(product.outputs)
    for op in rest:
        used = {*op.values, *(v for region in op.regions for v in uses(region))}
        if not reached.isdisjoint(used):
            if op.kind is OpKind.DOT:
                return True
            reached.update(op.outputs)
    return False
