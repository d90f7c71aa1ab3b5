"""What a config of a float32 product's warp-specialised schedule must satisfy, beside what every product's must."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import Constraint
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.attributes import site_of
from ..ir.graph import KernelIR
from ..ir.types import itemsize
from ..schedule.single import Single
from ..schedule.split_product import GROUPS, TURN
from ..target import Target
from .extents import Extents
from .knobs import CONSUMERS, PING_PONG, PRECISION
from .precisions import parts_of_product
from .schedule_checks import block_steps, schedule_constraint

PARTS = "tf32x3"
# Numbers that are summed at least. The root of the mean square of the error against float64 is 1.08 and 1.13 times
# cuBLAS's for sums of 128 normal and positive numbers, 0.79 and 0.81 times for 256, 0.45 and 0.46 times for 1024 (H100,
# 2026-11-27, by hand, 1024 x 1024 results).
LEAST_SUMMED = 256


def split_constraints(ir: KernelIR, found: Single, extents: Extents, target: Target) -> Iterator[Constraint]:
    """Parts, groups and turns. The first check is never true where sums are short."""
    product, inner = found.product, extents.of(found.inner)
    name, is_long = PRECISION.name(site_of(product)), tile_length(ir, found.keys) >= LEAST_SUMMED
    offered = is_long and PARTS in parts_of_product(ir, product, target)
    chosen = PRECISION.symbol(site_of(product)).eq(PRECISION.encoded(PARTS)) if offered else Expr.of(0)
    yield schedule_constraint(
        "parts of a float32 product",
        chosen,
        ((name, "up"), (name, "down")),
        f"a float32 product is three products of tf32 parts ({PARTS}), of sums over at least {LEAST_SUMMED} numbers",
    )
    yield schedule_constraint(
        "groups of a float32 product",
        CONSUMERS.symbol(ir).le(max(GROUPS)).and_(PING_PONG.symbol(ir).eq(0).or_(CONSUMERS.symbol(ir).eq(1))),
        ((CONSUMERS.name(ir), "down"), (PING_PONG.name(ir), "down")),
        f"a tile of a float32 product is one group's, or {max(GROUPS)} share it",
    )
    yield schedule_constraint(
        "turns of a float32 product",
        inner.eq(TURN),
        (*block_steps(inner, "up"), *block_steps(inner, "down")),
        f"a turn of a float32 product has {TURN} numbers of a row, which one swizzled row of shared memory holds",
    )


def bytes_of_parts(found: Single, rows: Expr, columns: Expr, inner: Expr) -> Expr:
    """What the boxes of a turn are split into beside themselves: the low parts."""
    return (rows + columns) * inner * itemsize(found.left.output.type.dtype)
