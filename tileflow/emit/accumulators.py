"""Accumulators of a loop that Triton's OptimizeThreadLocality would take apart wrongly, and what keeps it from them.

The pass looks at what a loop yields: an operation on a reduction of a loaded tile along its last dimension, whose
accumulator starts at a constant. It gives every thread a partial accumulator, and reduces those after the loop. That is
right where the loop adds a sum, multiplies by a product, or keeps an extremum of extrema, and reads the accumulator for
nothing else. Triton 3.6 and 3.7 check neither: a running sum that is read inside the loop is one thread's part of it, a
maximum of sums is a sum of maxima, and where the other operand is no accumulator the pass fails. Such an accumulator
starts at a value that is a constant to nobody but the assembler, so that the pass leaves its loop alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..ir.attributes import AxisAttrs, LoopAttrs, PointwiseAttrs, ReduceAttrs
from ..ir.graph import Block, KernelIR, Op, once, uses, walk
from ..ir.kinds import OpKind
from ..ir.types import Value, is_float

# what a reduction's own function is called as an operation on two tiles
_PAIRED = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
_COMBINERS = frozenset(_PAIRED.values())
_FOLDED = frozenset(
    {
        OpKind.FULL,
        OpKind.POINTWISE,
        OpKind.CAST,
        OpKind.BITCAST,
        OpKind.UNSQUEEZE,
        OpKind.SQUEEZE,
        OpKind.EXPAND,
        OpKind.RESHAPE,
        OpKind.PERMUTE,
        OpKind.SIZE,
        OpKind.IF,
        OpKind.WHERE_MASK,
    }
)
_TRANSPARENT = frozenset({OpKind.CAST, OpKind.WHERE_MASK})  # some write nothing
# Triton's passes do not fold a comparison of the program's number; ptxas knows its range
OPAQUE = "(x):\n    return tl.where(tl.program_id(0) < 0, (x == 0).to(x.dtype), x)\n"


@dataclass(frozen=True, slots=True)
class Accumulators:
    """What is to be known of a region's values. ``counts``: how often each is read."""

    makers: Mapping[Value, Op]
    counts: Mapping[Value, int]

    @classmethod
    def of(cls, ir: KernelIR) -> Accumulators:
        """The region's values with the ops that define them and the counts of their readers."""
        return cls({v: op for op in ir.walk() for v in op.outputs}, uses(ir.body))

    def starts_opaque(self, loop: Op, number: int) -> bool:
        """Whether the loop's carried value of this number needs a start that Triton takes for no constant."""
        (body,) = loop.regions
        entry, result = loop.inputs[LoopAttrs.of(loop).bounds + number], body.results[number]
        if not isinstance(entry, Value) or not isinstance(result, Value) or not self._may_fold(entry):
            return False
        chain = list(self._behind(result))
        if any(self.counts[v] > 1 for v in chain):
            return False  # the pass wants the loop's yield as the only reader
        update = self.makers.get(chain[-1])
        if update is None or not any(self._is_reduction(v) for v in _read_by(update)):
            return False
        return not self._is_accumulation(update, body, body.params[number])

    def _may_fold(self, value: Value) -> bool:
        op = self.makers.get(value)
        return op is not None and op.kind in _FOLDED and all(self._may_fold(v) for v in op.values)

    def _behind(self, value: Value) -> Iterator[Value]:
        """The value, and what it is made of by operations that Triton may never see."""
        yield value
        op = self.makers.get(value)
        while op is not None and op.kind in _TRANSPARENT and isinstance(op.inputs[0], Value):
            value = op.inputs[0]
            yield value
            op = self.makers.get(value)

    def _made_by(self, value: Value) -> Op | None:
        """What makes a value, but for operations that Triton may never see."""
        *_, source = self._behind(value)
        return self.makers.get(source)

    def _is_reduction(self, value: Value) -> bool:
        """Whether it is a reduction, by a function that the pass knows, of a loaded tile along its last dimension."""
        op = self._made_by(value)
        if op is None or _combiner(op) is None:
            return False
        operand = op.values[0]
        source = self._made_by(operand)
        is_inner = AxisAttrs.of(op).axis == len(operand.dims) - 1 > 0
        return is_inner and is_float(operand.type.dtype) and source is not None and source.kind is OpKind.LOAD

    def _is_accumulation(self, update: Op, body: Block, param: Value) -> bool:
        """Whether an update is of the accumulator by the reduction's own function, in the loop, and its only reader."""
        if update.kind is not OpKind.POINTWISE or len(update.values) != 2:
            return False
        reduced = [v for v in update.values if v is not param]
        makers = [self._made_by(v) for v in reduced]
        return (
            len(makers) == 1
            and makers[0] is not None
            and _combiner(makers[0]) == PointwiseAttrs.of(update).fn
            and any(op is makers[0] for op in body.ops)
            and self.counts.get(param, 0) == 1
        )


accumulators = once(Accumulators.of)  # of a region


def _combiner(op: Op) -> str | None:
    """The operation on two tiles that a reduction repeats; None for one that the pass does not know."""
    if op.kind is OpKind.REDUCE:
        return _PAIRED.get(ReduceAttrs.of(op).fn)
    if op.kind is not OpKind.COMBINE or len(op.regions[0].ops) != 1:
        return None
    (inner,) = op.regions[0].ops
    fn = PointwiseAttrs.of(inner).fn if inner.kind is OpKind.POINTWISE else None
    return fn if fn in _COMBINERS else None


def _read_by(op: Op) -> Iterable[Value]:
    """What an operation and those inside it read: Triton makes a branch without effects a choice by element."""
    yield from op.values
    for region in op.regions:
        for inner in walk(region):
            yield from inner.values
        yield from (v for v in region.results if isinstance(v, Value))
