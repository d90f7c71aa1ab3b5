"""Loops whose turns read a small table again: not loaded ahead.

A copy of 16 bytes that is made ahead of its turn passes the first-level cache by (``cp.async.cg``; shorter ones do
not). So each turn of each program asks the second-level cache for the few lines of a table that every program reads,
and all multiprocessors wait for the same of its slices. A load without stages finds the table in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ..config import Choice
from ..ir.analysis import likely_length
from ..ir.attributes import AccessAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, SliceIndex, TileIndex, ValueIndex, walk
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.types import itemsize
from ..space.knobs import NUM_STAGES
from ..target import Target
from .recurrences import fills_warps
from .sizes import chosen_sizes, register_elements

TABLE = 1 << 15  # bytes that the first-level cache keeps beside what programs share
COPY = 16  # bytes of a copy that passes it by
MOSTLY = 8  # times as many bytes of tables as of all else that turns load


def table_config(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """One stage, where most of what turns load are rows of tables that they read again, and other warps compute while
    one waits: best paths through 32 states 565 us loaded five turns ahead, and 349 when they are needed (H100,
    2026-11-27). ``wanted``: the blocks and warps without this rule."""
    if target.vendor != "nvidia" or not fills_warps(ir, wanted, target):
        return {}
    sizes, again, others = chosen_sizes(ir, wanted), 0, 0
    for loop, load, times in _loads(ir, ir.body, sizes):
        moved = times * register_elements(load.output, sizes) * itemsize(load.output.type.dtype)
        if _is_read_again(ir, loop, load):
            again += moved
        else:
            others += moved
    return {NUM_STAGES.name(ir): 1} if again > MOSTLY * others else {}


def _loads(ir: KernelIR, block: Block, sizes: Mapping[str, int], times: int = 1) -> Iterator[tuple[Op, Op, int]]:
    """The loops of a block, each with a load of its turns, and how often a program makes that."""
    for loop in (op for op in block.ops if op.kind is OpKind.FOR):
        name = TileAttrs.of(loop).tile
        turns = times * max(likely_length(ir, name) // ir.tiles[name].block.evaluate(sizes), 1)
        (turn,) = loop.regions
        yield from ((loop, op, turns) for op in turn.ops if op.kind is OpKind.LOAD)
        yield from _loads(ir, turn, sizes, turns)


def _is_read_again(ir: KernelIR, loop: Op, load: Op) -> bool:
    """Whether the turns of a loop copy rows of a small table: each lane's own, or the same ones in each turn."""
    access = AccessAttrs.of(load)
    tensor = ir.tensor(access.tensor)
    is_small = prod(ir.hint(n) for n in tensor.shape) * itemsize(tensor.dtype) <= TABLE
    if not is_small or access.tensor in _written(ir.body) or not _has_runs(ir, load):
        return False
    if any(isinstance(item, TileIndex) and item.tile == TileAttrs.of(loop).tile for item in access.index):
        return False
    (turn,) = loop.regions
    made = {*turn.params, *(v for op in walk(turn) for v in op.outputs)}
    places = [item for item in access.index if isinstance(item, ValueIndex)]
    if any(load.inputs[item.input] in made for item in places):
        return all(item.axes for item in places if load.inputs[item.input] in made)
    return bool(_written(turn))  # else Triton moves the load out of the loop


def _written(block: Block) -> set[str]:
    """The paths of the tensors that a block writes."""
    return {path for op in walk(block) for path in effects_of(op).writes}


def _has_runs(ir: KernelIR, load: Op) -> bool:
    """Whether a load takes whole runs of memory, long enough for a copy of 16 bytes."""
    access = AccessAttrs.of(load)
    tensor = ir.tensor(access.tensor)
    for item, stride in zip(access.index, tensor.strides, strict=True):
        if isinstance(item, SliceIndex) and stride.constant == 1:
            return ir.hint(item.dim.extent) * itemsize(tensor.dtype) >= COPY
    return False
