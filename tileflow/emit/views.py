"""The Triton text of views: other dimensions of the same elements, tiles joined, taken apart, sorted."""

from __future__ import annotations

from ..ir.attributes import AxisAttrs, PermuteAttrs, ReshapeAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..ir.types import Value
from .context import Context
from .dtypes import compute_dtype, triton_dtype
from .module import INTERPRETED
from .table import TRITON

SHUFFLED = 1 << 16  # pairs of elements and indices of a row; a thread shuffles for a 1024th of them


@TRITON.emits(OpKind.UNSQUEEZE)
def unsqueeze(e: Context, op: Op) -> None:
    """Write the value with a ``None`` at the inserted axis."""
    value = op.inputs[0]
    rank, axis = len(op.output.dims), AxisAttrs.of(op).axis
    e.define(op.output, e.lanes_except(e.name(value), axis, rank), e.held(value))


@TRITON.emits(OpKind.SQUEEZE, OpKind.RESHAPE)
def reshape(e: Context, op: Op) -> None:
    """Write ``tl.reshape`` and require of the config that the sizes come out even."""
    for need in op.attrs.needs or () if isinstance(op.attrs, ReshapeAttrs) else ():
        e.plan.require(need)
    (value,), dims, dtype = op.values, op.output.dims, e.held(op.inputs[0])
    if any(d.extent.constant == 0 for d in (*value.dims, *dims)):  # no elements, but a lane for each size of 0
        e.define(op.output, e.full(dims, "0", triton_dtype(dtype)), dtype)
    else:
        e.define(op.output, f"tl.reshape({e.name(value)}, {e.shape(dims)})", dtype)


@TRITON.emits(OpKind.PERMUTE)
def permute(e: Context, op: Op) -> None:
    """Write ``tl.permute``."""
    order = ", ".join(map(str, PermuteAttrs.of(op).order))
    e.define(op.output, f"tl.permute({e.name(op.inputs[0])}, ({order}))", e.held(op.inputs[0]))


@TRITON.emits(OpKind.EXPAND)
def expand(e: Context, op: Op) -> None:
    """Write ``tl.broadcast_to``."""
    e.define(op.output, f"tl.broadcast_to({e.name(op.inputs[0])}, {e.shape(op.output.dims)})", e.held(op.inputs[0]))


@TRITON.emits(OpKind.NARROW)
def narrow(e: Context, op: Op) -> None:
    """Bind the output to its input's name: the registers are the same."""
    e.bind(op.output, e.name(op.inputs[0]), e.held(op.inputs[0]))


@TRITON.emits(OpKind.JOIN)
def join(e: Context, op: Op) -> None:
    """Write ``tl.join``; both sides are held in one dtype."""
    a, b = op.inputs
    held = e.held(a) if e.held(a) == e.held(b) else compute_dtype(op.output.type.dtype)
    e.define(op.output, f"tl.join({e.as_dtype(a, held)}, {e.as_dtype(b, held)})", held)


@TRITON.emits(OpKind.SPLIT)
def split(e: Context, op: Op) -> None:
    """Write ``tl.split`` into two names."""
    value = op.inputs[0]
    names = [e.names.of(out, "v") for out in op.outputs]
    e.writer.line(f"{', '.join(names)} = tl.split({e.name(value)})")
    for out, name in zip(op.outputs, names, strict=True):
        e.bind(out, name, e.held(value))


@TRITON.emits(OpKind.SORT)
def sort(e: Context, op: Op) -> None:
    """Write ``tl.sort`` along the last axis; of a few of the least elements ``tl.topk``, which gives the greatest."""
    (value,), held = op.values, e.held(op.inputs[0])
    name, kept = e.name(value), op.output.dims[-1].extent
    if kept == value.dims[-1].extent:
        e.define(op.output, f"tl.sort({name}, {AxisAttrs.of(op).axis})", held)
    else:
        e.define(op.output, f"~tl.topk(~{name}, {kept.next_pow2().constant})", held)


@TRITON.emits(OpKind.GATHER)
def gather(e: Context, op: Op) -> None:
    """Write ``tl.gather``; bools travel as int8, the least that moves between threads."""
    value, index = op.inputs
    assert isinstance(value, Value) and isinstance(index, Value)
    axis, held, places = AxisAttrs.of(op).axis, e.held(value), _opaque(e, index)
    name = f"{e.name(value)}.to(tl.int8)" if held == "bool" else e.name(value)
    is_last = axis > 0 and axis == len(value.dims) - 1
    divided = any(e.plan.is_divided(d.extent) for d in (*value.dims, *index.dims))
    if is_last and not divided and e.extent(value.dims[-1]) * e.extent(index.dims[-1]) > SHUFFLED:
        found = _through_memory(e, name, places, value, index)
    else:
        found = f"tl.gather({_as_long_as(e, name, value, index, axis)}, {places}, {axis})"
    e.define(op.output, f"{found} != 0" if held == "bool" else found, held)


def _opaque(e: Context, index: Value) -> str:
    """The places of a gather, as if they were loaded. Where LLVM knows how they are computed, as of a tile that is
    rolled by the remainder of a size, ptxas makes wrong code of one warp's shuffles: a transducer's loss of 81 states
    was off by 170, and right without ptxas's optimisation (Triton 3.6, H100, 2026-11-26)."""
    places = e.as_dtype(index, "int32")
    maker = e.plan.ir.definitions.get(index)
    if e.target.vendor != "nvidia" or (maker is not None and maker.kind is OpKind.LOAD):
        return places
    interpreted = e.module.constant(*INTERPRETED)
    asm = 'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=x.dtype, is_pure=True, pack=1)'
    text = f"(x):\n    if {interpreted}:\n        return x\n    else:\n        return {asm}\n"
    return f"{e.module.helper('opaque', text)}({places})"


def _through_memory(e: Context, name: str, places: str, value: Value, index: Value) -> str:
    """The gather along the last axis as one of a vector, which goes by way of shared memory.

    Of more dimensions Triton (3.6, 3.7) gives a warp the whole axis, and writes a shuffle for each pair of a thread's
    elements and its indices: at 4096 of both that takes minutes to compile."""
    rank = len(value.dims)
    rest = [e.plan.extent_text(d.extent) for d in value.dims[:-1]]
    own, wanted = (e.plan.extent_text(v.dims[-1].extent) for v in (value, index))
    flat = f"({places} & ({own} - 1))"
    for axis, dim in enumerate(value.dims[:-1]):
        flat += f" + {e.lanes(e.arange(dim.extent), axis, rank)} * ({' * '.join([*rest[axis + 1 :], own])})"
    rows = " * ".join(rest)
    flat = f"tl.reshape({flat}, [{rows} * {wanted}])"
    return f"tl.reshape(tl.gather(tl.reshape({name}, [{rows} * {own}]), {flat}, 0), {e.shape(index.dims)})"


def _as_long_as(e: Context, name: str, value: Value, index: Value, axis: int) -> str:
    """``value``, repeated along the axis where it is shorter than the index. Triton (3.6 and 3.7) ends with an error at
    a gather of fewer elements than there are threads into more."""
    if e.extent(value.dims[axis]) >= e.extent(index.dims[axis]):
        return name
    own, long = ([e.plan.extent_text(d.extent) for d in v.dims] for v in (value, index))
    repeated = [*own[:axis], f"{long[axis]} // {own[axis]}", *own[axis:]]
    spread = f"tl.broadcast_to({e.lanes_except(name, axis, len(own) + 1)}, [{', '.join(repeated)}])"
    return f"tl.reshape({spread}, [{', '.join([*own[:axis], long[axis], *own[axis + 1 :]])}])"
