"""What a config must satisfy where the blocks of a cluster share the turns of a warp-specialised product."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import Constraint
from ..expr import Expr
from ..ir.access import ALIGNMENT
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR
from ..ir.types import itemsize
from ..schedule.single import Single
from ..schedule.structure import Structure
from ..target import Target
from .cluster_loops import has_shared_loops
from .knobs import CONSUMERS, LOOP_CTAS, PING_PONG
from .names import loop_site
from .schedule_checks import Repair, block_steps, schedule_constraint

MOST_SUMS = 64 * 128  # of a group: 64 registers of a thread, each an operand of one assembly text
_LEAST_PIECE = 8  # columns of an instruction of the matrix units, which a piece has the layout of


def shares_turns(ir: KernelIR, found: Structure, target: Target) -> bool:
    """Whether blocks of a cluster may share the turns of a structure: of one product, whose epilogue may be computed of
    some columns at a time."""
    if not isinstance(found, Single) or len(found.products) > 1:
        return False
    return not found.is_ragged and found.by_columns and has_shared_loops(ir, target)


def blocks(ir: KernelIR, found: Single, target: Target) -> Expr:
    """How many blocks share the turns of a tile."""
    return LOOP_CTAS.symbol(loop_site(ir, found.keys)) if shares_turns(ir, found, target) else Expr.of(1)


def shared_turns_constraints(
    ir: KernelIR, found: Single, own: Expr, columns: Expr, target: Target
) -> Iterator[Constraint]:
    """``own``: rows of a group."""
    if not shares_turns(ir, found, target):
        return
    count = blocks(ir, found, target)
    repair: Repair = ((LOOP_CTAS.name(loop_site(ir, found.keys)), "down"),)
    yield schedule_constraint(
        "groups of a cluster",
        count.eq(1).or_(PING_PONG.symbol(ir).eq(0)).or_(CONSUMERS.symbol(ir).eq(1)),
        ((PING_PONG.name(ir), "down"), *repair),
        "a cluster has one tile, which its consumer groups share",
    )
    least = _LEAST_PIECE
    if found.saved is not None:
        least = max(least, ALIGNMENT // itemsize(ir.tensor(AccessAttrs.of(found.saved).tensor).dtype))
    yield schedule_constraint(
        "columns of a block",
        (count * least).le(columns),
        (*repair, *block_steps(columns, "up")),
        f"each block of a cluster finishes {least} columns of the tile at least: rows of a box have {ALIGNMENT} bytes",
    )
    yield schedule_constraint(
        "sums that blocks give",
        count.eq(1).or_((own * columns).le(MOST_SUMS)),
        (*repair, *block_steps(columns, "down")),
        f"a group of a cluster's block has at most {MOST_SUMS} sums",
    )
