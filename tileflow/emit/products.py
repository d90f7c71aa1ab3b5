"""The Triton text of products.

Triton multiplies tiles of two dimensions, or three. Batches fold into them: a single one falls away, so that the
product is the one of a plain matrix; where only the left operand has any, they are more rows of it.
"""

from __future__ import annotations

from math import prod

from ..ir.attributes import DotAttrs, DotScaledAttrs, site_of
from ..ir.graph import Op
from ..ir.kinds import OpKind
from ..ir.types import Dim, Value, itemsize
from ..space.knobs import PRECISION
from .context import Context
from .dtypes import compute_dtype, triton_dtype
from .kept_operands import kept
from .module import INTERPRETED
from .table import TRITON

_JOINED = {OpKind.JOIN, OpKind.RANDOM}
_REGISTER = {"float32": "f", "int32": "r"}  # PTX's letters for the registers of sums


@TRITON.emits(OpKind.DOT)
def dot(e: Context, op: Op) -> None:
    """Write ``tl.dot``, with operands padded and reshaped where Triton has no product of their shapes."""
    a, b, *acc = op.inputs
    assert isinstance(a, Value) and isinstance(b, Value)
    held, out = DotAttrs.of(op).acc, op.output
    left, right, shape = _operands(e, a, b, out)
    left, right = _padded(e, a, b, left, right, shape)
    operands = f"{kept(e, out, a, left)}, {right}"
    if acc:
        total = e.as_dtype(acc[0], held)
        operands += f", acc={total if shape is None else f'tl.reshape({total}, {_text(shape.result)})'}"
    if a.type.dtype == "float32":
        operands += f", input_precision='{_precision(e, op)}'"
    if held != "float32":
        operands += f", out_dtype={triton_dtype(held)}"
    text = f"tl.dot({operands})"
    e.define(out, text if shape is None else f"tl.reshape({text}, {e.shape(out.dims)})", held)


@TRITON.emits(OpKind.AWAIT_DOT)
def await_dot(e: Context, op: Op) -> None:
    """The sum as it is, by way of an assembly text without instructions: a use that Triton has the product wait for."""
    held = compute_dtype(op.output.type.dtype)
    name = e.as_dtype(op.inputs[0], held)
    if e.target.has_wgmma and held in _REGISTER:
        interpreted, letter = e.module.constant(*INTERPRETED), _REGISTER[held]
        asm = f'tl.inline_asm_elementwise("", "={letter},0", [x], dtype=x.dtype, is_pure=True, pack=1)'
        text = f"(x):\n    if {interpreted}:\n        return x\n    else:\n        return {asm}\n"
        name = f"{e.module.helper('settled', text)}({name})"
    e.define(op.output, name, held)


@TRITON.emits(OpKind.DOT_SCALED)
def dot_scaled(e: Context, op: Op) -> None:
    """Write ``tl.dot_scaled``, summed in float32."""
    a, b, *rest = (e.as_dtype(v, v.type.dtype) for v in op.values)
    left, right = (rest.pop(0) if scaled else "None" for scaled in DotScaledAttrs.of(op).scaled)
    formats = [f"'{name}'" for name in DotScaledAttrs.of(op).formats]
    acc = f", acc={rest[0]}" if rest else ""
    e.define(op.output, f"tl.dot_scaled({a}, {left}, {formats[0]}, {b}, {right}, {formats[1]}{acc})", "float32")


class _Shape:
    """The operands' shapes after folding: of rank 2, or 3 with ``batch`` in front."""

    def __init__(self, batch: int | None, m: str, k: str, n: str) -> None:
        first = [] if batch is None else [str(batch)]
        self.left, self.right, self.result = [*first, m, k], [*first, k, n], [*first, m, n]


def _text(shape: list[str]) -> str:
    return "[" + ", ".join(shape) + "]"


