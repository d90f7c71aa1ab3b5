"""Loops whose turns several programs share, where the grid alone leaves multiprocessors idle."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR, Tile
from ..ir.kinds import OpKind
from ..passes.spread import spreadable
from ..space.knobs import NUM_WARPS, SPREAD
from ..space.names import loop_site
from ..target import Target
from .sizes import pow2

BUSY_WARPS = 16  # of a multiprocessor


def spread_config(ir: KernelIR, chosen: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """Where multiprocessors are idle, so many programs that each has warps to run while others wait, as far as the
    loops have turns. Loops whose turns are known before the launch go first: of the others a program may get none. 96
    programs of four warps took 943 us twice, 647 four times and 620 sixteen times (85 x 80 x 80 in 16 bits, H100, by
    hand, 2026-11-26). ``chosen``: the sizes of the blocks, and warps."""
    sizes = {name: size for name, size in chosen.items() if isinstance(size, int)} | ir.hints
    count = max(prod(_turns(ir, name, sizes) for name in ir.grid), 1)
    if count >= target.sm_count:
        return {}
    has_product = any(op.kind is OpKind.DOT for op in ir.walk())  # whose operands leave room for no other program
    busy = target.sm_count if has_product else BUSY_WARPS * target.sm_count // int(chosen[NUM_WARPS.name(ir)])
    lacking = -(-busy // count)
    wanted: dict[str, Choice] = {}
    for name in sorted(spreadable(ir), key=lambda name: not _is_known(ir.tiles[name])):
        programs = min(pow2(lacking), pow2(_turns(ir, name, sizes)), max(SPREAD.choices))
        if programs > 1:
            wanted[SPREAD.name(loop_site(ir, name))] = programs
            lacking = -(-lacking // programs)
    return wanted


def _is_known(tile: Tile) -> bool:
    return isinstance(tile.begin, Expr) and isinstance(tile.end, Expr)


def _turns(ir: KernelIR, name: str, sizes: Mapping[str, int]) -> int:
    """How many tiles there are, at most."""
    block = ir.tiles[name].block
    return -(-tile_length(ir, name) // max(block.evaluate(sizes), 1)) if block.symbols() <= sizes.keys() else 1
