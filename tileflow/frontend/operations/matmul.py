"""Products: every spelling of a matrix product becomes one ``dot`` op, or a multiplication and a sum.

The matrix units take half types, fp8, int8, float32 and float64 in two or more dimensions. Products of a vector, and of
ints that the units lack, are written out.
"""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError, TraceError
from ...ir.attributes import DotAttrs
from ...ir.graph import Operand
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType, Value, is_float
from ...runtime import ambient
from ..dimensions import show
from ..language_registry import register_language
from ..promotion import dtype_name, promote
from ..side_by_side import summed_apart
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .pointwise import check_factor, is_number
from .reductions import reduce
from .reshape import value_of
from .views import transpose, unsqueeze


def accumulator(a: str, b: str) -> str:
    """The dtype that products of these operands accumulate in."""
    if a == b == "float64":
        return "float64"
    return "float32" if is_float(a) else "int64" if a == "int64" else "int32"


def float32_precision() -> str:
    """How the matrix units take float32 operands: rounded to ``tf32`` where torch's own setting allows it."""
    return "ieee" if ambient.float32_precision() == "highest" else "tf32"


def dot(t: Tracer, a: Any, b: Any, acc: Any = None, out_dtype: str | None = None) -> TileValue:
    """(..., m, k) @ (..., k, n) + acc. The result's dtype is acc's, ``out_dtype``, or the operands'."""
    left, right = _operands(t, a, b)
    dtype = out_dtype or left.type.dtype
    wide = accumulator(left.type.dtype, right.type.dtype)
    if acc is None:
        return _product(t, left, right, None, dtype, wide)
    total = t.wrap(_as_value(t, acc, dtype))
    own = total.value.type.dtype
    with t.plain_torch():
        fits = promote(((own, True), (wide, True))) == wide
    if fits:
        return _product(t, left, right, total, own, wide)
    return t.cast(t.pointwise("add", total, _product(t, left, right, None, wide, wide)), own)


def _product(t: Tracer, left: Value, right: Value, acc: TileValue | None, dtype: str, wide: str) -> TileValue:
    """The product in ``dtype``, accumulated in ``wide``."""
    if min(len(left.dims), len(right.dims)) < 2 or not _on_units(left.type.dtype):
        return _by_sum(t, left, right, acc, dtype, wide)
    dims = _product_dims(t, left, right)
    if apart := summed_apart(t, left, right):
        total = None if acc is None else t.cast(acc, wide)
        for one, other in apart:
            total = _product(t, one, other, total, wide, wide)
        return t.cast(total, dtype)
    inputs: list[Operand] = [left, right]
    if acc is not None:
        inputs.append(t.expand(acc, dims).value)
    attrs = DotAttrs(float32_precision(), wide, t.names.numbered("dot"))
    return t.emit(OpKind.DOT, tuple(inputs), TileType(dtype, dims), attrs)


def _on_units(dtype: str) -> bool:
    return is_float(dtype) or dtype == "int8"


def _by_sum(t: Tracer, left: Value, right: Value, acc: TileValue | None, dtype: str, wide: str) -> TileValue:
    """A product as every pair of elements multiplied, and a sum. A vector stays one: as a matrix of one row it would
    have the other operand's elements in another layout beside those that the kernel goes on with."""
    a, b = t.cast(t.wrap(left), wide), t.cast(t.wrap(right), wide)
    rows, columns = a.ndim > 1, b.ndim > 1
    _inner(t, left, right)
    if rows and columns:
        a, b = unsqueeze(t, a, -1), unsqueeze(t, b, -3)
    elif columns:
        a = unsqueeze(t, a, -1)
    result = reduce(t, "sum", t.pointwise("mul", a, b), -2 if columns else -1, keepdim=False)
    return t.cast(result if acc is None else t.pointwise("add", acc, result), dtype)


def _operands(t: Tracer, a: Any, b: Any) -> tuple[Value, Value]:
    left, right = t.operand(a), t.operand(b)
    if not isinstance(left, Value) or not isinstance(right, Value) or not left.dims or not right.dims:
        raise TraceError("a product takes two tiles", got=f"{a!r} and {b!r}"[:200], where=t.location())
    need_one_dtype(t, left.type.dtype, right.type.dtype)
    return left, right


def need_one_dtype(t: Tracer, x: str, y: str) -> None:
    """Refuse the operands of a product that sums where torch would: an accumulator of one's dtype cuts the other."""
    if x != y and not (x.startswith("float8") and y.startswith("float8")):
        raise TraceError(
            "the operands of a matrix product have one dtype",
            got=f"{x} and {y}",
            where=t.location(),
            hint=f"convert one: .to(torch.{_meeting(t, x, y)})",
        )


def _meeting(t: Tracer, a: str, b: str) -> str:
    if a.startswith("float8") or b.startswith("float8"):
        return b if a.startswith("float8") else a
    with t.plain_torch():
        return promote(((a, True), (b, True)))


def _as_value(t: Tracer, x: Any, dtype: str) -> Value:
    value = t.operand(x)
    return value if isinstance(value, Value) else t.full((), value, dtype).value


def _inner(t: Tracer, a: Value, b: Value) -> None:
    if not t.same_size(a.dims[-1].extent, b.dims[-2 if len(b.dims) > 1 else -1].extent):
        raise ShapeError(
            "the inner dimensions of a matrix product agree",
            got=f"{show(a.dims)} @ {show(b.dims)}",
            where=t.location(),
            hint="transpose one: b.T; index both by one tile, or by :",
        )