def _operands(e: Context, a: Value, b: Value, out: Value) -> tuple[str, str, _Shape | None]:
    """The operands' names, and their shape where it is another than theirs."""
    left, right = e.as_dtype(a, a.type.dtype), e.as_dtype(b, b.type.dtype)
    if len(a.dims) == len(b.dims) == 2:
        return left, right, None
    m, k, n = (e.plan.extent_text(d.extent) for d in (*a.dims[-2:], b.dims[-1]))
    batch, own, other = (_batch(e, v.dims) for v in (out, a, b))
    if other == 1 and own == batch:
        rows = m if batch == 1 else str(batch * e.plan.extent(a.dims[-2].extent))
        shape = _Shape(None, rows, k, n)
    else:
        shape = _Shape(batch, m, k, n)
        left, right = _broadcast(e, a, left, out), _broadcast(e, b, right, out)
    if len(out.dims) == 3 and own == other == batch > 1:
        return left, right, None
    left = _name(e, f"tl.reshape({left}, {_text(shape.left)})")
    return left, _name(e, f"tl.reshape({right}, {_text(shape.right)})"), shape


def _batch(e: Context, dims: tuple[Dim, ...]) -> int:
    return prod(e.plan.extent(d.extent) for d in dims[:-2])


def _broadcast(e: Context, value: Value, name: str, out: Value) -> str:
    """An operand with the batches of the result."""
    if _batch(e, value.dims) == _batch(e, out.dims):
        return name
    missing = len(out.dims) - len(value.dims)
    lead = f"{name}[{'None, ' * missing}{', '.join([':'] * len(value.dims))}]" if missing else name
    return _name(e, f"tl.broadcast_to({lead}, {e.shape((*out.dims[:-2], *value.dims[-2:]))})")


def _padded(e: Context, a: Value, b: Value, left: str, right: str, shape: _Shape | None) -> tuple[str, str]:
    """An inner dimension that the matrix units find too short, with zeros between its elements."""
    size = e.plan.extent(a.dims[-1].extent)
    least = _least_inner(e, a, size)
    if size >= least:
        return left, right
    sides = [shape.left, shape.right] if shape else [[e.plan.extent_text(d.extent) for d in v.dims] for v in (a, b)]
    (*rows, _), (*batch, _, n) = sides
    order = ", ".join(map(str, (*range(len(batch) + 1), len(batch) + 2, len(batch) + 1)))
    while size < least:
        size *= 2
        left = _name(e, f"tl.reshape(tl.join({left}, tl.zeros_like({left})), {_text([*rows, str(size)])})")
        pairs = f"tl.permute(tl.join({right}, tl.zeros_like({right})), ({order}))"
        right = _name(e, f"tl.reshape({pairs}, {_text([*batch, str(size), n])})")
    return left, right


def _least_inner(e: Context, a: Value, size: int) -> int:
    """The fewest elements that one instruction multiplies, or that Triton's layout of registers takes.

    On NVIDIA Triton up to 3.7 has a lane hold, side by side, as many elements as it loads at once, told by the shortest
    element that an operand comes from and halved where tiles are joined on the way: eight, for bytes or bools that are
    joined, of which four lanes take 32. Of 16 it multiplies what other lanes hold, without a word."""
    if itemsize(a.type.dtype) == 1:
        return 32
    kinds = {op.kind for op in e.plan.ir.walk()}
    is_joined = size < 16 or not kinds.isdisjoint(_JOINED)  # what is too short is joined to zeros
    loads = (op.output.type.dtype for op in e.plan.ir.walk() if op.kind is OpKind.LOAD)
    return 32 if e.target.vendor == "nvidia" and is_joined and any(itemsize(dtype) == 1 for dtype in loads) else 16


def _name(e: Context, text: str) -> str:
    name = e.fresh("v")
    e.writer.line(f"{name} = {text}")
    return name


def _precision(e: Context, op: Op) -> str:
    """AMD's matrix units round to tf32 on one architecture only; others take operands in parts."""
    if DotAttrs.of(op).precision == "ieee":
        return e.plan.choice(PRECISION, site_of(op))
    return DotAttrs.of(op).precision if e.target.has_tf32_products else "ieee"
