"""The knob of rows that the blocks of a cluster hold together, and what its configs must satisfy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..config import Config, ConfigSpace, Constraint, Direction, Knob
from ..expr import Expr, all_of
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.types import Dim
from ..passes.cluster_loops import shared_loops
from ..passes.clusters import Row, Whole, clustered_row
from ..target import Target
from .cluster_loops import has_shared_loops
from .knobs import CTAS, LOOP_CTAS, NUM_WARPS, PERSISTENT
from .names import loop_site

LEAST_ROW = 1 << 14  # of shorter ones a block holds all
# Lanes of rows in a loop, which may hand other rows on from turn to turn beside those that a turn loads.
LEAST_IN_LOOP = 1 << 13
_DOWN: Direction = "down"
_LANES = 4  # a thread's least: what one instruction loads of float32


def cluster_refusal(ir: KernelIR, target: Target) -> str:
    """Why no cluster divides the rows of a region on a target; empty where one may."""
    if not target.has_clusters:
        return (
            f"{target.name} has no clusters of blocks that reach one another's shared memory, or none that were tried"
        )
    row = clustered_row(ir)
    if isinstance(row, Whole):
        return row.reason
    has_loops = any(op.kind is OpKind.FOR for op in ir.body.ops)
    lanes = 1 << max(ir.hint(row.dim.extent) - 1, 0).bit_length()
    if has_loops and lanes < LEAST_IN_LOOP:
        return f"a block holds the whole of rows of fewer than {LEAST_IN_LOOP} lanes, in a loop too"
    if not has_loops and ir.hint(row.dim.extent) < LEAST_ROW:
        return f"a block holds the whole of rows shorter than {LEAST_ROW}"
    if _one_row(row).constant == 0:
        return "a program has several rows, and the number that blocks of a cluster exchange is one row's"
    return ""


def with_cluster_knob(ir: KernelIR, target: Target, knobs: list[Knob]) -> list[Knob]:
    """``knobs`` of a region's grid, and how many blocks hold a row together, where it is held in one piece and blocks
    share no loop's turns. A program of several is not persistent."""
    if cluster_refusal(ir, target):
        return knobs
    alone, name, site = CTAS.symbol(ir).eq(1), PERSISTENT.name(ir), _row(ir).site
    knobs = [replace(k, active=k.active.and_(alone)) if k.name == name else k for k in knobs]
    whole = [Expr.sym(site).eq(0)] if site else []
    return [*knobs, CTAS.of(ir, all_of([*whole, *_shares_no_turns(ir, target)]))]


def _shares_no_turns(ir: KernelIR, target: Target) -> Iterator[Expr]:
    """That blocks do not share the turns of a region's loops, if they may."""
    found = shared_loops(ir)
    if found is not None and not found.rolled and has_shared_loops(ir, target):
        yield LOOP_CTAS.symbol(loop_site(ir, found.tile)).eq(1)


def cluster_parts(ir: KernelIR, target: Target) -> Mapping[Dim, Expr]:
    """By the dimension that is divided, the number of its parts: empty where the region has no knob."""
    return {} if cluster_refusal(ir, target) else {_row(ir).dim: CTAS.symbol(ir)}


def cluster_constraints(ir: KernelIR, target: Target) -> Iterator[Constraint]:
    """One row a program, which has one tile, and enough of the row for each thread."""
    if cluster_refusal(ir, target):
        return
    ctas, back = CTAS.symbol(ir), ((CTAS.name(ir), _DOWN),)
    lanes = 1 << (ir.hint(_row(ir).dim.extent) - 1).bit_length()
    alone = ctas.eq(1)
    yield Constraint(
        f"one row a program of {CTAS.name(ir)}",
        alone.or_(_one_row(_row(ir))),
        back,
        "the number that blocks of a cluster exchange is one row's: with several blocks a program has one row",
    )
    yield Constraint(
        f"one tile a program of {CTAS.name(ir)}",
        alone.or_(PERSISTENT.symbol(ir).eq(0)),
        back,
        "with several blocks a program is not persistent",
    )
    yield Constraint(
        f"lanes for the threads of {CTAS.name(ir)}",
        alone.or_((ctas * NUM_WARPS.symbol(ir) * (target.warp_size * _LANES)).le(lanes)),
        back,
        f"each thread of a cluster's blocks has at least {_LANES} elements of a row",
    )


def without_clusters(space: ConfigSpace, config: Config) -> Config:
    """``config``, or where a launch of it has clusters, the nearest one of ``space`` in which none has: what launches
    through Triton knows of no clusters. Raises ConfigError where the rest of ``config`` is none of ``space``."""
    has_blocks = [
        name for name, choice in config.items if choice != 1 and any(k.matches(name) for k in (CTAS, LOOP_CTAS))
    ]
    return space.repair(config.with_(dict.fromkeys(has_blocks, 1))) if has_blocks else config


def _row(ir: KernelIR) -> Row:
    found = clustered_row(ir)
    assert isinstance(found, Row)  # or there would be no knob
    return found


def _one_row(row: Row) -> Expr:
    return all_of(dim.extent.eq(1) for dim in row.rows)
