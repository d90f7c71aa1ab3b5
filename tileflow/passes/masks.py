"""Masks: which value stands in the lanes past a tile's end, and where another one is needed.

Reductions and products ask for their neutral value. A ``where_mask`` puts it there; most are not needed, because the
load can fill the lanes with it, or because it follows from what the operands hold there (0 - 0 is 0).
"""

from __future__ import annotations

import torch

from ..expr import Expr
from ..frontend.promotion import torch_dtype
from ..ir.graph import KernelIR, Op, Operand, TileIndex, may_lie_outside
from ..ir.ops import POINTWISE, neutral
from ..ir.types import Dim, Value, fills_registers, is_float
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
    return factor.op == "sym" and ":" in factor.args[0] and not factor.args[0].startswith("tunable:")


def _insert(ir: KernelIR) -> KernelIR:
    fresh = Fresh(ir)

    def masked(value: Operand, axis: int, fill: float | int, ops: list[Op]) -> Operand:
        if not isinstance(value, Value):
            return value
        axes = tuple(a for a in (axis, *jagged_axes(ir, value.dims, axis)) if may_be_masked(value.dims[a]))
        if not axes:
            return value
        out = fresh.value(value.type, value)
        ops.append(Op("where_mask", (value, fill), (out,), {"axes": axes}, (), value.loc))
        return out

    def rewrite(op: Op) -> list[Op]:
        ops: list[Op] = []
        if op.kind in ("reduce", "scan"):
            (value,) = op.inputs
            assert isinstance(value, Value)
            fill = neutral(op.attrs["fn"], value.type.dtype)
            op = op.with_(inputs=(masked(value, op.attrs["axis"], fill, ops),))
        elif op.kind == "sort":  # lanes that do not count come last
            (value,) = op.inputs
            assert isinstance(value, Value)
            largest = torch.iinfo(torch_dtype(value.type.dtype)).max
            op = op.with_(inputs=(masked(value, op.attrs["axis"], largest, ops),))
        elif op.kind == "combine" and op.attrs["other"] is not None:
            fills = zip(op.inputs, op.attrs["other"], strict=True)
            op = op.with_(inputs=tuple(masked(v, op.attrs["axis"], fill, ops) for v, fill in fills))
        elif op.kind in ("dot", "dot_scaled"):
            a, b, *rest = op.inputs
            assert isinstance(a, Value) and isinstance(b, Value)
            zero = 0.0 if is_float(a.type.dtype) else 0
            a, b = masked(a, len(a.dims) - 1, zero, ops), masked(b, len(b.dims) - 2, zero, ops)
            op = op.with_(inputs=(a, b, *rest))
        return [*ops, op]

    return with_body(ir, map_ops(ir.body, rewrite))


def _choose_fill(ir: KernelIR) -> KernelIR:
    """A load fills masked lanes with what its first ``where_mask`` asks for."""
    loads = {op.output: op for op in ir.walk() if op.kind == "load"}
    casts = {op.output: op.inputs[0] for op in ir.walk() if op.kind == "cast"}
    wanted: dict[Value, float | int] = {}
    for op in ir.walk():
        if op.kind != "where_mask" or isinstance(op.inputs[1], Value):
            continue
        source = op.inputs[0]
        while isinstance(source, Value) and source in casts:
            source = casts[source]
        if isinstance(source, Value) and source in loads:
            wanted.setdefault(source, op.inputs[1])

    def rewrite(op: Op) -> list[Op]:
        if op.kind == "load" and op.output in wanted and not _reads_zero(op):
            op = op.with_(attrs=op.attrs | {"other": wanted[op.output]})
        return [op]

    return with_body(ir, map_ops(ir.body, rewrite))


def _reads_zero(load: Op) -> bool:
    """Whether lanes that count are left out by a load, and are 0 by the language's rule. A tile's lanes outside the
    tensor do not count for a reduction either."""
    return load.attrs["has_mask"] or any(
        may_lie_outside(item) for item in load.attrs["index"] if not isinstance(item, TileIndex)
    )


