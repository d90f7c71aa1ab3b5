"""Loops that are axes of the grid: ``for b in tfl.grid(n): for rows in tfl.tile(m): ...`` around products is one grid.

An author who takes batches or heads one by one writes the loop over rows inside. Where it is all that a program does,
and no turn of it needs what another one did, its turns are programs: as if the author had written one loop over both.
The schedules of :mod:`tileflow.schedule` and the defaults of products are of such regions, whose programs have one tile
of the result each.

Loops inside blocks of rows stay: what the rows take of a product is there once for all columns. So do those beside
more than vectors that are there before them, which each program would have again, and those without products, whose
turns :mod:`.spread` deals out: a row that is read by blocks is one program's by its author's choice.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import Location
from ..expr import Expr
from ..ir.attributes import TileAttrs
from ..ir.graph import Block, KernelIR, Op, walk
from ..ir.kinds import OpKind
from ..ir.op_table import OPS
from ..ir.opdef import Trait
from .dead_code import remove_dead_code
from .rewrite import with_body
from .spread import MOST_AXES, turns_refusal

_LOADED = (OpKind.LOAD, OpKind.ARANGE)


def lift_loops(ir: KernelIR) -> KernelIR:
    """The region with such loops as further axes of its grid, as many as a launch has left."""
    are_numbers = all(ir.tiles[name].block.constant == 1 for name in ir.grid)
    if not are_numbers or not any(op.kind is OpKind.DOT for op in ir.walk()):
        return ir
    lifted, lines = remove_dead_code(ir), set[Location | None]()
    while len(lifted.grid) < MOST_AXES and (loop := _liftable(lifted)) is not None and {loop.loc} >= lines:
        lifted, lines = _lifted(lifted, loop), {loop.loc}  # of several axes all, `for m, n in tfl.tile([m, n])`
    return lifted if lines else ir


def _liftable(ir: KernelIR) -> Op | None:
    """The loop that is all that a program does, but for numbers and vectors; None where there is none."""
    loops = [op for op in ir.body.ops if op.kind is OpKind.FOR]
    if len(loops) != 1 or not all(op in loops or _is_little(op) for op in ir.body.ops):
        return None
    (loop,) = loops
    tile = ir.tiles[TileAttrs.of(loop).tile]
    is_known = all(isinstance(bound, Expr) and bound.symbols() <= ir.hints.keys() for bound in (tile.begin, tile.end))
    has_product = any(op.kind is OpKind.DOT for block in loop.regions for op in walk(block))
    return loop if is_known and has_product and not turns_refusal(ir, loop) else None


def _is_little(op: Op) -> bool:
    """Whether each program may do it again: a number, or a vector that is loaded, or computed lane by lane."""
    rank = max((len(v.dims) for v in op.outputs), default=0)
    return rank == 0 or (rank == 1 and (op.kind in _LOADED or bool(OPS[op.kind].traits & Trait.SPECULATIVE)))


def _lifted(ir: KernelIR, loop: Op) -> KernelIR:
    name, (turn,) = TileAttrs.of(loop).tile, loop.regions
    ops = tuple(inner for op in ir.body.ops for inner in (turn.ops if op is loop else (op,)))
    tiles = {**ir.tiles, name: replace(ir.tiles[name], is_grid=True)}
    return replace(with_body(ir, Block((), ops, ())), tiles=tiles, grid=(*ir.grid, name))
