"""What is the same in each turn of a loop, read once before it: operands of products, and vectors.

An author may read ``q[rows, :]`` in the loop over keys. Read there, the tile has a place in each stage of the loop's
pipeline and is copied once a turn; before the loop, it has one place. The schedules of :mod:`tileflow.schedule` take
such operands from before the loop, too.

A vector, ``velocity[rows]``, leaves the loop as well. No compiler below moves it: to LLVM a load of Triton's is an
assembly text that may change something. Of 38 kernels of others that read one in a turn, ten take 0.48 to 0.98 of their
time so, and one, whose lanes then have rows of their own, 1.14 (H200, 2026-11-29; docs/measurements/default-rules.md).
A number stays, which costs a turn next to nothing (of twelve kernels 0.96 to 1.02 of the time without it, one of 250
registers 1.23). So does a matrix that no product reads: before the loop it would fill registers, and sums over its rows
would not be taken column by column.

Operands that are whole matrices leave a loop together or not at all: before it they wait side by side through all of
its turns, in it each until its product. No block size makes them smaller, so that eight of 128 x 256, as of a range of
products that is written out, left no config that shared memory holds.

A loop of no turns reads nothing. So the places of what is moved follow from sizes and tiles alone, whose lanes outside
the tensor are masked, and not from numbers in memory, which may name no element when there is no turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod

from ..ir.attributes import AccessAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, TileIndex, ValueIndex, walk
from ..ir.kinds import OpKind
from ..ir.op_table import OPS, effects_of
from ..ir.opdef import Trait
from ..ir.types import Value, itemsize
from .rewrite import with_body
from .roll import OPERAND, is_whole

_WAITING = OPERAND * OPERAND * 2  # bytes of whole operands before a loop, as a half type's largest one has
_MOVED = frozenset({OpKind.LOAD, OpKind.PERMUTE, OpKind.BITCAST, OpKind.SCALAR, OpKind.TILE_ID})


def hoist_loads(ir: KernelIR) -> KernelIR:
    """Move loads of vectors, and of what products take, out of ``for`` loops, where the region only reads the
    tensor."""
    written = {shared for op in ir.walk() for path in effects_of(op).writes for shared in ir.sharing(path)}
    return with_body(ir, _hoisted(ir.body, _Region(ir, frozenset(written))))


@dataclass(frozen=True, slots=True)
class _Region:
    """``written``: paths of the tensors that the region may write."""

    ir: KernelIR
    written: frozenset[str]


def _hoisted(block: Block, region: _Region) -> Block:
    """Inner loops first: what leaves one may leave the next."""
    ops: list[Op] = []
    for op in block.ops:
        op = op.with_(regions=tuple(_hoisted(r, region) for r in op.regions)) if op.regions else op
        moved = _moved(op, region) if op.kind is OpKind.FOR else ()
        if moved:
            (turn,) = op.regions
            kept = tuple(inner for inner in turn.ops if inner not in moved)
            op = op.with_(regions=(Block(turn.params, kept, turn.results),))
        ops.extend((*moved, op))
    return Block(block.params, tuple(ops), block.results)


def _moved(loop: Op, region: _Region) -> tuple[Op, ...]:
    """What of a loop's turn is the same in each and gives its products' operands, or loads vectors, in order; none
    where nothing of it is loaded."""
    (turn,) = loop.regions
    tile = TileAttrs.of(loop).tile
    varies, is_lone = set(turn.params), sum(op.kind is OpKind.DOT for op in walk(turn)) == 1
    same: list[Op] = []
    for op in turn.ops:
        if varies.isdisjoint(op.values) and _may_move(op, tile, region, is_lone):
            same.append(op)
        else:
            varies.update(op.outputs)
    wanted = {v for op in walk(turn) if op.kind is OpKind.DOT for v in op.values[:2]}
    needed = _asked_for(same, wanted)
    if sum(_whole_bytes(op, region.ir) for op in needed) > _WAITING:
        staying = {v for op in same if _whole_bytes(op, region.ir) for v in op.outputs}
        for op in same:
            staying |= {*op.outputs} if staying & {*op.values} else set()
        needed = _asked_for([op for op in same if staying.isdisjoint(op.outputs)], wanted)
    return tuple(needed) if any(op.kind is OpKind.LOAD for op in needed) else ()


def _asked_for(same: Sequence[Op], operands: Set[Value]) -> list[Op]:
    """Those of the ops that the operands are made of, and loads of vectors with what they are made of, in order."""
    wanted, needed = set(operands), list[Op]()
    for op in reversed(same):
        if wanted & set(op.outputs) or _is_vector(op):
            wanted.update(op.values)
            needed.insert(0, op)
    return needed


def _whole_bytes(op: Op, ir: KernelIR) -> int:
    """Bytes of a load of a matrix that no block size cuts; 0 of other ops."""
    if op.kind is not OpKind.LOAD or len(op.output.dims) < 2 or not all(map(is_whole, op.output.dims)):
        return 0
    return prod(ir.hint(d.extent) for d in op.output.dims) * itemsize(op.output.type.dtype)


def _is_vector(op: Op) -> bool:
    return op.kind is OpKind.LOAD and len(op.output.dims) == 1


def _may_move(op: Op, tile: str, region: _Region, is_lone: bool) -> bool:
    """Whether an op that reads nothing of a turn's own gives the same in each, and harms nobody where there is none."""
    if op.kind not in _MOVED and not OPS[op.kind].traits & Trait.SPECULATIVE:
        return False
    if any(dim.tile == tile for v in op.outputs for dim in v.dims):
        return False
    if isinstance(op.attrs, TileAttrs) and op.attrs.tile == tile:
        return False
    return op.kind is not OpKind.LOAD or _is_fixed(op, tile, region, is_lone)


def _is_fixed(load: Op, tile: str, region: _Region, is_lone: bool) -> bool:
    attrs = AccessAttrs.of(load)
    if attrs.tensor in region.written or attrs.has_mask or _is_large(load, region.ir, is_lone):
        return False
    if any(isinstance(item, TileIndex) and item.tile == tile for item in attrs.index):
        return False
    places = [load.inputs[item.input] for item in attrs.index if isinstance(item, ValueIndex)]
    return not any(isinstance(place, Value) and _from_memory(place, region.ir.definitions) for place in places)


def _is_large(load: Op, ir: KernelIR, is_lone: bool) -> bool:
    """Whether a load takes whole dimensions alone, one of them longer than what a product beside others has at once; or
    such a dimension beside blocks for the only product of a turn, which sums over it by parts where it is read there
    (:mod:`cut_products`)."""
    whole = [ir.hint(d.extent) for d in load.output.dims if is_whole(d)]
    return (is_lone or len(whole) == len(load.output.dims)) and any(n > OPERAND for n in whole)


def _from_memory(value: Value, makers: Mapping[Value, Op]) -> bool:
    """Whether a number follows from what is in memory, or from what a loop or a branch gives."""
    maker = makers.get(value)
    if maker is None or maker.kind is OpKind.LOAD or maker.regions:
        return True
    return any(_from_memory(v, makers) for v in maker.values)
