"""Spreading: the turns of a loop inside a launch, dealt out to several programs.

A launch over few experts has few programs, though each runs through many tiles one after the other. Where no turn of
such a loop needs what another one did, an axis of further programs is put before the grid's, and program ``p`` of ``n``
along it takes the turns ``p``, ``p + n``, ``p + 2n`` ... The bounds may be values that the kernel loads: programs
whose first turn lies past the end have none.

Everything outside the loop is done by each of these programs, so it may neither write nor be seen, nor have loops or
products of its own. Of each tensor that is written in the loop, every access names its elements by the loop's tile: two
turns then never meet in one element.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import InternalError
from ..expr import Expr
from ..ir.attributes import LoopAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, Tile, once, walk
from ..ir.hazards import accesses_of
from ..ir.kinds import LOOPS, OpKind
from ..ir.op_table import PRODUCTS, effects_of

MOST_AXES = 3  # of a launch
_HEAVY = frozenset({*LOOPS, *PRODUCTS, OpKind.COMBINE, OpKind.SORT})


@once
def spreadable(ir: KernelIR) -> tuple[str, ...]:
    """The tiles of the loops that can be spread, outer ones first: as many as a launch has axes left."""
    loops = (op for op in ir.walk() if op.kind is OpKind.FOR)
    names = (TileAttrs.of(op).tile for op in loops if not spread_refusal(ir, op))
    return tuple(dict.fromkeys(names))[: max(MOST_AXES - len(ir.grid), 0)]


def spread(ir: KernelIR, name: str, programs: int) -> KernelIR:
    """The region with the turns of the loop over tile ``name`` dealt to ``programs``. Raises InternalError where
    :func:`spread_refusal` says why not."""
    for op in ir.walk():
        if op.kind is OpKind.FOR and TileAttrs.of(op).tile == name and (reason := spread_refusal(ir, op)):
            raise InternalError("only turns that are independent can be spread", got=f"{name}: {reason}", where=op.loc)
    tile = ir.tiles[name]
    axis = Tile(f"{name}.part", Expr.of(1), Expr.of(0), Expr.of(programs), is_grid=True)
    tiles = {**ir.tiles, name: replace(tile, dealt=axis.name), axis.name: axis}
    return replace(ir, tiles=tiles, grid=(*ir.grid, axis.name))


def spread_refusal(ir: KernelIR, loop: Op) -> str:
    """Why the turns of a loop cannot be dealt out to programs; empty where they can."""
    if not any(op.kind is OpKind.FOR for region in loop.regions for op in walk(region)):
        return "its turns have no loop of their own: its block size says how long they are"
    return turns_refusal(ir, loop)


def turns_refusal(ir: KernelIR, loop: Op) -> str:
    """Why the turns of a loop cannot be programs of their own, which do all that is outside it as well; empty where
    they can."""
    name = TileAttrs.of(loop).tile
    (body,) = loop.regions
    inside = {id(op) for op in walk(body)}
    loops_alike = [op for op in ir.walk() if op.kind is OpKind.FOR and TileAttrs.of(op).tile == name]
    if len(loop.inputs) > LoopAttrs.of(loop).bounds:
        return f"it carries {len(loop.inputs) - LoopAttrs.of(loop).bounds} values from turn to turn"
    if len(loops_alike) > 1:
        return f"{len(loops_alike)} loops run over this tile"
    if ir.tiles[name].lengths is not None:
        return "it is a jagged loop"
    around = [op for op in _around(ir.body, loop) or () if op is not loop]
    for op in ir.walk():
        if id(op) in inside or op is loop or any(op is outer for outer in around):
            continue
        effects = effects_of(op)
        if effects.writes or effects.is_seen:
            return f"{op.kind} outside it would be done by every program"
        if op.kind in _HEAVY:
            return f"{op.kind} outside it would be repeated by every program"
    if any(op.kind is OpKind.WHILE for op in around):
        return "a while-loop is around it"
    return meeting_turns(ir, loop, name)


def _around(block: Block, loop: Op) -> list[Op] | None:
    """The ops whose regions lead to ``loop``, and it; None where it is not in the block."""
    for op in block.ops:
        if op is loop:
            return [op]
        for region in op.regions:
            found = _around(region, loop)
            if found is not None:
                return [op, *found]
    return None


def meeting_turns(ir: KernelIR, loop: Op, name: str) -> str:
    """Which tensor two turns of a loop over the tile ``name`` may both mean elements of, of which one writes; empty
    where no turn needs what another one did."""
    (body,) = loop.regions
    written = dict.fromkeys(path for op in walk(body) for path in effects_of(op).writes)
    accesses = accesses_of(ir)
    turns = frozenset({name})
    for path in written:
        sharing = ir.sharing(path)
        found = [access for op in ir.walk() for access in accesses(op) if access.tensor in sharing]
        for access in found:
            if not all(access.is_apart(other, turns) for other in found):
                return f"{access.op.kind} of {path} names elements that another turn writes, or may"
    if any(effects_of(op).is_seen for op in walk(body)):
        return "what a turn does is seen outside, in the order of the turns"
    return ""
