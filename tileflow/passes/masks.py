"""Masks: which value stands in the lanes past a tile's end, and where another one is needed.

Reductions and products ask for their neutral value. A ``where_mask`` puts it there; most are not needed, because the
load can fill the lanes with it, or because it follows from what the operands hold there (0 - 0 is 0).
"""

from __future__ import annotations

from dataclasses import replace

from ..expr import Expr, is_knob
from ..ir.attributes import AccessAttrs, LoadAttrs, WhereMaskAttrs
from ..ir.graph import KernelIR, Op, Operand, TileIndex, may_lie_outside
from ..ir.kinds import OpKind
from ..ir.op_table import OPS
from ..ir.ops import holds
from ..ir.positions import Positions
from ..ir.types import Dim, Value, fills_registers
from .rewrite import Fresh, map_ops, with_body


def place_masks(ir: KernelIR) -> KernelIR:
    """Insert what reductions and products need, choose the loads' fill, drop what is not needed."""
    return _drop(_choose_fill(_insert(ir)))


def may_be_masked(dim: Dim) -> bool:
    """Whether a dimension can have lanes that do not count: past a tile's end, or past a size up to a power of two."""
    if dim.tile is not None:
        return True
    factors = dim.extent.args if dim.extent.op == "prod" else (dim.extent,)
    return not all(_is_power_of_two(f) for f in factors)


def jagged_axes(ir: KernelIR, dims: tuple[Dim, ...], axis: int) -> tuple[int, ...]:
    """The dimensions of jagged loops in which each lane of ``axis`` has lanes of its own."""
    found = []
    for other, dim in enumerate(dims):
        lengths = None if dim.tile is None else ir.tiles[dim.tile].lengths
        if other != axis and lengths is not None and lengths.dims[0] == dims[axis]:
            found.append(other)
    return tuple(found)


def _is_power_of_two(factor: Expr) -> bool:
    if factor.constant is not None:
        return fills_registers(factor.constant)
    return factor.op == "sym" and is_knob(factor.args[0]) and not factor.args[0].startswith("tunable:")


def _insert(ir: KernelIR) -> KernelIR:
    fresh = Fresh(ir)

    def masked(reader: Op, value: Operand, axis: int, fill: float | int, ops: list[Op]) -> Operand:
        if not isinstance(value, Value):
            return value
        axes = tuple(a for a in (axis, *jagged_axes(ir, value.dims, axis)) if may_be_masked(value.dims[a]))
        if not axes:
            return value
        out = fresh.value(value.type, value)
        ops.append(Op(OpKind.WHERE_MASK, (value, fill), (out,), WhereMaskAttrs(axes), (), reader.loc))
        return out

    def rewrite(op: Op) -> list[Op]:
        fills = OPS[op.kind].fills(op)
        if not fills:
            return [op]
        ops, inputs = list[Op](), list(op.inputs)
        for fill in fills:
            inputs[fill.input] = masked(op, inputs[fill.input], fill.axis, fill.number, ops)
        return [*ops, op.with_(inputs=tuple(inputs))]

    return with_body(ir, map_ops(ir.body, rewrite))


def _choose_fill(ir: KernelIR) -> KernelIR:
    """A load fills masked lanes with what its first ``where_mask`` asks for, where all dtypes on the way have that: no
    bool or int is minus infinity."""
    loads = {op.output: op for op in ir.walk() if op.kind is OpKind.LOAD}
    casts = {op.output: op.inputs[0] for op in ir.walk() if op.kind is OpKind.CAST}
    wanted: dict[Value, float | int] = {}
    for op in ir.walk():
        if op.kind is not OpKind.WHERE_MASK:
            continue
        source, number = op.inputs
        if isinstance(number, Value):
            continue
        while isinstance(source, Value) and source in casts and holds(source.type.dtype, number):
            source = casts[source]
        if isinstance(source, Value) and source in loads and holds(source.type.dtype, number):
            wanted.setdefault(source, number)

    def rewrite(op: Op) -> list[Op]:
        if op.kind is OpKind.LOAD and op.output in wanted and not _reads_zero(op):
            op = op.with_(attrs=replace(LoadAttrs.of(op), other=wanted[op.output]))
        return [op]

    return with_body(ir, map_ops(ir.body, rewrite))


def _reads_zero(load: Op) -> bool:
    """Whether lanes that count are left out by a load, and are 0 by the language's rule. A tile's lanes outside the
    tensor do not count for a reduction either."""
    return AccessAttrs.of(load).has_mask or any(
        may_lie_outside(item) for item in AccessAttrs.of(load).index if not isinstance(item, TileIndex)
    )


def _drop(ir: KernelIR) -> KernelIR:
    """A ``where_mask`` whose lanes hold the wanted value already is the value itself."""
    known = MaskedValues(ir)
    renamed: dict[Value, Operand] = {}

    def rewrite(op: Op) -> list[Op]:
        if op.kind is OpKind.WHERE_MASK and not isinstance(op.inputs[1], Value):
            value, wanted = op.inputs
            assert isinstance(value, Value)
            found = [known.at(value, axis) for axis in WhereMaskAttrs.of(op).axes]
            if all(f is not None and f == wanted for f in found):
                renamed[op.output] = value
                return []
        return [op]

    return with_body(ir, map_ops(ir.body, rewrite, renamed))


class MaskedValues:
    """What every value holds in the masked lanes of an axis: one number, or None where that is not known."""

    def __init__(self, ir: KernelIR) -> None:
        self._tiles = ir.tiles
        self._definitions = ir.definitions
        self.positions = Positions.of(ir)
        self._found: dict[tuple[Value, int], float | None] = {}

    def at(self, value: Operand, axis: int) -> float | None:
        """The number in the masked lanes of ``axis``; a constant is what it is."""
        if not isinstance(value, Value):
            return float(value)
        key = value, axis
        if key not in self._found:
            self._found[key] = self._compute(value, axis)
        return self._found[key]

    def _compute(self, value: Value, axis: int) -> float | None:
        op = self._definitions.get(value)
        return None if op is None else OPS[op.kind].masked(self, op, value, axis)  # None: carried by a loop

    def broadcast(self, operand: Operand, result: Value, axis: int) -> float | None:
        """The number in the masked lanes of an elementwise op's operand. An operand that is broadcast along the axis
        says nothing of its lanes, unless it is a constant."""
        if not isinstance(operand, Value):
            return float(operand)
        if not operand.dims or operand.dims[axis] != result.dims[axis] or self._gains_lengths(operand, result, axis):
            op = self._definitions.get(operand)
            is_constant = op is not None and op.kind is OpKind.FULL and not isinstance(op.inputs[0], Value)
            return float(op.inputs[0]) if is_constant else None  # type: ignore[union-attr,arg-type]
        return self.at(operand, axis)

    def _gains_lengths(self, operand: Value, result: Value, axis: int) -> bool:
        """Whether only the result has the dimension of a jagged loop's lengths: more of its lanes are masked."""
        name = result.dims[axis].tile
        lengths = None if name is None else self._tiles[name].lengths
        return lengths is not None and lengths.dims[0] in result.dims and lengths.dims[0] not in operand.dims
