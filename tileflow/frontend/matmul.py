"""Products: every spelling of a matrix product becomes one ``dot`` op."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import ShapeError, TraceError
from ..ir.graph import Operand
from ..ir.types import Dim, TileType, Value, is_float
from .promotion import dtype_name
from .trace import Tracer, show
from .values import TileValue

PRODUCTS = ("matmul", "mm", "bmm", "__matmul__")
ADD_PRODUCTS = ("addmm", "baddbmm")


def accumulator(a: str, b: str) -> str:
    """The dtype that products of these operands accumulate in."""
    if a == b == "float64":
        return "float64"
    return "float32" if is_float(a) else "int32"


def dot(t: Tracer, a: Any, b: Any, acc: Any = None, out_dtype: str | None = None) -> TileValue:
    """(..., m, k) @ (..., k, n) + acc. The result's dtype is acc's, ``out_dtype``, or the operands'."""
    left, right = t.operand(a), t.operand(b)
    if not isinstance(left, Value) or not isinstance(right, Value):
        raise TraceError("a matrix product takes two tiles", got=f"{a!r} and {b!r}"[:200], where=t.location())
    _check_dtypes(t, left, right)
    dims = _product_dims(t, left, right)
    inputs: list[Operand] = [left, right]
    dtype = out_dtype or left.type.dtype
    if acc is not None:
        widened = t.expand(t.wrap(_as_value(t, acc)), dims)
        inputs.append(widened.value)
        dtype = widened.value.type.dtype
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    return t.emit("dot", tuple(inputs), TileType(dtype, dims), precision=precision,
                  acc=accumulator(left.type.dtype, right.type.dtype), site=t.names.numbered("dot"))  # fmt: skip


def _as_value(t: Tracer, x: Any) -> Value:
    value = t.operand(x)
    return value if isinstance(value, Value) else t.full((), value, "float32").value


def _check_dtypes(t: Tracer, a: Value, b: Value) -> None:
    x, y = a.type.dtype, b.type.dtype
    fp8 = x.startswith("float8") and y.startswith("float8")
    if x != y and not fp8:
        raise TraceError("the operands of a matrix product have one dtype", got=f"{x} and {y}", where=t.location(),
                         hint="convert one with .to(...)")  # fmt: skip


def _product_dims(t: Tracer, a: Value, b: Value) -> tuple[Dim, ...]:
    if len(a.dims) < 2 or len(b.dims) < 2:
        raise ShapeError(
            "a matrix product takes tiles of two or more dimensions",
            got=f"{show(a.dims)} @ {show(b.dims)}",
            where=t.location(),
            hint="insert one with [:, None] or [None, :]",
        )
    inner, other = a.dims[-1], b.dims[-2]
    if not t.same_size(inner.extent, other.extent):
        raise ShapeError("the inner dimensions of a matrix product agree", got=f"{show(a.dims)} @ {show(b.dims)}",
                         where=t.location())  # fmt: skip
    batch = t.broadcast([a.dims[:-2], b.dims[:-2]])
    return (*batch, a.dims[-2], b.dims[-1])


def add_product(t: Tracer, acc: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> TileValue:
    """``beta * acc + alpha * (a @ b)``."""
    if beta == 1 and alpha == 1:
        return dot(t, a, b, acc)
    product = dot(t, a, b)
    return t.pointwise("add", acc if beta == 1 else acc * beta, product if alpha == 1 else product * alpha)


def language_dot(t: Tracer, a: Any, b: Any, acc: Any = None, out_dtype: Any = None) -> TileValue:
    """``tfl.dot``: without ``acc`` or ``out_dtype`` the result has the accumulator's dtype."""
    wide = accumulator(dtype_name(a.dtype), dtype_name(b.dtype))
    return dot(t, a, b, acc, wide if out_dtype is None else dtype_name(out_dtype))
