"""Exponents of scores: a scale, a difference and a change of base in one multiply-add.

``torch.exp(scores * scale - peak[:, None])``, of a product's scores in a loop, takes three operations an element before
its exponential, which has the base 2 in hardware: the scale, which the maximum reads as well, the difference, and
``log2(e)``. The maximum of what is scaled by a positive number is the scaled maximum, so the scale may wait; then

    exp2(scores * (scale * log2(e)) - (peak * log2(e))[:, None])

is one multiply-add an element, as an author who counts instructions writes it (Dao, 2023, arXiv:2307.08691, 3.1). Heads
of 64 columns spend more time on exponents than on products.

The difference of two large numbers is rounded otherwise: by as much as the scores themselves are, which follow from
operands of at most 16 bits, as in torch's own flash attention. What is not computed from such a product alone stays,
and what is scaled by more than 1e4, or by a number of the call: a mask with a large number in place of minus infinity,
added or selected, or a temperature next to 0, would leave a difference of nothing as that of its roundings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..ir.attributes import PointwiseAttrs, ReduceAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, walk
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.signs import is_positive
from ..ir.types import FLOAT_BITS, TileType, Value, width
from .rewrite import Fresh, map_ops, with_body

_LOG2_E = 1 / math.log(2)
_LARGEST = 1e4  # constant that scores are scaled by, or moved
LEAST = -3.4028234663852886e38  # of float32
_FUNCTIONS_OF_SCORES = frozenset({"add", "sub", "mul", "neg", "tanh", "sigmoid"})  # of scores, and of moderate numbers


# ---- scales --------------------------------------------------------------------------------------


def sink_scales(ir: KernelIR) -> KernelIR:
    """Scale the maxima of scores, and what is subtracted from, in place of the scores."""
    scores = _Scores(ir)
    sunk: dict[Value, _Sunk] = {}
    for block in _blocks(ir.body):
        for op in block.ops:
            if scores.are_scaled(op) and (found := _sunk(op, block)) is not None:
                sunk.update(dict.fromkeys(found.changed, found))
    if not sunk:
        return ir
    fresh = Fresh(ir)
    renamed: dict[Value, Operand] = {one.scale.output: one.scale.inputs[0] for one in sunk.values()}

    def rewrite(op: Op) -> list[Op]:
        one = sunk.get(op.output) if len(op.outputs) == 1 else None
        if one is None:
            return [op]
        if op.output == one.scale.output:
            return []
        made = fresh.value(op.values[0].type if op.kind is not OpKind.REDUCE else op.output.type, op.output)
        if op.kind is OpKind.REDUCE:
            return [op.with_(outputs=(made,)), one.scale.with_(inputs=(made, one.number), outputs=op.outputs)]
        scaled = one.scale.with_(inputs=(op.inputs[0], one.number), outputs=(made,))
        return [scaled, op.with_(inputs=(made, op.inputs[1]))]

    return with_body(ir, map_ops(ir.body, rewrite, renamed))


@dataclass(frozen=True, slots=True)
class _Sunk:
    """A scale by ``number`` that may wait. ``changed``: its own output, those of the maxima of what it scales, and the
    differences."""

    scale: Op
    changed: frozenset[Value]

    @property
    def number(self) -> Operand:
        """What the scale multiplies with."""
        return self.scale.inputs[1]


def _sunk(scale: Op, block: Block) -> _Sunk | None:
    """How a scale of a block waits; None where something else reads what it scales, or no maximum does."""
    scaled, changed = {scale.output}, {scale.output}
    maxima = 0
    for op in block.ops:
        if scaled.isdisjoint(_read(op)):
            continue
        if op.kind is OpKind.IF and _passes_through(op, scaled):
            scaled.update(op.outputs)
        elif _filled(op) in scaled and op.inputs[0] not in scaled:
            scaled.add(op.output)
        elif op.kind is OpKind.REDUCE and ReduceAttrs.of(op).fn == "max":
            maxima += 1
            changed.add(op.output)
        elif _is_difference(op) and op.inputs[0] in scaled:
            changed.add(op.output)
        else:
            return None
    is_carried = any(result in scaled for result in block.results)
    if not maxima or len(changed) < 2 + maxima or is_carried:
        return None
    return _Sunk(scale, frozenset(changed))


def _passes_through(branch: Op, scaled: set[Value]) -> bool:
    """Whether all that a branch gives is scaled; what its sides scale is added."""
    if not scaled.isdisjoint(branch.values):
        return False
    for op in (op for side in branch.regions for op in walk(side)):
        if not scaled.isdisjoint(op.values):
            if _filled(op) not in scaled or op.inputs[0] in scaled:
                return False
            scaled.add(op.output)
    return all(result in scaled for side in branch.regions for result in side.results)


# ---- the base ------------------------------------------------------------------------------------


def fuse_exponents(ir: KernelIR) -> KernelIR:
    """Give exponentials of scores less a number of their row the base 2, and ``log2(e)`` to both sides."""
    scores = _Scores(ir)
    exponentials: set[Value] = set()
    differences: set[Value] = set()
    for op in ir.walk():
        exponent = op.inputs[0] if _is(op, "exp") else None
        if isinstance(exponent, Value) and ir.uses[exponent] == 1:
            difference = ir.definitions.get(exponent)
            if difference is not None and _is_difference(difference) and scores.are_in_turns(difference):
                exponentials.add(op.output)
                differences.add(difference.output)
    if not exponentials:
        return ir
    fresh = Fresh(ir)

    def times(operand: Operand, number: Operand, like: Op, type_: TileType, ops: list[Op]) -> Operand:
        if not isinstance(operand, Value) and not isinstance(number, Value):
            return operand * number
        out = fresh.value(type_, like.output)
        ops.append(Op(OpKind.POINTWISE, (operand, number), (out,), PointwiseAttrs("mul", "float32"), (), like.loc))
        return out

    def in_range(number: Value, product: Operand, like: Op, ops: list[Op]) -> Operand:
        """The product, but no infinity of a finite number: a row without any key may have the lowest there is."""
        kept, is_infinite, chosen = (
            fresh.value(replace(number.type, dtype=dtype), like.output) for dtype in ("float32", "bool", "float32")
        )
        for out, fn, inputs in (
            (kept, "maximum", (product, LEAST)),
            (is_infinite, "eq", (number, -math.inf)),
            (chosen, "where", (is_infinite, number, kept)),
        ):
            ops.append(Op(OpKind.POINTWISE, inputs, (out,), PointwiseAttrs(fn, "float32"), (), like.loc))
        return chosen

    def rewrite(op: Op) -> list[Op]:
        if _is(op, "exp") and op.output in exponentials:
            return [op.with_(attrs=replace(PointwiseAttrs.of(op), fn="exp2"))]
        if len(op.outputs) != 1 or op.output not in differences:
            return [op]
        left, right = op.inputs
        scale = ir.definitions.get(left) if isinstance(left, Value) else None
        number: Operand = _LOG2_E
        ops: list[Op] = []
        if scale is not None and ir.uses[scale.output] == 1 and _is_scale(scale):
            left = scale.inputs[0]
            number = times(scale.inputs[1], number, op, TileType("float32", weak=True), ops)
        assert isinstance(right, Value)
        right = in_range(right, times(right, _LOG2_E, op, right.type, ops), op, ops)
        left = times(left, number, op, op.output.type, ops)
        return [*ops, op.with_(inputs=(left, right))]

    return with_body(ir, map_ops(ir.body, rewrite))


# ---- what scores are -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scores:
    """Tiles that follow from a product of operands of at most 16 bits, and from numbers that a program has one of."""

    ir: KernelIR
    known: dict[Value, bool] = field(default_factory=dict)

    def are(self, operand: Operand) -> bool:
        """Whether a tile holds such scores."""
        if not isinstance(operand, Value):
            return False
        if operand not in self.known:
            op = self.ir.definitions.get(operand)
            self.known[operand] = op is not None and self._gives(op, operand)
        return self.known[operand]

    def _gives(self, op: Op, value: Value) -> bool:
        if op.kind in PRODUCTS:  # without sums that it adds to
            return len(op.values) == 2 and all(FLOAT_BITS.get(v.type.dtype, 32) <= 16 for v in op.values)
        if op.kind is OpKind.CAST:
            return self.are(op.inputs[0])
        if op.kind is OpKind.IF:
            place = op.outputs.index(value)
            return all(self.are(side.results[place]) for side in op.regions)
        if op.kind is not OpKind.POINTWISE:
            return False
        if (filled := _filled(op)) is not None:
            return self.are(filled)
        fn, tiles = PointwiseAttrs.of(op).fn, [v for v in op.values if v.dims]
        numbers = [v for v in op.inputs if v not in tiles]
        if fn not in _FUNCTIONS_OF_SCORES or len(tiles) != 1 or not all(map(self._is_moderate, numbers)):
            return False
        return self.are(tiles[0])

    def _is_moderate(self, number: Operand) -> bool:
        """Whether a number is no larger than scores are, whatever the call: a temperature may be next to 0."""
        if isinstance(number, Value):
            return is_positive(number, self.ir.definitions, _LARGEST)
        return abs(number) <= _LARGEST

    def are_in_turns(self, op: Op) -> bool:
        """Whether an operation takes scores of one turn of a loop. What has those of a whole row becomes such a loop
        later (:mod:`.online_rows`)."""
        in_turns = any(d.tile is not None and not self.ir.tiles[d.tile].is_grid for d in op.output.dims)
        return in_turns and self.are(op.inputs[0])

    def are_scaled(self, op: Op) -> bool:
        """Whether an operation scales scores of one turn by a number that is known to be positive."""
        number = op.inputs[1] if _is_scale(op) else 0
        return is_positive(number, self.ir.definitions) and self._is_moderate(number) and self.are_in_turns(op)


def _is(op: Op, fn: str) -> bool:
    return op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op) == PointwiseAttrs(fn, "float32")


def _is_scale(op: Op) -> bool:
    """Whether an operation multiplies a tile by a number of the program's, on its right."""
    if not _is(op, "mul"):
        return False
    tile, number = op.inputs
    return isinstance(tile, Value) and tile.type == op.output.type and not (isinstance(number, Value) and number.dims)


def _is_difference(op: Op) -> bool:
    """Whether an operation takes a number of each row from a tile."""
    if not _is(op, "sub"):
        return False
    tile, row = op.inputs
    if not isinstance(tile, Value) or not isinstance(row, Value):
        return False
    return tile.type == op.output.type and 0 < width(row) < width(tile)


def _filled(op: Op) -> Operand | None:
    """The tile of which an operation replaces some elements by minus infinity; None of other operations."""
    if not _is(op, "where"):
        return None
    _, first, second = op.inputs
    return first if second == -math.inf else second if first == -math.inf else None


def _read(op: Op) -> Iterator[Value]:
    """What an operation reads, and those within it."""
    yield from op.values
    for block in op.regions:
        yield from (v for v in block.results if isinstance(v, Value))
        for inner in walk(block):
            yield from inner.values


def _blocks(block: Block) -> Iterable[Block]:
    yield block
    for op in block.ops:
        for inner in op.regions:
            yield from _blocks(inner)
