"""The Triton text of programs that are the blocks of a cluster: which part a block has, and whose neighbours they are.

Triton knows nothing of such clusters: a launch has so many times its programs, neighbours of which are one. What they
tell each other: of rows :mod:`exchanges`, of a loop's turns :mod:`cluster_loops`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..expr import Expr
from ..ir.graph import Tile
from ..space.cluster_loops import LEAST_TURNS, MOST_AT_ONCE
from .cluster_boxes import begin_text, box_of
from .context import Context
from .plan import PART


def emit_program(e: Context) -> None:
    """Write which part of its row the block has, behind a barrier of the cluster's."""
    parts = e.plan.cluster
    if parts == 1:
        return
    begin = e.module.constant("_BEGIN", f'tl.constexpr("""{begin_text(box_of(e))}""")')
    e.writer.line(f'tl.inline_asm_elementwise({begin}, "=r,r", [0], dtype=tl.int32, is_pure=False, pack=1)')
    e.writer.line(f"{PART} = tl.program_id(0) % {parts}")
    for name in e.plan.ir.cluster:
        e.writer.line(f"{e.tile(name)}_begin = {PART}")


def guard_few(e: Context, programs: Expr, loops: Iterable[Tile]) -> None:
    """Guard that a launch whose clusters share ``loops`` has few programs of many turns: others are for other
    variants."""
    e.plan.guard((programs * e.plan.cluster).le(MOST_AT_ONCE * e.target.sm_count))
    for tile in loops:
        if isinstance(tile.begin, Expr) and isinstance(tile.end, Expr):
            turns = LEAST_TURNS * e.plan.cluster * e.plan.block(tile.block)
            e.plan.guard(Expr.of(turns).le(tile.end - tile.begin))


def shared_by_clusters(e: Context) -> tuple[Tile, ...]:
    """The tiles of loops whose turns the blocks of a cluster share."""
    return tuple(tile for tile in e.plan.ir.tiles.values() if tile.dealt in e.plan.ir.cluster)


def program_id(e: Context, axis: int) -> str:
    """The program's number along an axis of the launch; blocks of a cluster are neighbours along the first."""
    plain = f"tl.program_id({axis})"
    return plain if axis or e.plan.cluster == 1 else f"{plain} // {e.plan.cluster}"
