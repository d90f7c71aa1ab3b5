"""Pointwise rows of the table: operators, powers, activations, dtypes."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...errors import TraceError
from ...ir.ops import holds
from ...ir.types import is_float
from ..halves import converted
from ..held_numbers import check_number
from ..promotion import dtype_name, kind_of, promote, result_dtype, rounded
from ..shifted import SHIFTS, shifted
from ..syntax_registry import register_syntax
from ..torch_registry import METHODS, TABLE, Handler, register_torch
from ..trace import Tracer
from ..values import SymInt, TensorRef, TileValue

_UNARY = (
    "neg",
    "abs",
    "reciprocal",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "erf",
    "tanh",
    "sigmoid",
    "floor",
    "ceil",
    "trunc",
    "sign",
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
)
_BINARY = {
    "mul": "mul", "multiply": "mul", "minimum": "minimum", "not_equal": "ne", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge", "maximum": "maximum", "fmod": "fmod",
    "remainder": "remainder", "floor_divide": "floordiv", "true_divide": "div", "eq": "eq", "ne": "ne", "lt": "lt",
    "le": "le", "gt": "gt", "ge": "ge", "logical_and": "logical_and", "logical_or": "logical_or",
    "logical_xor": "logical_xor", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor", "bitwise_left_shift": "shift_left", "bitwise_right_shift": "shift_right",
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
}  # fmt: skip
_ALIASES = {"neg": ("negative",), "abs": ("absolute",), "trunc": ("fix",), "sigmoid": ("expit",), "sign": ("sgn",)}


@register_syntax("binary")
def binary(t: Tracer, fn: str, a: Any, b: Any) -> Any:
    """A binary operator; powers by small constants become products and roots."""
    if fn == "pow":
        simple = _simple_power(t, a, b)
        if simple is not None:
            return simple
        if _is_number(a) and _is_number(b):
            return t.pointwise(fn, a, b)
        if _is_floating(a) and isinstance(b, (SymInt, TileValue)) and isinstance(a, TileValue) and not _has_dims(b):
            b = t.full(a.value.dims, b, a.value.type.dtype)  # Triton's interpreter rounds no scalars
        if isinstance(b, (int, float)):
            b = t.full(a.value.dims, b, a.value.type.dtype if _is_floating(a) else "float32")
        if isinstance(a, (int, float)):
            a = t.full(b.value.dims, a, b.value.type.dtype if _is_floating(b) else "float32")
    return shifted(t, fn, a, b) if fn in SHIFTS else t.pointwise(fn, a, b)


def _simple_power(t: Tracer, a: Any, exponent: Any) -> Any:
    """``a ** exponent`` by cheaper means, or None. Between ints the result is exact, and so must be the way."""
    is_constant = isinstance(exponent, (int, float)) and not isinstance(exponent, bool)
    if is_constant and exponent in (0.5, -0.5):
        return t.pointwise("sqrt" if exponent > 0 else "rsqrt", a)
    if _is_floating(a) or _is_floating(exponent):
        if not is_constant or math.isinf(exponent):
            return None
        if exponent != int(exponent):
            exponent = _exponent_for(t, a, exponent)
            found = t.pointwise("exp2", t.pointwise("mul", t.pointwise("log2", a), exponent))
            return t.pointwise("where", t.pointwise("eq", a, -math.inf), math.inf if exponent > 0 else 0.0, found)
        product = _product_power(t, a, exponent)
        return product if exponent >= 0 else t.pointwise("reciprocal", product)
    if is_constant and exponent >= 0:
        return _product_power(t, a, exponent)
    if isinstance(a, int) and a == 2:
        dtype = exponent.value.type.dtype
        one = 1 if exponent.is_number else t.cast(1, "int64" if dtype == "bool" else dtype)
        return shifted(t, "shift_left", one, exponent)
    raise TraceError(
        "a power of ints has the base 2, or a constant exponent of 0 or more",
        where=t.location(),
        got=f"{a!r} ** {exponent!r}",
        hint="convert one with .float()",
    )


def _exponent_for(t: Tracer, a: Any, exponent: float) -> float:
    """A constant exponent of a half type, rounded to it as torch does."""
    if not isinstance(a, TileValue) or not a.is_floating_point():
        return exponent
    with t.plain_torch():
        return rounded(exponent, a.value.type.dtype)


def _is_number(x: Any) -> bool:
    return not isinstance(x, TileValue) or x.value.type.weak


def _has_dims(x: SymInt | TileValue) -> bool:
    return isinstance(x, TileValue) and bool(x.value.dims)


def _is_floating(x: Any) -> bool:
    return isinstance(x, float) or (isinstance(x, TileValue) and x.is_floating_point())


def _product_power(t: Tracer, a: Any, exponent: float) -> Any:
    """A product of squares, in the dtype that torch's power has."""
    kinds = tuple(kind_of(t.operand(x)) for x in (a, exponent))
    with t.plain_torch():
        dtype = result_dtype("pow", kinds)
    is_fine = isinstance(a, TileValue) and (a.is_number or a.value.type.dtype == dtype)
    square = a if is_fine else t.cast(a, dtype)  # products of numbers find their own bits
    result, rest = None, abs(int(exponent))
    while rest:
        if rest & 1:
            result = square if result is None else t.pointwise("mul", result, square)
        rest >>= 1
        square = t.pointwise("mul", square, square) if rest else square
    return t.full(square.value.dims, 1, dtype) if result is None else result


