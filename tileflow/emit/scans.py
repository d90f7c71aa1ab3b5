"""The Triton text of scans, and of reductions by a function: the function becomes a ``@triton.jit`` helper.

Lanes past a tile's end come last as a rule, so that a scan from the front never meets them. One from the back and a
reduction would: there each lane carries a flag that says whether it counts, and the helper passes on the operand that
does.
"""

from __future__ import annotations

from ..ir.attributes import AxisAttrs, CombineAttrs, CombineScanAttrs, ScanAttrs
from ..ir.graph import Block, Op
from ..ir.kinds import OpKind
from ..ir.types import Dim, Value
from ..passes.masks import jagged_axes
from .context import Context
from .dtypes import compute_dtype, narrowed
from .table import TRITON

_SCANS = {"sum": "tl.cumsum", "prod": "tl.cumprod"}


@TRITON.emits(OpKind.SCAN)
def scan(e: Context, op: Op) -> None:
    """Write ``tl.cumsum`` or ``tl.cumprod`` along the axis."""
    value = op.inputs[0]
    assert isinstance(value, Value)
    held = compute_dtype(value.type.dtype)
    attrs = ScanAttrs.of(op)
    reverse = ", reverse=True" if attrs.reverse else ""
    text = f"{_SCANS[attrs.fn]}({e.as_dtype(value, held)}, axis={attrs.axis}{reverse})"
    e.define(op.output, narrowed(text, attrs.fn, held), held)


@TRITON.emits(OpKind.COMBINE_SCAN)
def combine_scan(e: Context, op: Op) -> None:
    """Write ``tl.associative_scan`` by the author's function, with a flag for each lane that counts where masked lanes
    may come first."""
    axis, dims = AxisAttrs.of(op).axis, op.values[0].dims
    reverse = CombineScanAttrs.of(op).reverse
    flags = _flags(e, dims, axis) if reverse or not _ends_masked(e, dims, axis) else ""
    _combine(e, op, "tl.associative_scan", flags, ", reverse=True" if reverse else "")


@TRITON.emits(OpKind.COMBINE)
def combine(e: Context, op: Op) -> None:
    """Write ``tl.reduce`` by the author's function; without neutral values, with a flag for each lane that counts."""
    flags = _flags(e, op.values[0].dims, AxisAttrs.of(op).axis) if CombineAttrs.of(op).other is None else ""
    _combine(e, op, "tl.reduce", flags)


def _flags(e: Context, dims: tuple[Dim, ...], axis: int) -> str:
    """Which lanes count along an axis, as ints; empty where all do."""
    axes = [a for a in (axis, *jagged_axes(e.plan.ir, dims, axis)) if e.plan.is_masked(dims[a])]
    mask = " & ".join(e.lane_mask(dims, a) for a in axes)
    return f"tl.broadcast_to(({mask}).to(tl.int32), {e.shape(dims)})" if mask else ""


def _ends_masked(e: Context, dims: tuple[Dim, ...], axis: int) -> bool:
    """Whether the lanes that do not count are the last ones along the axis: not where a reshape merged them with
    others, nor where other lanes count in each row of a jagged tile."""
    dim = dims[axis]
    merged = dim.tile is not None and dim.extent != dim.step * e.plan.ir.tiles[dim.tile].block
    return not merged and not jagged_axes(e.plan.ir, dims, axis)


def _combine(e: Context, op: Op, function: str, flags: str, suffix: str = "") -> None:
    """One call for all of the op's values, then each result in the dtype that its value is held in."""
    operands = [e.as_dtype(v, _carried(v.type.dtype)) for v in op.values]
    helper = _helper(e, op.regions[0])
    if flags:
        operands.append(flags)
        helper = _flagged(e, helper, len(op.values))
    names = [e.fresh("s") for _ in operands]
    values = operands[0] if len(operands) == 1 else f"({', '.join(operands)})"
    e.writer.line(f"{', '.join(names)} = {function}({values}, {AxisAttrs.of(op).axis}, {helper}{suffix})")
    for out, name in zip(op.outputs, names[: len(op.outputs)], strict=True):
        held = compute_dtype(out.type.dtype)
        e.define(out, name if held == _carried(held) else f"{name} != 0", held)


def _carried(dtype: str) -> str:
    """The dtype in which lanes are exchanged: bools as ints."""
    return "int32" if dtype == "bool" else compute_dtype(dtype)


def _helper(e: Context, block: Block) -> str:
    """The block as a function of scalars; its name."""
    count = len(block.results)
    names = [f"a{n}" for n in range(count)] + [f"b{n}" for n in range(count)]
    for param, name in zip(block.params, names, strict=True):
        e.bind(param, name, _carried(param.type.dtype))
    with e.beside() as writer, writer.indented():
        e.block(block)
        results = [e.as_dtype(r, _carried(p.type.dtype)) for r, p in zip(block.results, block.params, strict=False)]
        writer.line(f"return {', '.join(results)}")
    return e.module.helper("_combine", f"({', '.join(names)}):\n{writer.text}")


def _flagged(e: Context, helper: str, count: int) -> str:
    """``helper`` where both operands count, else the one that does; each operand's last item says whether it does."""
    a, b = ([f"{side}{n}" for n in range(count)] for side in "ab")
    c = [f"c{n}" for n in range(count)]
    chosen = [
        f"tl.where((a_in & b_in) != 0, {z}, tl.where(a_in != 0, {x}, {y}))" for x, y, z in zip(a, b, c, strict=True)
    ]
    lines = [
        f"({', '.join([*a, 'a_in', *b, 'b_in'])}):",
        f"    {', '.join(c)} = {helper}({', '.join([*a, *b])})",
        f"    return {', '.join([*chosen, 'a_in | b_in'])}",
    ]
    return e.module.helper("_masked", "\n".join(lines) + "\n")
