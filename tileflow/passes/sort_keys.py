"""Sorts of which nobody reads the places: their keys alone, of 32 bits, where each was joined with its place.

``torch.sort(x).values`` is traced with the places, since what is read of the pair is known later. Keys that are equal
are one number, so that their order does not show. A lane holds half as much, and compares and exchanges in one
instruction for two.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.attributes import NO_ATTRS
from ..ir.graph import KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import TileType, Value
from .makers import function_of
from .rewrite import Fresh, map_ops, rename, with_body

_HALF = 32  # bits of a key, above those of a place


def sort_keys_alone(ir: KernelIR) -> KernelIR:
    """Each sort of joined keys and places whose users take the keys alone, as one of the keys."""
    keys = {op.output: key for op in ir.walk() if op.kind is OpKind.SORT and (key := _key(ir, op)) is not None}
    if not keys:
        return ir
    fresh, wide, renamed = Fresh(ir), dict[Value, Value](), dict[Value, Operand]()

    def rewrite(op: Op) -> list[Op]:
        if op.kind is OpKind.SORT and op.output in keys:
            ops = _sorted(ir, op, rename(keys[op.output], renamed), fresh)
            wide[op.output] = ops[-1].output
            return ops
        if op.values and op.values[0] in wide:
            renamed[op.output] = wide[op.values[0]]
            return []
        return [op]

    return with_body(ir, map_ops(ir.body, rewrite, renamed))


def _key(ir: KernelIR, sort: Op) -> Value | None:
    """The keys, of 64 bits, that are joined with places in what is sorted; None where somebody reads the places."""
    readers = [op for op in ir.walk() if sort.output in op.values]
    takes_keys = all(function_of(op) == "shift_right" and op.inputs[1] == _HALF for op in readers)
    joined = _moves(ir.definitions, sort)[-1].values[0]
    pair = ir.definitions.get(joined)
    if not takes_keys or len(readers) != ir.uses.get(sort.output, 0) or function_of(pair) != "bitwise_or":
        return None
    assert pair is not None
    high = ir.definitions.get(pair.values[0])
    is_key = function_of(high) == "shift_left" and high is not None and high.inputs[1] == _HALF
    return high.values[0] if is_key and high is not None else None


def _moves(makers: Mapping[Value, Op], sort: Op) -> list[Op]:
    """The sort and, from it on, the permutations of dimensions before it."""
    found = [sort]
    while (op := makers.get(found[-1].values[0])) is not None and op.kind is OpKind.PERMUTE:
        found.append(op)
    return found


def _sorted(ir: KernelIR, sort: Op, key: Operand, fresh: Fresh) -> list[Op]:
    """The ops that sort the keys alone; the last one gives them in the dtype of their users."""
    assert isinstance(key, Value)

    def cast(value: Value, dtype: str) -> Op:
        return Op(OpKind.CAST, (value,), (fresh.value(TileType(dtype, value.dims), value),), NO_ATTRS)

    ops = [cast(key, "int32")]
    for move in reversed(_moves(ir.definitions, sort)):
        own = fresh.value(TileType("int32", move.output.dims), move.output)
        ops.append(move.with_(inputs=(ops[-1].output,), outputs=(own,)))
    return [*ops, cast(ops[-1].output, "int64")]
