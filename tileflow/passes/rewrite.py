"""What passes share: rebuilding a region op by op with values renamed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.types import TileType, Value


class Fresh:
    """Values with ids that the region does not have yet."""

    def __init__(self, ir: KernelIR) -> None:
        self._next = ir.next_id

    def value(self, type_: TileType, like: Value | None = None) -> Value:
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
