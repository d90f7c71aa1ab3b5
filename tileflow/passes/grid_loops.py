"""Loops that are axes of the grid: ``for b in tfl.grid(n): for rows in tfl.tile(m): ...`` around products is one grid.

An author who takes batches or heads one by one writes the loop over rows inside. Where it is all that a program does,
and no turn of it needs what another one did, its turns are programs: as if the author had written one loop over both.
The schedules of :mod:`tileflow.schedule` and the defaults of products are of such regions, whose programs have one tile
of the result each.

Kernels without products keep their loops, whose turns :mod:`.spread` deals out: a row that is read by blocks is one
program's by its author's choice. So does a loop beside tiles that are there before it, which each program would have
again.
"""

from __future__ import annotations

from dataclasses import replace

from ..expr import Expr
from ..ir.attributes import TileAttrs
from ..ir.graph import Block, KernelIR, Op, walk
from ..ir.kinds import OpKind
from .dead_code import remove_dead_code
from .rewrite import with_body
from .spread import MOST_AXES, turns_refusal


def lift_loops(ir: KernelIR) -> KernelIR:
    """The region with such loops as further axes of its grid, as many as a launch has left."""
    if not any(op.kind is OpKind.DOT for op in ir.walk()):
        return ir
    lifted = remove_dead_code(ir)
    while len(lifted.grid) < MOST_AXES and (loop := _liftable(lifted)) is not None:
        lifted = _lifted(lifted, loop)
    return lifted if lifted.grid != ir.grid else ir


def _liftable(ir: KernelIR) -> Op | None:
    """The loop that is all that a program does, but for numbers; None where there is none."""
    loops = [op for op in ir.body.ops if op.kind is OpKind.FOR]
    rest = (v for op in ir.body.ops if op.kind is not OpKind.FOR for v in op.outputs)
    if len(loops) != 1 or any(v.dims for v in rest):
        return None
    (loop,) = loops
    tile = ir.tiles[TileAttrs.of(loop).tile]
    is_known = all(isinstance(bound, Expr) and bound.symbols() <= ir.hints.keys() for bound in (tile.begin, tile.end))
    has_product = any(op.kind is OpKind.DOT for block in loop.regions for op in walk(block))
    return loop if is_known and has_product and not turns_refusal(ir, loop) else None


def _lifted(ir: KernelIR, loop: Op) -> KernelIR:
    name, (turn,) = TileAttrs.of(loop).tile, loop.regions
    ops = tuple(inner for op in ir.body.ops for inner in (turn.ops if op is loop else (op,)))
    tiles = {**ir.tiles, name: replace(ir.tiles[name], is_grid=True)}
    return replace(with_body(ir, Block((), ops, ())), tiles=tiles, grid=(*ir.grid, name))
