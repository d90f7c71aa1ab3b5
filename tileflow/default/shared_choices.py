"""The order of programs whose largest tensor is chosen from by loaded numbers, as experts' matrices are by tokens.

Programs of several tokens may read one matrix. Where those of one part of all matrices run beside each other, the
second-level cache has it for the next token; where each token's programs run through whole matrices, it has not.
"""

from __future__ import annotations

from math import prod

from ..config import Choice
from ..ir.analysis import tile_length
from ..ir.attributes import AccessAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, Operand, TileIndex, ValueIndex, once_each
from ..ir.kinds import OpKind
from ..ir.types import Value, itemsize
from ..space.knobs import ORDER
from ..target import Target

_OF_TILES = frozenset({OpKind.TILE_INDEX, OpKind.TILE_BEGIN, OpKind.TILE_END, OpKind.TILE_ID})
Tiles = frozenset[str]
_NONE: Tiles = frozenset()


def shared_choice_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The axis last, and so fastest, that says by loaded numbers alone what is read of the largest tensor, where
    another axis of the grid says it by itself, and more is chosen than there is: 16 tokens of six experts of 64, 369
    MB, 167 us token by token and 113 so (H100, 2026-11-28). Empty for others, and for a tensor that the cache holds."""
    loads = [op for op in ir.walk() if op.kind is OpKind.LOAD]
    if target.vendor != "nvidia" or len(ir.grid) < 2 or not loads:
        return {}
    largest = max(loads, key=lambda op: _bytes(ir, op))
    direct, chosen = tiles_behind(ir, largest)
    by_choice = [n for n, tile in enumerate(ir.grid) if tile in chosen - direct]
    if len(by_choice) != 1 or not direct & set(ir.grid) or _bytes(ir, largest) <= target.l2_bytes:
        return {}
    times = sum(AccessAttrs.of(op).tensor == AccessAttrs.of(largest).tensor for op in loads)
    if times * prod(tile_length(ir, tile) for tile in chosen) <= _choices(ir, largest):
        return {}
    (own,) = by_choice
    others = [n for n in range(len(ir.grid)) if n != own]
    return {ORDER.name(ir): ",".join(map(str, (*others, own)))} if own != len(others) else {}


def _bytes(ir: KernelIR, load: Op) -> int:
    tensor = ir.tensor(AccessAttrs.of(load).tensor)
    return prod(ir.hint(size) for size in tensor.shape) * itemsize(tensor.dtype)


def _choices(ir: KernelIR, load: Op) -> int:
    """How many parts of a tensor loaded numbers choose from."""
    access = AccessAttrs.of(load)
    sizes = [
        ir.hint(size)
        for item, size in zip(access.index, ir.tensor(access.tensor).shape, strict=True)
        if isinstance(item, ValueIndex) and tiles_of(ir, load.inputs[item.input])[1]
    ]
    return prod(sizes)


def tiles_behind(ir: KernelIR, load: Op) -> tuple[Tiles, Tiles]:
    """The tiles that say by themselves where a load reads, and those that say it by a loaded number."""
    direct, chosen = _NONE, _NONE
    for item in AccessAttrs.of(load).index:
        if isinstance(item, TileIndex):
            direct |= {item.tile}
        elif isinstance(item, ValueIndex):
            more, through = tiles_of(ir, load.inputs[item.input])
            direct, chosen = direct | more, chosen | through
    return direct, chosen


@once_each
def tiles_of(ir: KernelIR, value: Operand) -> tuple[Tiles, Tiles]:
    """The tiles that a value is made of, those alone and those through a load."""
    op = ir.definitions.get(value) if isinstance(value, Value) else None
    if op is None:
        return _NONE, _NONE
    if op.kind in _OF_TILES:
        return frozenset({TileAttrs.of(op).tile}), _NONE
    if op.kind is OpKind.LOAD:
        direct, chosen = tiles_behind(ir, op)
        return _NONE, direct | chosen
    found = [tiles_of(ir, operand) for operand in op.inputs]
    return _NONE.union(*(direct for direct, _ in found)), _NONE.union(*(chosen for _, chosen in found))
