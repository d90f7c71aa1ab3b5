"""Load again: what a product takes and something else reads as well is loaded once for each.

In ``rows + gelu(rows @ w)`` the columns of the rows are what the product sums over, and the columns of its result: as
one load they are one dimension, and no loop goes over either. Loaded for each they are two, as if the author had
written ``x[t, :]`` twice. The second load stands behind the first, so that both give the same numbers. What is computed
of the rows on the way to the product is computed again where something else reads it; a reduction is not.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from ..expr import is_knob
from ..ir.attributes import LoadAttrs
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.op_table import having
from ..ir.opdef import Trait
from ..ir.types import Dim, Value
from .rewrite import Fresh, with_body
from .roll import LEAST_PRECISE

_TAKEN = having(Trait.BY_BLOCKS) | {OpKind.REDUCE}  # what is looked through on the way from memory to a product


def load_again(ir: KernelIR) -> KernelIR:
    """The region with long operands of its products apart from what else reads them."""
    if not any(op.kind is OpKind.DOT for op in ir.walk()):
        return ir
    again = _Again(ir)
    return with_body(ir, again.block(ir.body)) if again.wanted else ir


def is_long(ir: KernelIR, dim: Dim) -> bool:
    """Whether a dimension is a whole one of a tensor's that a loop may go over beside a product."""
    return dim.tile is None and not any(map(is_knob, dim.extent.symbols())) and ir.hint(dim.extent) > LEAST_PRECISE


def taken_by_products(ir: KernelIR) -> set[Value]:
    """What products take, and what that follows from."""
    found: set[Value] = set()
    waiting = [v for op in ir.walk() if op.kind is OpKind.DOT for v in op.values[:2]]
    while waiting:
        value = waiting.pop()
        op = ir.definitions.get(value)
        if op is not None and op.kind in _TAKEN and value not in found:
            found.update(op.outputs)
            waiting += op.values
    return found


def read_elsewhere(ir: KernelIR, taken: set[Value]) -> set[Value]:
    """Those with a long dimension that something else reads, and what they follow from; reductions are left out."""
    found: set[Value] = set()
    waiting = list(_read_by_others(ir.body, taken))
    while waiting:
        value = waiting.pop()
        op = ir.definitions[value]
        if value in found or op.kind is OpKind.REDUCE or not any(is_long(ir, d) for d in value.dims):
            continue
        found.update(op.outputs)
        waiting += [v for v in op.values if v in taken]
    return found


def _read_by_others(block: Block, taken: set[Value]) -> set[Value]:
    read = {v for v in block.results if isinstance(v, Value)}
    for op in block.ops:
        if taken.isdisjoint(op.outputs):
            read.update(op.values[2:] if op.kind is OpKind.DOT else op.values)
        for inner in op.regions:
            read |= _read_by_others(inner, taken)
    return read & taken


class _Again:
    """``wanted``: the values that are made again, for all but products."""

    def __init__(self, ir: KernelIR) -> None:
        self._ir, self._fresh = ir, Fresh(ir)
        self._taken = taken_by_products(ir)
        self._made: dict[Value, Operand] = {}
        self._sites = {LoadAttrs.of(op).site for op in ir.walk() if op.kind is OpKind.LOAD}
        self.wanted = read_elsewhere(ir, self._taken)

    def block(self, block: Block) -> Block:
        """A block with such values made again behind where they are made, and read by all but products."""
        ops: list[Op] = []
        for op in block.ops:
            is_on_the_way = not set(op.outputs).isdisjoint(self._taken)
            ops.append(op if is_on_the_way else self._elsewhere(op))
            if not self.wanted.isdisjoint(op.outputs):
                ops.append(self._copy(op))
        return Block(block.params, tuple(ops), tuple(self._named(v) for v in block.results))

    def _elsewhere(self, op: Op) -> Op:
        kept = op.inputs[:2] if op.kind is OpKind.DOT else ()
        inputs = (*kept, *(self._named(v) for v in op.inputs[len(kept) :]))
        return op.with_(inputs=inputs, regions=tuple(self.block(inner) for inner in op.regions))

    def _copy(self, op: Op) -> Op:
        outputs = tuple(self._fresh.value(v.type, v) for v in op.outputs)
        self._made.update(zip(op.outputs, outputs, strict=True))
        attrs = op.attrs
        if isinstance(attrs, LoadAttrs):
            attrs = replace(attrs, site=self._next_site(attrs.site))
        return op.with_(inputs=tuple(self._named(v) for v in op.inputs), outputs=outputs, attrs=attrs)

    def _next_site(self, site: str) -> str:
        """The first site of the load's tensor that no other load has."""
        name, _, numbered = site.rpartition("#")
        number, *region = numbered.split("@")  # none of a kernel's first launch
        sites = ("@".join((f"{name}#{n}", *region)) for n in count(int(number) + 1))
        found = next(other for other in sites if other not in self._sites)
        self._sites.add(found)
        return found

    def _named(self, operand: Operand) -> Operand:
        return self._made.get(operand, operand) if isinstance(operand, Value) else operand
