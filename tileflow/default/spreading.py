"""Loops whose turns several programs share, where the grid alone leaves multiprocessors idle."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR, Tile
from ..passes.spread import spreadable
from ..space.knobs import SPREAD
from ..space.names import loop_site
from ..target import Target
from .sizes import pow2


def spread_config(ir: KernelIR, chosen: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """So many programs that each multiprocessor has one, as far as the loops have turns. Loops whose turns are known
    before the launch go first: of the others a program may get none. ``chosen``: the sizes of the blocks."""
    sizes = {name: size for name, size in chosen.items() if isinstance(size, int)} | ir.hints
    lacking = -(-target.sm_count // max(prod(_turns(ir, name, sizes) for name in ir.grid), 1))
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