def _register_pointwise() -> None:
    def unary(fn: str) -> Handler:
        return lambda t, x: t.pointwise(fn, x)

    def two(fn: str) -> Handler:
        return lambda t, a, b: binary(t, fn, a, b)

    for fn in _UNARY:
        register_torch(fn, *_ALIASES.get(fn, ()))(unary(fn))
    for name, fn in _BINARY.items():
        register_torch(name)(two(fn))


_register_pointwise()


@register_torch("add")
def add(t: Tracer, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """``a + alpha * b``."""
    return t.pointwise("add", a, _added(t, a, b, alpha))


@register_torch("sub", "subtract")
def sub(t: Tracer, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """``a - alpha * b``."""
    return t.pointwise("sub", a, _added(t, a, b, alpha))


def _added(t: Tracer, a: Any, b: Any, alpha: Any) -> Any:
    """``alpha * b`` beside ``a``. Raises TraceError for a bool as the factor of numbers."""
    dtype = t.common_type(a, b).dtype
    if isinstance(alpha, bool) and dtype != "bool":
        raise TraceError(
            "a bool as the factor alpha= is one of bools, as in torch",
            got=f"alpha={alpha!r} of {dtype} operands",
            where=t.location(),
            hint="alpha=1, or a - b in place of alpha=-1",
        )
    return _scaled(t, dtype, b, alpha, "alpha")


def _scaled(t: Tracer, dtype: str, x: Any, factor: Any, name: str) -> Any:
    """``factor * x`` in the ``dtype`` in which the operands meet; ``x`` itself where the factor is 1."""
    check_factor(t, dtype, factor, name)
    if is_number(factor, 1):
        return x
    return t.cast(t.pointwise("mul", t.cast(x, dtype), factor), dtype)


def check_factor(t: Tracer, dtype: str, factor: Any, name: str) -> None:
    """Raises TraceError for the factor ``name`` of a sum or a product in ``dtype`` that this dtype does not hold: torch
    refuses most of them, and cuts others off."""
    is_cut = not is_float(dtype) and _is_floating(factor)
    if is_cut or (type(factor) is int and not is_float(dtype) and not holds(dtype, factor) and dtype != "bool"):
        raise TraceError(
            f"the factor {name}= of {dtype} operands is one that {dtype} holds",
            got=f"{name}={factor!r}" if isinstance(factor, (int, float)) else f"a {name}= of {factor.dtype}",
            where=t.location(),
            hint="convert the operands with .float(), and the result with .to(...)",
        )


def is_number(factor: Any, number: int) -> bool:
    """Whether a factor is this number already while tracing."""
    return isinstance(factor, (int, float)) and factor == number


@register_torch("rsub")
def rsub(t: Tracer, a: Any, b: Any) -> Any:
    """``b - a``."""
    return t.pointwise("sub", b, a)


@register_torch("div", "divide")
def div(t: Tracer, a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    """``a / b``, or the quotient rounded down (``floor``) or towards 0 (``trunc``)."""
    return t.pointwise({None: "div", "floor": "floordiv", "trunc": "truncdiv"}[rounding_mode], a, b)


@register_torch("pow")
def power(t: Tracer, a: Any, b: Any) -> Any:
    """``a ** b``."""
    return binary(t, "pow", a, b)


@register_torch("square")
def square(t: Tracer, x: Any) -> Any:
    """``x * x``."""
    return binary(t, "pow", x, 2)


@register_torch("round")
def round_(t: Tracer, x: Any, *, decimals: int = 0) -> Any:
    """``x`` rounded to the nearest number with so many decimals, halves to even."""
    if not decimals:
        return t.pointwise("round", x)
    scale = float(f"1e{abs(decimals)}")  # infinite beyond 308, which makes NaN, as in torch
    return t.pointwise("round", x * scale) / scale if decimals > 0 else t.pointwise("round", x / scale) * scale


@register_torch("where")
def where(t: Tracer, condition: Any, a: Any, b: Any) -> Any:
    """``a`` where the condition holds, else ``b``."""
    return t.pointwise("where", condition, a, b)


def where_method(t: Tracer, x: Any, *given: Any, condition: Any = None) -> Any:
    """The method's order: ``x`` where the condition holds, else the other one, which comes alone where the condition is
    named. Raises TypeError for fewer and more."""
    operands = given if condition is None else (condition, *given)
    if len(operands) != 2:
        raise TypeError(f"tile.where(condition, other) takes 2 arguments, {len(operands)} were given")
    return where(t, operands[0], x, operands[1])


METHODS["where"] = where_method
TABLE[torch.Tensor.where] = (where_method, "where")


@register_torch("masked_fill")
def masked_fill(t: Tracer, x: Any, mask: Any, value: Any) -> Any:
    """``value`` where the mask holds, else ``x``; in the dtype of ``x``."""
    check_number(t, value, x.value.type.dtype)
    return t.cast(t.pointwise("where", mask, value, x), x.value.type.dtype)


@register_torch("clamp", "clip")
def clamp(t: Tracer, x: Any, min: Any = None, max: Any = None) -> Any:
    """``x`` between ``min`` and ``max``, either of which may be left out. Raises TraceError where both are."""
    if min is None and max is None:
        raise TraceError(
            "clamp has a min, a max or both", got="neither", where=t.location(), hint="torch.clamp(x, min=0)"
        )
    if min is not None:
        x = t.pointwise("maximum", x, min)
    return x if max is None else t.pointwise("minimum", x, max)


@register_torch("clamp_min")
def clamp_min(t: Tracer, x: Any, min: Any) -> Any:
    """``x``, but at least ``min``."""
    return clamp(t, x, min=min)


@register_torch("clamp_max")
def clamp_max(t: Tracer, x: Any, max: Any) -> Any:
    """``x``, but at most ``max``."""
    return clamp(t, x, max=max)


@register_torch("tan")
def tan(t: Tracer, x: Any) -> Any:
    """``sin(x) / cos(x)``."""
    return t.pointwise("sin", x) / t.pointwise("cos", x)


@register_torch("bitwise_not")
def bitwise_not(t: Tracer, x: Any) -> Any:
    """``~x``; of a bool, its opposite."""
    return ~x


@register_torch("addcmul")
def addcmul(t: Tracer, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    """``x + value * a * b``, in the dtype in which all three meet."""
    dtype, (x, a, b) = promoted(t, x, a, b)
    return x + _scaled(t, dtype, a, value, "value") * b


@register_torch("addcdiv")
def addcdiv(t: Tracer, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    """``x + value * a / b``, in the dtype in which all three meet. Raises TraceError where ``a`` and ``b`` are ints."""
    if not _is_floating(a) and not _is_floating(b):
        raise TraceError(
            "torch.addcdiv divides floats, as in torch",
            got=f"{a!r} and {b!r}",
            where=t.location(),
            hint="x + value * a / b, or convert one with .float()",
        )
    dtype, (x, a, b) = promoted(t, x, a, b)
    return x + _scaled(t, dtype, a, value, "value") / b


def promoted(t: Tracer, *operands: Any) -> tuple[str, list[Any]]:
    """The dtype that operands promote to, and each in it: a product of ints that is added to floats wraps in none."""
    kinds = tuple(kind_of(t.operand(x)) for x in operands)
    with t.plain_torch():
        dtype = promote(kinds)
    return dtype, [t.cast(x, dtype) for x in operands]


@register_torch("lerp")
def lerp(t: Tracer, a: Any, b: Any, weight: Any) -> Any:
    """torch's two forms: each is exact at its own end."""
    near, far = a + weight * (b - a), b - (b - a) * (1 - weight)
    if isinstance(weight, (int, float)):
        return near if abs(weight) < 0.5 else far
    return t.pointwise("where", t.pointwise("abs", weight) < 0.5, near, far)


# ---- dtypes -------------------------------------------------------------------------------------


@register_torch("to", "type", "type_as")
def to(t: Tracer, x: Any, *wanted: Any, dtype: Any = None, device: Any = None, **unused: Any) -> Any:
    """A conversion to a dtype. A device says nothing: a kernel runs on one."""
    for item in (dtype, *wanted):
        item = item.dtype if isinstance(item, (TileValue, TensorRef)) else item
        if isinstance(item, torch.dtype):
            return converted(t, x, dtype_name(item))
        if isinstance(item, (torch.device, str)):
            _check_device(t, item)
        elif not isinstance(item, (bool, type(None))):
            raise TraceError(".to in a tile loop takes a dtype", got=repr(item), where=t.location())
    return x


def _check_device(t: Tracer, device: Any) -> None:
    """Raises TraceError for a text that names no device: torch takes none for a dtype either."""
    try:
        torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise TraceError(
            ".to in a tile loop takes a dtype", got=repr(device), where=t.location(), hint="torch.float16, no text"
        ) from error


def _cast_rows() -> None:
    names = {
        "float": "float32",
        "half": "float16",
        "bfloat16": "bfloat16",
        "double": "float64",
        "int": "int32",
        "long": "int64",
        "short": "int16",
        "char": "int8",
        "bool": "bool",
        "byte": "uint8",
    }

    def caster(dtype: str) -> Handler:
        return lambda t, x: converted(t, x, dtype)

    for method, dtype in names.items():
        METHODS[method] = caster(dtype)
        TABLE[getattr(torch.Tensor, method)] = (METHODS[method], method)


_cast_rows()


@register_torch("contiguous", "detach", "positive")
def identity(t: Tracer, x: Any, **unused: Any) -> Any:
    """``x`` itself: a tile in registers is contiguous and without a gradient."""
    return x


@register_torch("clone")
def clone(t: Tracer, x: Any, **unused: Any) -> Any:
    """The same value as another tile, which is not changed where Python's meaning changes ``x`` in place."""
    return t.copied(x) if isinstance(x, TileValue) else x
