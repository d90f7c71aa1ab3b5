"""Dead code: ops whose results nobody reads and that write nothing."""

from __future__ import annotations

from ..ir.graph import Block, KernelIR, Op, walk
from ..ir.op_table import effects_of
from ..ir.types import Value
from .rewrite import with_body


def remove_dead_code(ir: KernelIR) -> KernelIR:
    """Ops with an effect stay, and all that they read."""
    live = _bounds(ir)
    return with_body(ir, _sweep(ir.body, live))


def _bounds(ir: KernelIR) -> set[Value]:
    return {bound for tile in ir.tiles.values() for bound in tile.bounds}


def _has_effect(op: Op) -> bool:
    inner = (o for block in op.regions for o in walk(block))
    return any(not effects_of(o).is_pure for o in (op, *inner))


def _sweep(block: Block, live: set[Value]) -> Block:
    live.update(v for v in block.results if isinstance(v, Value))
    kept: list[Op] = []
    for op in reversed(block.ops):
        if not _has_effect(op) and not any(v in live for v in op.outputs):
            continue
        if op.regions:
            op = op.with_(regions=tuple(_sweep(r, live) for r in op.regions))
        live.update(op.values)
        kept.append(op)
    return Block(block.params, tuple(reversed(kept)), block.results)
