"""What passes share: rebuilding a region op by op with values renamed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..ir.attributes import AccessAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, SliceIndex
from ..ir.types import Dim, TileType, Value


class Fresh:
    """Values with ids that the region does not have yet."""

    def __init__(self, ir: KernelIR) -> None:
        self._next = ir.next_id

    def value(self, type_: TileType, like: Value | Op | None = None) -> Value:
        """A new value of that type; errors about it name the line of ``like``."""
        self._next += 1
        return Value(self._next - 1, type_, like.loc if like else None)


Rewrite = Callable[[Op], list[Op]]


def map_ops(block: Block, rewrite: Rewrite, renamed: dict[Value, Operand] | None = None) -> Block:
    """Every op, inner blocks first, replaced by what ``rewrite`` gives; ``renamed`` values are replaced in their users.

    ``rewrite`` sees ops with their operands renamed already, and may add to ``renamed``.
    """
    renamed = {} if renamed is None else renamed
    ops: list[Op] = []
    for op in block.ops:
        if renamed and any(v in renamed for v in op.inputs if isinstance(v, Value)):
            op = op.with_(inputs=tuple(rename(v, renamed) for v in op.inputs))
        if op.regions:
            op = op.with_(regions=tuple(map_ops(r, rewrite, renamed) for r in op.regions))
        ops.extend(rewrite(op))
    return Block(block.params, tuple(ops), tuple(rename(v, renamed) for v in block.results))


def rename(operand: Operand, renamed: dict[Value, Operand]) -> Operand:
    """``operand`` by its newest name."""
    while isinstance(operand, Value) and operand in renamed:
        operand = renamed[operand]
    return operand


def with_body(ir: KernelIR, body: Block) -> KernelIR:
    """``ir`` with another body; all else is kept."""
    return replace(ir, body=body)


@dataclass(frozen=True, slots=True)
class Redimension:
    """A region with other dimensions of its values, op by op. ``of``: the new dimension of a value's axis. ``taken``:
    that of a slice, which an op takes of a tensor."""

    of: Callable[[Value, int], Dim]
    taken: Callable[[Op, SliceIndex], Dim]

    def block(self, block: Block) -> Block:
        """A block and all that are in it."""
        return Block(
            tuple(self._value(p) for p in block.params),
            tuple(self._op(op) for op in block.ops),
            tuple(self._operand(r) for r in block.results),
        )

    def _op(self, op: Op) -> Op:
        attrs = op.attrs
        if isinstance(attrs, AccessAttrs):
            items = (replace(i, dim=self.taken(op, i)) if isinstance(i, SliceIndex) else i for i in attrs.index)
            attrs = replace(attrs, index=tuple(items))
        return op.with_(
            inputs=tuple(self._operand(v) for v in op.inputs),
            outputs=tuple(self._value(v) for v in op.outputs),
            regions=tuple(self.block(r) for r in op.regions),
            attrs=attrs,
        )

    def _operand(self, operand: Operand) -> Operand:
        return self._value(operand) if isinstance(operand, Value) else operand

    def _value(self, value: Value) -> Value:
        dims = tuple(self.of(value, axis) for axis in range(len(value.dims)))
        return Value(value.id, replace(value.type, dims=dims), value.loc)
