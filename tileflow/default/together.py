"""Blocks that several launches share, as those over a list of tensors do: chosen for all of them.

A loop over a list of tensors is a launch for each tensor, and all have one block. Of the last tensor's one number an
optimiser's step had blocks of 1, and took 37 ms for its 62 million (an H200, 2026-11-30).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from math import prod

from ..config import Choice
from ..ir.graph import KernelIR
from ..ir.op_table import PRODUCTS
from ..space.knobs import NUM_WARPS
from ..space.names import is_block
from .few_programs import MIN_WARPS
from .sizes import chosen_sizes, programs

LEAST_LANES = 32 * MIN_WARPS  # of a program: what fewer take is hardly less
A_PROGRAM = 32  # lanes that another program is worth
AS_FEW = 1.2  # times as many lanes count as equal
Blocks = tuple[tuple[str, Choice], ...]


def together(regions: Sequence[KernelIR], each: Sequence[Mapping[str, Choice]]) -> dict[str, Choice]:
    """The knobs of all launches, of which ``each`` wants some by itself. What several want is as the longest wants
    it of those by whose blocks all their programs together have few lanes, the last one of several as long; a launch
    takes that one's warps along, which go with its blocks. Where a product is among those that share, all have the
    last one's knobs."""
    wanted = {name: choice for own in each for name, choice in own.items()}
    own_blocks = [tuple((name, size) for name, size in own.items() if is_block(name)) for own in each]
    for group in _sharing(own_blocks):
        if len({own_blocks[n] for n in group}) > 1 and not any(_has_product(regions[n]) for n in group):
            wanted |= _of_group([regions[n] for n in group], [each[n] for n in group], [own_blocks[n] for n in group])
    return wanted


def _sharing(own_blocks: Sequence[Blocks]) -> list[list[int]]:
    """The launches by their numbers, those together that share a block, in their order."""
    groups: list[tuple[set[str], list[int]]] = []
    for n, blocks in enumerate(own_blocks):
        names, numbers = {name for name, _ in blocks}, [n]
        apart = [group for group in groups if group[0].isdisjoint(names)]
        for others, before in (group for group in groups if group not in apart):
            names, numbers = names | others, before + numbers
        groups = [*apart, (names, sorted(numbers))]
    return [numbers for _, numbers in groups]


def _has_product(ir: KernelIR) -> bool:
    return any(op.kind in PRODUCTS for op in ir.walk())


def _of_group(
    regions: Sequence[KernelIR], each: Sequence[Mapping[str, Choice]], own_blocks: Sequence[Blocks]
) -> dict[str, Choice]:
    """What the best of the launches wants, and its warps for those whose blocks become others by it."""
    lanes = {blocks: sum(map(_lanes, regions, each, repeat(blocks))) for blocks in {*own_blocks}}
    few = AS_FEW * min(lanes.values())
    able = [n for n, blocks in enumerate(own_blocks) if lanes[blocks] <= few]
    best = max(able, key=lambda n: (_lanes(regions[n], each[n], own_blocks[n]), n))
    shared = {name: choice for own in (*each, each[best]) for name, choice in own.items()}
    for ir, own in zip(regions, each, strict=True):
        if any(is_block(name) and shared[name] != choice for name, choice in own.items()):
            shared[NUM_WARPS.name(ir)] = each[best].get(NUM_WARPS.name(regions[best]), NUM_WARPS.default)
    return shared


def _lanes(ir: KernelIR, own: Mapping[str, Choice], blocks: Blocks) -> int:
    """Lanes of all programs of a launch by another one's blocks, with what the programs themselves are worth."""
    sizes = chosen_sizes(ir, {**own, **dict(blocks)})
    lanes = prod(ir.tiles[name].block.evaluate(sizes) for name in ir.grid)
    return programs(ir, sizes) * (max(lanes, LEAST_LANES) + A_PROGRAM)
