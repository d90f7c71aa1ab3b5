"""Share loads: what several products take of the same place in memory is loaded once.

A helper that is called four times writes ``web[:, :]`` once and loads it four times. Where only products read the
loads, and the region writes nothing there, the first one stands for those that follow it, and shared memory holds it
once.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.attributes import LoadAttrs
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.types import Value
from .load_again import read_elsewhere, taken_by_products
from .rewrite import rename, with_body

_Known = dict[tuple[tuple[Operand, ...], LoadAttrs], Value]


def share_loads(ir: KernelIR) -> KernelIR:
    """The region with each such load once in its block and in those within."""
    taken = taken_by_products(ir)
    written = {shared for op in ir.walk() for path in effects_of(op).writes for shared in ir.sharing(path)}
    alone = taken - read_elsewhere(ir, taken)
    loads = [
        op
        for op in ir.walk()
        if op.kind is OpKind.LOAD and op.output in alone and LoadAttrs.of(op).tensor not in written
    ]
    if len({_form(op) for op in loads}) == len(loads):
        return ir
    return with_body(ir, _shared(ir.body, {op.output for op in loads}, {}, {}))


def _form(load: Op) -> tuple[tuple[Operand, ...], LoadAttrs]:
    return load.inputs, replace(LoadAttrs.of(load), site="")


def _shared(block: Block, loads: set[Value], known: _Known, renamed: dict[Value, Operand]) -> Block:
    ops: list[Op] = []
    known = dict(known)
    for op in block.ops:
        op = op.with_(inputs=tuple(rename(v, renamed) for v in op.inputs))
        if op.kind is OpKind.LOAD and op.output in loads:
            first = known.setdefault(_form(op), op.output)
            if first != op.output:
                renamed[op.output] = first
                continue
        ops.append(op.with_(regions=tuple(_shared(r, loads, known, renamed) for r in op.regions)) if op.regions else op)
    return Block(block.params, tuple(ops), tuple(rename(v, renamed) for v in block.results))