def _product_dims(t: Tracer, a: Value, b: Value) -> tuple[Dim, ...]:
    _inner(t, a, b)
    batch = t.broadcast([a.dims[:-2], b.dims[:-2]])
    return (*batch, a.dims[-2], b.dims[-1])


# ---- torch's functions --------------------------------------------------------------------------


@register_torch("matmul", "__matmul__")
def matmul(t: Tracer, a: Any, b: Any) -> TileValue:
    """``a @ b`` of tiles with one or more dimensions, the leading ones broadcast."""
    return _torch_product(t, "matmul", a, b)


@register_torch("mm")
def mm(t: Tracer, a: Any, b: Any, out_dtype: Any = None) -> TileValue:
    """``(m, k) @ (k, n)``. Raises ShapeError for other ranks."""
    _check_ranks(t, "mm", (a, 2), (b, 2))
    return _torch_product(t, "mm", a, b, out_dtype)


@register_torch("bmm")
def bmm(t: Tracer, a: Any, b: Any, out_dtype: Any = None) -> TileValue:
    """``(b, m, k) @ (b, k, n)``. Raises ShapeError for other ranks."""
    _check_ranks(t, "bmm", (a, 3), (b, 3))
    return _torch_product(t, "bmm", a, b, out_dtype)


@register_torch("mv")
def mv(t: Tracer, a: Any, b: Any) -> TileValue:
    """``(m, k) @ (k,)``. Raises ShapeError for other ranks."""
    _check_ranks(t, "mv", (a, 2), (b, 1))
    return _torch_product(t, "mv", a, b)


@register_torch("dot")
def vector_dot(t: Tracer, a: Any, b: Any) -> TileValue:
    """``(k,) @ (k,)``, a scalar. Raises ShapeError for other ranks."""
    _check_ranks(t, "dot", (a, 1), (b, 1))
    return _torch_product(t, "dot", a, b)


def _check_ranks(t: Tracer, name: str, *operands: tuple[Any, int]) -> None:
    for x, rank in operands:
        if len(value_of(t, x).dims) != rank:
            raise ShapeError(
                f"torch.{name} takes a tile of {rank} dimensions",
                got=show(x.value.dims),
                where=t.location(),
                hint="torch.matmul takes any",
            )


def _torch_product(t: Tracer, name: str, a: Any, b: Any, out_dtype: Any = None) -> TileValue:
    left, _ = _operands(t, a, b)
    if left.type.dtype.startswith("float8"):
        raise TraceError(
            f"torch.{name} takes no fp8 tiles",
            got=left.type.dtype,
            where=t.location(),
            hint="tfl.dot does, and accumulates in float32",
        )
    return dot(t, a, b, out_dtype=None if out_dtype is None else dtype_name(out_dtype))


@register_torch("outer", "ger")
def outer(t: Tracer, a: Any, b: Any) -> TileValue:
    """``a[:, None] * b[None, :]`` of two vectors. Raises ShapeError for other ranks."""
    _check_ranks(t, "outer", (a, 1), (b, 1))
    return t.pointwise("mul", unsqueeze(t, a, 1), unsqueeze(t, b, 0))


@register_torch("linear")
def linear(t: Tracer, x: Any, weight: Any, bias: Any = None) -> TileValue:
    """``x @ weight.mT``, plus ``bias`` where there is one."""
    product = _torch_product(t, "linear", x, transpose(t, weight, -2, -1))
    return product if bias is None else t.pointwise("add", product, bias)


@register_torch("addmm")
def addmm(t: Tracer, acc: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> TileValue:
    """``beta * acc + alpha * (a @ b)`` of matrices. Raises ShapeError for other ranks."""
    _check_ranks(t, "addmm", (a, 2), (b, 2))
    return _add_product(t, acc, a, b, beta, alpha)


@register_torch("baddbmm")
def baddbmm(t: Tracer, acc: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> TileValue:
    """``beta * acc + alpha * (a @ b)`` of batches of matrices. Raises ShapeError for other ranks."""
    _check_ranks(t, "baddbmm", (a, 3), (b, 3))
    return _add_product(t, acc, a, b, beta, alpha)


@register_torch("addmv")
def addmv(t: Tracer, acc: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> TileValue:
    """``beta * acc + alpha * (a @ b)`` of a matrix and a vector. Raises ShapeError for other ranks."""
    _check_ranks(t, "addmv", (a, 2), (b, 1))
    return _add_product(t, acc, a, b, beta, alpha)


def _add_product(t: Tracer, acc: Any, a: Any, b: Any, beta: Any, alpha: Any) -> TileValue:
    """``beta * acc + alpha * (a @ b)``; where ``beta`` is 0 nothing of ``acc`` counts, not even a NaN."""
    dtype = value_of(t, acc).type.dtype
    for name, factor in (("beta", beta), ("alpha", alpha)):
        check_factor(t, dtype, factor, name)
    is_plain = is_number(beta, 1)
    scaled = None if is_number(beta, 0) else acc if is_plain else t.cast(t.pointwise("mul", acc, beta), dtype)
    if is_number(alpha, 1):
        return dot(t, a, b, scaled, dtype)
    product = t.pointwise("mul", dot(t, a, b, None, dtype), alpha)
    return t.cast(product if scaled is None else t.pointwise("add", scaled, product), dtype)


@register_language("dot")
def language_dot(t: Tracer, a: Any, b: Any, acc: Any = None, out_dtype: Any = None) -> TileValue:
    """``tfl.dot``: without ``acc`` or ``out_dtype`` the result has the accumulator's dtype."""
    left, right = _operands(t, a, b)
    wide = accumulator(left.type.dtype, right.type.dtype)
    return dot(t, a, b, acc, wide if out_dtype is None else dtype_name(out_dtype))
