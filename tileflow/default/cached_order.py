"""The order of programs by what the second-level cache keeps of what several of them read.

Programs along an axis that says nothing of where a tensor is read all read the same part of it, and those of neighbours
along an axis read each other's where a kernel looks some places beside its tile, as stencils do. The second one finds
it in the cache if less than the cache holds was touched in between: by the programs along the axes that run faster.
Here bytes of memory are counted for each order of the axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import follows_a_load, likely_length
from ..ir.attributes import AccessAttrs, PointwiseAttrs
from ..ir.graph import ExprIndex, IndexItem, KernelIR, Op, SliceIndex, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES
from ..ir.types import Value, itemsize
from ..space.knobs import GROUP, ORDER
from ..target import Target
from .shared_choices import tiles_of
from .sizes import chosen_sizes, tiles_of_axes

_LEAST_SAVED = 1.5  # times the bytes of the best order that the author's must read
_HELD = 0.4  # of the cache: it holds what is written, too, and each half of the multiprocessors has one of its own
_MOST_AXES = 4
SECTOR = 32  # bytes that memory moves at least


@dataclass(frozen=True, slots=True)
class _Read:
    """What one program touches of a tensor: ``bytes`` of the ``whole``. ``axes``: the grid's, by number, that say where
    it lies, each with how many times as many bytes come from memory where no neighbour along it finds in the cache what
    it reads too. ``sectors``: the same of sectors of which each neighbour along an axis has a few elements."""

    bytes: int
    whole: int
    axes: Mapping[int, float]
    sectors: Mapping[int, float]
    is_load: bool


def cached_order_config(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """The order that reads the fewest bytes, where the author's reads half as many again. ``wanted``: the config
    without this rule. Empty where a rule has chosen an order already."""
    name = ORDER.name(ir)
    author = ",".join(map(str, range(len(ir.grid))))
    if target.vendor != "nvidia" or not 2 <= len(ir.grid) <= _MOST_AXES or wanted.get(name) != author:
        return {}
    counts = [max(count, 1) for count in tiles_of_axes(ir, wanted)]  # an empty tensor has none
    reads = _reads(ir, wanted)
    group = wanted.get(GROUP.name(ir), 1)
    assert isinstance(group, int)
    orders = list(permutations(range(len(ir.grid))))  # the author's is the first
    found = [_bytes(_steps(order, counts, group), reads, target) for order in orders]
    best = min(range(len(orders)), key=lambda n: found[n])
    return {name: ",".join(map(str, orders[best]))} if found[0] >= _LEAST_SAVED * found[best] else {}


def _steps(order: Sequence[int], counts: Sequence[int], group: int) -> list[tuple[int, int]]:
    """The axes as programs run through them, fastest first, with how many steps each has: of the slower one of the two
    fastest a band of ``group`` comes first."""
    *others, slow, fast = [(axis, counts[axis]) for axis in order]
    band = min(group, slow[1])
    parts = [(slow[0], band), fast, (slow[0], -(-slow[1] // band))]
    return [step for step in (*parts, *reversed(others)) if step[1] > 1]


def _bytes(steps: Sequence[tuple[int, int]], reads: Sequence[_Read], target: Target) -> float:
    """Bytes that come from memory, or go there."""
    total = [float(read.bytes * prod(n for axis, n in steps if axis in read.axes)) for read in reads]
    for place, (axis, count) in enumerate(steps):
        between = steps[:place]
        touched = sum(_touched(read, between) for read in reads)
        if touched <= target.l2_bytes * _HELD:
            continue
        at_once = max(target.sm_count // prod(n for _, n in between), 1)  # read it at one time
        for number, read in enumerate(reads):
            if axis not in read.axes:
                total[number] *= -(-count // at_once) if read.is_load else 1
            else:
                in_step = max(at_once // 2, 1)  # programs of a wave are not all at the same sector
                total[number] *= max(read.axes[axis] * read.sectors.get(axis, 1) / in_step, 1)
    return sum(total)


def _touched(read: _Read, steps: Sequence[tuple[int, int]]) -> float:
    count = prod(n for axis, n in steps if axis in read.axes)
    lost = prod(n for axis, n in read.sectors.items() if axis not in dict(steps))
    return min(read.bytes * count * lost, read.whole)


def _reads(ir: KernelIR, wanted: Mapping[str, Choice]) -> list[_Read]:
    """Each tensor as it is read and written by axes of its own; the widest access of those that read it so."""
    sizes = chosen_sizes(ir, wanted)
    accesses: dict[tuple[str, frozenset[int], bool], list[Op]] = {}
    for op in ir.walk():
        if op.kind in ACCESSES:
            strides = ir.tensor(AccessAttrs.of(op).tensor).strides
            items = [i for i, by in zip(AccessAttrs.of(op).index, strides, strict=True) if by.constant != 0]
            axes = frozenset(n for item in items for n in _axes(ir, op, item))
            accesses.setdefault((AccessAttrs.of(op).tensor, axes, op.kind is OpKind.LOAD), []).append(op)
    return [_read(ir, ops, axes, is_load, sizes) for (_, axes, is_load), ops in accesses.items()]


def _read(ir: KernelIR, ops: list[Op], axes: frozenset[int], is_load: bool, sizes: Mapping[str, int]) -> _Read:
    tensor = ir.tensor(AccessAttrs.of(ops[0]).tensor)
    shape = [_stored(ir, size, by) for size, by in zip(tensor.shape, tensor.strides, strict=True)]
    element = itemsize(tensor.dtype)
    named = [[_elements(ir, op, item, sizes) for item in AccessAttrs.of(op).index] for op in ops]
    most = max(prod(min(n, size) for n, size in zip(one, shape, strict=True)) for one in named)
    apart = {tuple(item for item in AccessAttrs.of(op).index if isinstance(item, ExprIndex)) for op in ops}
    whole = prod(shape) * element
    along = [n for n, stride in enumerate(tensor.strides) if stride.constant == 1]
    times, sectors = dict[int, float](), dict[int, float]()
    for axis in axes:
        block = ir.tiles[ir.grid[axis]].block.evaluate(sizes)
        times[axis] = (block + len(_places(ir, ops, axis)) - 1) / block
        for n in along:
            if any(axis in _axes(ir, op, AccessAttrs.of(op).index[n]) for op in ops):
                sectors[axis] = max(SECTOR / (element * max(one[n] for one in named)), 1)
    return _Read(min(most * len(apart) * element, whole), whole, times, sectors, is_load)


def _stored(ir: KernelIR, size: Expr, stride: Expr) -> int:
    """How many elements of a dimension lie in memory: one of what ``expand`` repeats."""
    return 1 if stride.constant == 0 else max(ir.hint(size), 1)


def _places(ir: KernelIR, ops: list[Op], axis: int) -> set[object]:
    """The places beside each other at which accesses lie along an axis; one where loaded numbers say them."""
    found = set[object]()
    for op in ops:
        for item in AccessAttrs.of(op).index:
            value = op.inputs[item.input] if isinstance(item, ValueIndex) else None
            if axis in _axes(ir, op, item) and not (value is not None and follows_a_load(ir, value)):
                maker = ir.definitions.get(value) if isinstance(value, Value) else None
                is_moved = maker is not None and maker.kind is OpKind.POINTWISE
                found.add((PointwiseAttrs.of(maker).fn, *_numbers(maker)) if maker and is_moved else None)
    return found or {None}


def _numbers(op: Op) -> list[object]:
    return [operand for operand in op.inputs if not isinstance(operand, Value)]


def _tiles(ir: KernelIR, op: Op, item: IndexItem) -> frozenset[str]:
    if isinstance(item, TileIndex):
        return frozenset({item.tile})
    if not isinstance(item, ValueIndex):
        return frozenset()
    direct, chosen = tiles_of(ir, op.inputs[item.input])
    return direct | chosen


def _axes(ir: KernelIR, op: Op, item: IndexItem) -> list[int]:
    tiles = _tiles(ir, op, item)
    return [n for n, tile in enumerate(ir.grid) if tile in tiles]


def _elements(ir: KernelIR, op: Op, item: IndexItem, sizes: Mapping[str, int]) -> int:
    """How many elements of a dimension a program names, over all turns of its loops."""
    loops = [tile for tile in _tiles(ir, op, item) if tile not in ir.grid]
    turns = prod(max(likely_length(ir, tile), 1) for tile in loops)
    if isinstance(item, SliceIndex):
        return max(ir.hint(item.dim.extent), 1) if item.dim.extent.symbols() <= ir.hints.keys() else 1
    if isinstance(item, TileIndex):
        return turns if loops else ir.tiles[item.tile].block.evaluate(sizes)
    if isinstance(item, ValueIndex):
        value = op.inputs[item.input]
        own = [d for d in value.dims if d.tile not in loops] if isinstance(value, Value) else []
        return turns * prod(d.extent.evaluate(sizes) for d in own)
    return 1
