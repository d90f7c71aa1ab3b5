"""Loops that gather elements: not pipelined. Recurrences are, unless each stage would keep many registers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..config import Choice
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op, SliceIndex, TileIndex, ValueIndex, walk
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import Value, itemsize
from ..space.knobs import NUM_STAGES, NUM_WARPS
from ..target import Target
from .operands import LEAST_COPIED
from .recurrences import fills_warps
from .sizes import chosen_sizes, register_elements

KEPT_REGISTERS = 64  # of a thread, in all stages, from which on they leave room for few warps
WORD = 4  # bytes of a register
SECTOR = 32  # bytes that memory moves at least


def gather_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """One stage, where a turn of a loop makes the places of elements that it loads along memory: loaded ahead, each is
    a copy of its own through shared memory, whose place must be made a turn earlier. Of 15 kernels with such loops
    eight are faster so, and none is slower but a recurrence, which has rules of its own: resampled means 3018 and 535
    us, distances of all windows of a series 51.3 and 7.8 ms, a grammar's sums 931 and 345 us, binary searches 1242 and
    635 (H100, 2026-11-26). Places that are the same in each turn, and gathered rows, are better loaded ahead."""
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR] if target.vendor == "nvidia" else []
    return {NUM_STAGES.name(ir): 1} if any(_gathers(ir, loop) for loop in loops) else {}


def kept_place_config(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """One stage, where turns use what the places of gathered elements are made of beside these elements, too, and other
    warps compute while one waits. What is made a stage ahead for a place waits in registers for the elements, once for
    each stage. Compiled for sm_90a by Triton 3.6, lines of sight of 1024 cells, which leave out a cell's own height,
    have 138 registers and 499 instructions a turn five turns ahead, 56 and 357 without. ``wanted``: the blocks, warps
    and stages without this rule."""
    warps, stages = wanted.get(NUM_WARPS.name(ir)), wanted.get(NUM_STAGES.name(ir))
    if target.vendor != "nvidia" or not isinstance(warps, int) or not isinstance(stages, int):
        return {}
    if not fills_warps(ir, wanted, target):
        return {}
    sizes, lanes = chosen_sizes(ir, wanted), warps * target.warp_size
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    kept = max((_kept_words(ir, loop, sizes) for loop in loops), default=0) // lanes
    return {NUM_STAGES.name(ir): 1} if kept * (stages - 1) >= KEPT_REGISTERS else {}


def _kept_words(ir: KernelIR, loop: Op, sizes: Mapping[str, int]) -> int:
    """Words of the tiles of which a turn makes places along memory, and that other ops of it read."""
    (turn,) = loop.regions
    ops = list(walk(turn))
    made = {v for op in ops for v in op.outputs}
    copied = [op for op in ops if op.kind is OpKind.LOAD and itemsize(op.output.type.dtype) >= LEAST_COPIED]
    gathers = [op for op in copied if _is_gathered(ir, op, made) and _sources(ir, op.values).isdisjoint(turn.params)]
    places = _sources(ir, (v for op in gathers for v in op.values)) & made
    makers = [op for op in ops if not places.isdisjoint(op.outputs)]
    others = {v for op in ops if op not in makers and op not in gathers for v in op.values}
    kept = [v for v in places & others if v.dims]
    return sum(register_elements(v, sizes) * max(itemsize(v.type.dtype) // WORD, 1) for v in kept)


def _gathers(ir: KernelIR, loop: Op) -> bool:
    """Whether a turn loads such elements; beside products, whether it multiplies what it makes of them. There shorter
    ones than an asynchronous copy moves wait in registers, and cost nothing (:mod:`operands`)."""
    (turn,) = loop.regions
    made = {*turn.params, *(v for op in walk(turn) for v in op.outputs)}
    gathered = {op.output for op in walk(turn) if op.kind is OpKind.LOAD and _is_gathered(ir, op, made)}
    products = [op for op in walk(turn) if op.kind in PRODUCTS]
    if not products:
        return bool(gathered)
    multiplied = _sources(ir, (v for op in products for v in op.values[:2]))
    return any(v in multiplied and itemsize(v.type.dtype) >= LEAST_COPIED for v in gathered)


def _is_gathered(ir: KernelIR, load: Op, made: set[Value]) -> bool:
    """Whether a turn makes the places of single elements: of no rows that lie along memory, but perhaps of one
    coordinate of points that do (corners of rings, 1669 us three turns ahead and 1042 so; H100, 2026-11-28)."""
    access, strides = AccessAttrs.of(load), ir.tensor(AccessAttrs.of(load).tensor).strides
    items = [*zip(access.index, strides, strict=True)]
    if any(isinstance(item, (TileIndex, SliceIndex)) and stride.constant == 1 for item, stride in items):
        return False
    apart = min((ir.hint(stride) for item, stride in items if isinstance(item, ValueIndex) and item.axes), default=0)
    return apart * itemsize(load.output.type.dtype) <= SECTOR and any(
        isinstance(item, ValueIndex) and item.axes and ir.hint(stride) == apart and load.inputs[item.input] in made
        for item, stride in items
    )


def _sources(ir: KernelIR, values: Iterable[Value]) -> set[Value]:
    """The values of which others are made, themselves included; not what says where a load reads."""
    found, waiting = set[Value](), list(values)
    while waiting:
        value = waiting.pop()
        maker = ir.definitions.get(value)
        if value not in found:
            found.add(value)
            waiting += maker.values if maker is not None and maker.kind is not OpKind.LOAD else ()
    return found
