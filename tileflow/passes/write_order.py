"""Phases of a block that becomes loops over one of its dimensions, which write in the author's order.

Each reduction over the dimension ends a phase; what reads its result comes in a later one. Within a phase, ops without
the dimension come first, in their order, and the loop over the dimension after them, whose stores alternate block by
block. A write whose place may have been written or read before is put off to a phase that comes after that, and so is
a load of what may have been written before. A load of the dimension, or of another whole one, is made again where a
later phase needs it: a block with such a load of what it writes has no phases.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ..ir.attributes import AtomicAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, uses, walk
from ..ir.hazards import Access, accesses_of
from ..ir.kinds import OpKind
from ..ir.types import Dim, Value
from .folds import folded

# what atomics do in any order, as long as nobody reads what was there before
_COMMUTATIVE = frozenset({"add", "and", "or", "xor", "min", "max"})


def has(value: Operand, dim: Dim) -> bool:
    """Whether an operand is a tile with the dimension."""
    return isinstance(value, Value) and dim in value.dims


@dataclass(frozen=True, slots=True)
class _Placed:
    """What the op of the number ``place`` in the block writes or loads, itself or in a region. ``by_blocks``: block by
    block of the dimension, in the loop of its phase."""

    access: Access
    place: int
    by_blocks: bool


class Phases:
    """The phases of one block in loops over ``dim``."""

    def __init__(self, ir: KernelIR, block: Block, dim: Dim) -> None:
        self.block, self.dim = block, dim
        self._after = _writes_before(ir, block, dim)

    def of(self, along: Collection[Value] = ()) -> tuple[list[int], Mapping[Value, int]]:
        """The phase of each op of the block, and the first phase that has each value. ``along``: what is summed in the
        phase of the maximum that it needs, so that it ends none."""
        first: dict[Value, int] = {}
        found: list[int] = []
        for place, op in enumerate(self.block.ops):
            inside = (v for region in op.regions for v in uses(region))
            ready = max((first.get(v, 0) for v in (*op.values, *inside)), default=0)
            written = max((found[p] + gap for p, gap in self._after.get(place, ())), default=0)
            found.append(max(ready, written))
            for v in op.outputs:
                first[v] = found[-1] + (folded(op) == self.dim and v not in along)
        return found, first


def reads_what_it_writes(ir: KernelIR, block: Block) -> Op | None:
    """The first load of a whole dimension of a tensor that the block writes: a later phase, or a turn of a loop, which
    loads that again, would load what an earlier one wrote."""
    accesses = [a for _, a in _accesses(ir, block)]
    written = _written(ir, accesses)
    again = (a.op for a in accesses if not a.writes and a.tensor in written and any(map(_is_whole, a.dims)))
    return next(again, None)


def _is_whole(dim: Dim) -> bool:
    return dim.tile is None and dim.extent.constant != 1


def _accesses(ir: KernelIR, block: Block) -> list[tuple[int, Access]]:
    """All accesses of the block, regions included, each with the number of the op of the block that has it."""
    find = accesses_of(ir)
    return [
        (place, access)
        for place, op in enumerate(block.ops)
        for inner in walk(Block((), (op,), ()))
        for access in find(inner)
    ]


def _written(ir: KernelIR, accesses: Iterable[Access]) -> set[str]:
    return {path for a in accesses if a.writes for path in ir.sharing(a.tensor)}


def _writes_before(ir: KernelIR, block: Block, dim: Dim) -> dict[int, list[tuple[int, int]]]:
    """For each op of the block that writes, or loads what is written, by its number, the earlier ones that it must come
    after, and how many phases."""
    read, accesses = uses(block), _accesses(ir, block)
    written = _written(ir, [a for _, a in accesses])
    placed = [
        _Placed(access, place, _is_store_of(block.ops[place], dim))
        for place, access in accesses
        if access.tensor in written
    ]
    # what one op has in its region stays as it is
    found: dict[int, list[tuple[int, int]]] = {}
    for earlier, later in itertools.combinations(placed, 2):
        if earlier.place != later.place and _has_order(ir, earlier.access, later.access, read):
            alternate = later.by_blocks and earlier.access.is_lanewise(later.access)
            gap = int(earlier.by_blocks and not alternate)
            found.setdefault(later.place, []).append((earlier.place, gap))
    return found


def _is_store_of(op: Op, dim: Dim) -> bool:
    return op.kind is OpKind.STORE and has(op.inputs[0], dim)


def _has_order(ir: KernelIR, earlier: Access, later: Access, read: Collection[Value]) -> bool:
    """Whether it can be seen which of two accesses comes first."""
    if not (earlier.writes or later.writes):
        return False
    if later.tensor not in ir.sharing(earlier.tensor) or earlier.is_apart(later, frozenset()):
        return False
    kinds = {AtomicAttrs.of(a.op).fn if a.op.kind is OpKind.ATOMIC else "" for a in (earlier, later)}
    is_counted = any(v in read for a in (earlier, later) for v in a.op.outputs)
    return is_counted or len(kinds) > 1 or not kinds <= _COMMUTATIVE
