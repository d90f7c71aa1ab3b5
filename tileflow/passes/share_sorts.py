"""Share sorts: what is sorted twice is sorted once, as by ``median`` and ``quantile`` of the same rows.

A sort is the longest code that one line asks for. Triton merges equal ops, but no loads with a store between them, and
nothing that is made of those. Here two loads are equal where their indices are and the region does not write their
tensor, and what pure ops make of equal values in the same way is equal. Only sorts are shared: the loads and what
is computed element by element stay where they are, unless nobody reads them any more.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.attributes import LoadAttrs, ReduceAttrs
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.types import Value
from .rewrite import rename, with_body

_Form = tuple[str, ...]
_Known = dict[_Form, tuple[Value, ...]]


def share_sorts(ir: KernelIR) -> KernelIR:
    """The first of equal sorts stands for all that follow it, in its block and in those within."""
    if sum(op.kind is OpKind.SORT for op in ir.walk()) < 2:
        return ir
    written = frozenset(s for op in ir.walk() for path in effects_of(op).writes for s in ir.sharing(path))
    return with_body(ir, _Sharing(written).of(ir.body, {}))


class _Sharing:
    """``renamed``: sorts by the first that are equal to them. ``first``: any value by the first that is equal to it,
    which tells forms and replaces nothing."""

    def __init__(self, written: frozenset[str]) -> None:
        self.written = written
        self.renamed: dict[Value, Operand] = {}
        self.first: dict[Value, Operand] = {}

    def of(self, block: Block, known: _Known) -> Block:
        ops: list[Op] = []
        known = dict(known)
        for op in block.ops:
            op = op.with_(inputs=tuple(rename(v, self.renamed) for v in op.inputs))
            if self._is_told_by_form(op):
                firsts = known.setdefault(self._form(op), op.outputs)
                if firsts != op.outputs:
                    kept = self.renamed if op.kind is OpKind.SORT else self.first
                    kept.update(zip(op.outputs, firsts, strict=True))
                    if op.kind is OpKind.SORT:
                        continue
            ops.append(op.with_(regions=tuple(self.of(r, known) for r in op.regions)) if op.regions else op)
        return Block(block.params, tuple(ops), tuple(rename(v, self.renamed) for v in block.results))

    def _is_told_by_form(self, op: Op) -> bool:
        if op.kind is OpKind.LOAD:
            return LoadAttrs.of(op).tensor not in self.written
        effects = effects_of(op)
        return bool(op.outputs) and not op.regions and effects.is_pure and not effects.tensors

    def _form(self, op: Op) -> _Form:
        """What the outputs follow from, as a text: 0.0 and -0.0, and 1 and 1.0, are equal as numbers."""
        attrs = op.attrs
        if isinstance(attrs, (LoadAttrs, ReduceAttrs)):
            attrs = replace(attrs, site="")
        inputs = (repr(v.id) if isinstance(v, Value) else f"number {v!r}" for v in self._firsts(op))
        return op.kind, repr(attrs), repr([v.type for v in op.outputs]), *inputs

    def _firsts(self, op: Op) -> list[Operand]:
        return [rename(v, self.first) for v in op.inputs]
