"""Share reductions: what is reduced twice in the same way is reduced once, as by ``softmax`` and ``logsumexp`` of the
same scores, whose loops are one then."""

from __future__ import annotations

from dataclasses import replace

from ..expr import Expr
from ..ir.attributes import Attrs, ReduceAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, Tile
from ..ir.kinds import OpKind
from ..ir.types import Value
from .rewrite import rename

_Known = dict[tuple[tuple[Operand, ...], Attrs], Value]


def share_reductions(ir: KernelIR) -> KernelIR:
    """The first of equal reductions stands for all that follow it, in its block and in those within."""
    if sum(op.kind is OpKind.REDUCE for op in ir.walk()) < 2:
        return ir
    renamed: dict[Value, Operand] = {}
    body = _shared(ir.body, {}, renamed)
    return replace(ir, body=body, tiles={name: _bounded(tile, renamed) for name, tile in ir.tiles.items()})


def _bounded(tile: Tile, renamed: dict[Value, Operand]) -> Tile:
    """A loop's tile, whose bounds may be reductions, as the longest of some lengths is."""

    def bound(value: Expr | Value) -> Expr | Value:
        found = rename(value, renamed) if isinstance(value, Value) else value
        assert isinstance(found, (Expr, Value))
        return found

    lengths = tile.lengths and rename(tile.lengths, renamed)
    assert lengths is None or isinstance(lengths, Value)
    return replace(tile, begin=bound(tile.begin), end=bound(tile.end), lengths=lengths)


def _shared(block: Block, known: _Known, renamed: dict[Value, Operand]) -> Block:
    ops: list[Op] = []
    known = dict(known)
    for op in block.ops:
        op = op.with_(inputs=tuple(rename(v, renamed) for v in op.inputs))
        if op.kind is OpKind.REDUCE:
            form = op.inputs, replace(ReduceAttrs.of(op), site="")
            if form in known:
                renamed[op.output] = known[form]
                continue
            known[form] = op.output
        ops.append(op.with_(regions=tuple(_shared(r, known, renamed) for r in op.regions)) if op.regions else op)
    return Block(block.params, tuple(ops), tuple(rename(v, renamed) for v in block.results))