def _drop(ir: KernelIR) -> KernelIR:
    """A ``where_mask`` whose lanes hold the wanted value already is the value itself."""
    known = MaskedValues(ir)
    renamed: dict[Value, Operand] = {}

    def rewrite(op: Op) -> list[Op]:
        if op.kind == "where_mask" and not isinstance(op.inputs[1], Value):
            value, wanted = op.inputs
            assert isinstance(value, Value)
            found = [known.at(value, axis) for axis in op.attrs["axes"]]
            if all(f is not None and f == wanted for f in found):
                renamed[op.output] = value
                return []
        return [op]

    return with_body(ir, map_ops(ir.body, rewrite, renamed))


class MaskedValues:
    """What every value holds in the masked lanes of an axis: one number, or None where that is not known."""

    def __init__(self, ir: KernelIR) -> None:
        self._tiles = ir.tiles
        self._definitions = {v: op for op in ir.walk() for v in op.outputs}
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
        if op is None:
            return None  # carried by a loop
        match op.kind:
            case "load":
                return float(op.attrs["other"])
            case "full":
                return self.at(op.inputs[0], 0) if not isinstance(op.inputs[0], Value) else None
            case "cast":
                found = self.at(op.inputs[0], axis)
                return found if found in (None, 0.0, 1.0) or is_float(value.type.dtype) else None
            case "unsqueeze":
                inserted = op.attrs["axis"]
                return None if axis == inserted else self.at(op.inputs[0], axis - (axis > inserted))
            case "squeeze":
                return self.at(op.inputs[0], axis + (axis >= op.attrs["axis"]))
            case "permute":
                return self.at(op.inputs[0], op.attrs["order"][axis])
            case "expand":
                return self._operand(op.inputs[0], value, axis)
            case "reshape":
                source = op.inputs[0]
                assert isinstance(source, Value)
                found = _reshaped(source, value.dims[axis])
                return None if found is None else self.at(source, found)
            case "join" if axis < len(value.dims) - 1:
                first, second = (self.at(v, axis) for v in op.inputs)
                return first if first == second else None
            case "split":
                return self.at(op.inputs[0], axis)
            case "nibbles":  # of a byte of zeros
                return 0.0 if self.at(op.inputs[0], axis) == 0.0 else None
            case "where_mask":
                return self.at(op.inputs[1], axis) if axis in op.attrs["axes"] else None
            case "pointwise":
                return self._pointwise(op, value, axis)
        return None

    def _operand(self, operand: Operand, result: Value, axis: int) -> float | None:
        """An operand of an elementwise op; one that is broadcast along the axis says nothing of its lanes."""
        if not isinstance(operand, Value):
            return float(operand)
        if not operand.dims or operand.dims[axis] != result.dims[axis] or self._gains_lengths(operand, result, axis):
            op = self._definitions.get(operand)
            is_constant = op is not None and op.kind == "full" and not isinstance(op.inputs[0], Value)
            return float(op.inputs[0]) if is_constant else None  # type: ignore[union-attr,arg-type]
        return self.at(operand, axis)

    def _gains_lengths(self, operand: Value, result: Value, axis: int) -> bool:
        """Whether only the result has the dimension of a jagged loop's lengths: more of its lanes are masked."""
        name = result.dims[axis].tile
        lengths = None if name is None else self._tiles[name].lengths
        return lengths is not None and lengths.dims[0] in result.dims and lengths.dims[0] not in operand.dims

    def _pointwise(self, op: Op, value: Value, axis: int) -> float | None:
        found = [self._operand(v, value, axis) for v in op.inputs]
        if any(f is None for f in found):
            return None
        dtype = torch_dtype(op.attrs["operand"])
        wide = torch.float64 if dtype.is_floating_point else dtype
        operands = [torch.tensor(f, dtype=wide) for f in found]
        if op.attrs["fn"] == "where":
            operands[0] = operands[0].bool()
        return float(POINTWISE[op.attrs["fn"]].evaluate(*operands))


def _reshaped(source: Value, dim: Dim) -> int | None:
    """The axis of ``source`` whose masked lanes are those of ``dim`` after a reshape; None where there is no one."""
    same = [n for n, d in enumerate(source.dims) if d == dim or (dim.tile is not None and d.tile == dim.tile)]
    return same[0] if len(same) == 1 else None
