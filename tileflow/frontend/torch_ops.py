"""The table: torch function -> IR. One row a name, for every spelling of it: ``torch.f``, ``Tensor.f``, ``F.f``.

Composites (softmax, gelu, var ...) are written in terms of the primitives, as torch's documentation defines them.
Handlers take the tracer, then torch's own arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ..errors import ShapeError, TraceError, UnsupportedOp
from ..expr import Expr
from ..ir.types import TileType, Value
from .matmul import ADD_PRODUCTS, PRODUCTS, add_product, dot
from .promotion import dtype_name, kind_of, result_dtype
from .trace import Tracer
from .values import SymInt, TileValue
from .views import VIEWS

Handler = Callable[..., Any]

TABLE: dict[Any, tuple[Handler, str]] = {}
METHODS: dict[str, Handler] = {}
FACTORIES: dict[Any, Handler] = {}
_NAMESPACES = (torch, torch.Tensor, F, torch.special)


def row(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for every torch function and method of these names."""

    def register(handler: Handler) -> Handler:
        for name in names:
            METHODS[name] = handler
            for namespace in _NAMESPACES:
                function = getattr(namespace, name, None)
                if function is not None:
                    TABLE[function] = (handler, name)
        return handler

    return register


def handler_for(tracer: Tracer, func: Any) -> tuple[Handler, str]:
    """The row of a torch function. Raises UnsupportedOp, naming the nearest rows."""
    import difflib

    found = TABLE.get(func)
    if found is not None:
        return found
    name = getattr(func, "__name__", str(func))
    near = difflib.get_close_matches(name, METHODS, n=3)
    raise UnsupportedOp(
        "a torch function in a tile loop must be one that tileflow implements", got=f"torch.{name}",
        where=tracer.location(), hint=f"near it: {', '.join(near)}" if near else "see docs/language.md for the list",
    )  # fmt: skip


# ---- pointwise ----------------------------------------------------------------------------------

_UNARY = (
    "neg", "abs", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "erf",
    "tanh", "sigmoid", "floor", "ceil", "trunc", "sign", "isnan", "isinf", "isfinite", "logical_not",
)  # fmt: skip
_BINARY = {
    "mul": "mul", "multiply": "mul", "minimum": "minimum", "maximum": "maximum", "fmod": "fmod",
    "remainder": "remainder", "floor_divide": "floordiv", "true_divide": "div", "eq": "eq", "ne": "ne", "lt": "lt",
    "le": "le", "gt": "gt", "ge": "ge", "logical_and": "logical_and", "logical_or": "logical_or",
    "logical_xor": "logical_xor", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor", "bitwise_left_shift": "shift_left", "bitwise_right_shift": "shift_right",
    "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
}  # fmt: skip
_ALIASES = {"neg": ("negative",), "abs": ("absolute",), "ceil": (), "trunc": ("fix",), "sigmoid": ("expit",)}


def binary(t: Tracer, fn: str, a: Any, b: Any) -> Any:
    """A binary operator; powers by small constants become products and roots."""
    if fn == "pow":
        simple = _simple_power(t, a, b)
        if simple is not None:
            return simple
        if isinstance(a, (int, float)):
            a = t.full(b.value.dims, a, b.value.type.dtype if _is_floating(b) else "float32")
    return t.pointwise(fn, a, b)


def _simple_power(t: Tracer, a: Any, exponent: Any) -> Any:
    """``a ** exponent`` by cheaper means, or None. Between ints the result is exact, and so must be the way."""
    is_constant = isinstance(exponent, (int, float)) and not isinstance(exponent, bool)
    if is_constant and exponent in (0.5, -0.5):
        return t.pointwise("sqrt" if exponent > 0 else "rsqrt", a)
    if _is_floating(a) or _is_floating(exponent):
        if not is_constant or math.isinf(exponent):
            return None
        if exponent != int(exponent):
            return t.pointwise("exp2", t.pointwise("mul", t.pointwise("log2", a), exponent))
        product = _product_power(t, a, exponent)
        return product if exponent >= 0 else t.pointwise("reciprocal", product)
    if is_constant and exponent >= 0:
        return _product_power(t, a, exponent)
    if isinstance(a, int) and a == 2:
        return t.pointwise("shift_left", t.cast(1, exponent.value.type.dtype), exponent)
    raise TraceError("a power of ints has the base 2, or a constant exponent of 0 or more", where=t.location(),
                     got=f"{a!r} ** {exponent!r}", hint="convert one with .float()")  # fmt: skip


def _is_floating(x: Any) -> bool:
    return isinstance(x, float) or (isinstance(x, TileValue) and x.is_floating_point())


def _product_power(t: Tracer, a: Any, exponent: float) -> Any:
    """A product of squares, in the dtype that torch's power has."""
    kinds = tuple(kind_of(t.operand(x)) for x in (a, exponent))
    with t.plain_torch():
        dtype = result_dtype("pow", kinds)
    square = a if isinstance(a, TileValue) and a.value.type.dtype == dtype else t.cast(a, dtype)
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
        row(fn, *_ALIASES.get(fn, ()))(unary(fn))
    for name, fn in _BINARY.items():
        row(name)(two(fn))


_register_pointwise()


@row("add")
def add(t: Tracer, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return t.pointwise("add", a, b if alpha == 1 else _scaled(t, a, b, alpha))


@row("sub", "subtract")
def sub(t: Tracer, a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return t.pointwise("sub", a, b if alpha == 1 else _scaled(t, a, b, alpha))


def _scaled(t: Tracer, a: Any, b: Any, alpha: Any) -> Any:
    """``alpha * b`` in the dtype in which ``a`` and ``b`` meet."""
    dtype = t.common_type(a, b).dtype
    return t.cast(t.pointwise("mul", t.cast(b, dtype), alpha), dtype)


@row("rsub")
def rsub(t: Tracer, a: Any, b: Any) -> Any:
    return t.pointwise("sub", b, a)


@row("div", "divide")
def div(t: Tracer, a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    return t.pointwise({None: "div", "floor": "floordiv", "trunc": "truncdiv"}[rounding_mode], a, b)


@row("pow")
def power(t: Tracer, a: Any, b: Any) -> Any:
    return binary(t, "pow", a, b)


@row("square")
def square(t: Tracer, x: Any) -> Any:
    return binary(t, "pow", x, 2)


@row("round")
def round_(t: Tracer, x: Any, *, decimals: int = 0) -> Any:
    if decimals:
        scale = 10.0**decimals
        return t.pointwise("round", x * scale) / scale
    return t.pointwise("round", x)


@row("where")
def where(t: Tracer, condition: Any, a: Any, b: Any) -> Any:
    return t.pointwise("where", condition, a, b)


@row("masked_fill")
def masked_fill(t: Tracer, x: Any, mask: Any, value: Any) -> Any:
    return t.cast(t.pointwise("where", mask, value, x), x.value.type.dtype)


@row("clamp", "clip")
def clamp(t: Tracer, x: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        x = t.pointwise("maximum", x, min)
    return x if max is None else t.pointwise("minimum", x, max)


@row("clamp_min")
def clamp_min(t: Tracer, x: Any, min: Any) -> Any:
    return clamp(t, x, min=min)


@row("clamp_max")
def clamp_max(t: Tracer, x: Any, max: Any) -> Any:
    return clamp(t, x, max=max)


@row("tan")
def tan(t: Tracer, x: Any) -> Any:
    return t.pointwise("sin", x) / t.pointwise("cos", x)


@row("bitwise_not")
def bitwise_not(t: Tracer, x: Any) -> Any:
    return ~x


@row("addcmul")
def addcmul(t: Tracer, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    return x + a * b * value


@row("addcdiv")
def addcdiv(t: Tracer, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    return x + a / b * value


@row("lerp")
def lerp(t: Tracer, a: Any, b: Any, weight: Any) -> Any:
    return a + weight * (b - a)


# ---- activations --------------------------------------------------------------------------------


@row("relu")
def relu(t: Tracer, x: Any, inplace: bool = False) -> Any:
    return t.pointwise("relu", x)


@row("silu")
def silu(t: Tracer, x: Any, inplace: bool = False) -> Any:
    return x * t.pointwise("sigmoid", x)


@row("gelu")
def gelu(t: Tracer, x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + t.pointwise("tanh", inner))
    return 0.5 * x * (1 + t.pointwise("erf", x * math.sqrt(0.5)))


@row("leaky_relu")
def leaky_relu(t: Tracer, x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    return t.pointwise("where", x > 0, x, x * negative_slope)


@row("elu")
def elu(t: Tracer, x: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    return t.pointwise("where", x > 0, x, alpha * t.pointwise("expm1", x))


@row("softplus")
def softplus(t: Tracer, x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return t.pointwise("where", x * beta > threshold, x, t.pointwise("log1p", t.pointwise("exp", x * beta)) / beta)


@row("hardtanh")
def hardtanh(t: Tracer, x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    return t.cast(clamp(t, x, min_val, max_val), x.value.type.dtype)


@row("logsigmoid")
def logsigmoid(t: Tracer, x: Any) -> Any:
    return t.pointwise("minimum", x, 0) - t.pointwise("log1p", t.pointwise("exp", -t.pointwise("abs", x)))


# ---- dtypes -------------------------------------------------------------------------------------


@row("to", "type")
def to(t: Tracer, x: Any, dtype: Any, *unused: Any, copy: bool = False, non_blocking: bool = False) -> Any:
    if isinstance(dtype, TileValue):
        dtype = dtype.dtype
    if not isinstance(dtype, torch.dtype):
        raise TraceError(".to in a tile loop takes a dtype", got=dtype, where=t.location())
    return t.cast(x, dtype_name(dtype))


def _cast_rows() -> None:
    names = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64", "int": "int32",
             "long": "int64", "short": "int16", "char": "int8", "bool": "bool", "byte": "uint8"}  # fmt: skip

    def caster(dtype: str) -> Handler:
        return lambda t, x: t.cast(x, dtype)

    for method, dtype in names.items():
        METHODS[method] = caster(dtype)
        TABLE[getattr(torch.Tensor, method)] = (METHODS[method], method)


_cast_rows()


@row("contiguous", "clone", "detach")
def identity(t: Tracer, x: Any, **unused: Any) -> Any:
    return x


# ---- reductions ---------------------------------------------------------------------------------


def reduce(t: Tracer, fn: str, x: TileValue, dim: Any, keepdim: bool, dtype: str | None = None) -> TileValue:
    """Reduce over one dimension, several, or all (``dim`` None)."""
    value = t.operand(x)
    if not isinstance(value, Value):
        raise TraceError("a reduction takes a tile", got=value, where=t.location())
    rank = len(value.dims)
    axes = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if any(not -rank <= a < max(rank, 1) for a in axes):
        raise ShapeError(f"a reduction's dim must lie in [{-rank}, {rank - 1}]", got=dim, where=t.location())
    axes = sorted({a % rank for a in axes}) if rank else []
    result_dtype = dtype or value.type.dtype
    for axis in reversed(axes):
        dims = value.dims[:axis] + value.dims[axis + 1 :]
        value = t.emit("reduce", (value,), TileType(result_dtype, dims), fn=fn, axis=axis,
                       site=t.names.numbered(f"reduce:{fn}")).value  # fmt: skip
    result = t.wrap(value)
    if keepdim:
        for axis in axes:
            result = VIEWS["unsqueeze"](t, result, axis)
    return result


def _accumulate(t: Tracer, x: TileValue, dtype: Any) -> TileValue:
    """torch's rule for sum and prod: ints and bools accumulate in int64."""
    if dtype is not None:
        return t.cast(x, dtype_name(dtype))
    if not x.is_floating_point():
        return t.cast(x, "int64")
    return x


@row("sum")
def sum_(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return reduce(t, "sum", _accumulate(t, x, dtype), dim, keepdim)


@row("prod")
def prod(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return reduce(t, "prod", _accumulate(t, x, dtype), dim, keepdim)


def count(t: Tracer, x: TileValue, dim: Any) -> Any:
    """The number of elements a reduction over ``dim`` covers; lanes past a tile's end do not count."""
    rank = len(x.value.dims)
    axes = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    total: Any = 1
    for axis in axes:
        d = x.value.dims[axis % rank]
        total = total * (t.size(d.extent) if d.tile is None else t.valid_lanes(d.tile))
    return total


@row("mean")
def mean(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dtype is not None:
        x = t.cast(x, dtype_name(dtype))
    if not x.is_floating_point():
        raise TraceError("mean takes a floating tile", got=x.dtype, where=t.location(), hint="x.float().mean(...)")
    return reduce(t, "sum", x, dim, keepdim) / count(t, x, dim)


@row("amax")
def amax(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return reduce(t, "max", x, dim or (dim if dim == 0 else None), keepdim)


@row("amin")
def amin(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return reduce(t, "min", x, dim or (dim if dim == 0 else None), keepdim)


@row("argmax")
def argmax(t: Tracer, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return _arg(t, "argmax", x, dim, keepdim)


@row("argmin")
def argmin(t: Tracer, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return _arg(t, "argmin", x, dim, keepdim)


def _arg(t: Tracer, fn: str, x: TileValue, dim: int | None, keepdim: bool) -> TileValue:
    if dim is None and x.ndim != 1:
        raise TraceError(
            f"{fn} over several dimensions is not supported", got=x, where=t.location(), hint="name one dim"
        )
    return reduce(t, fn, x, 0 if dim is None else dim, keepdim, dtype="int64")


def _extremum(name: str, fn: str, pointwise: str) -> None:
    values = getattr(torch.return_types, name)

    @row(name)
    def handler(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return reduce(t, fn, x, None, False)
        if isinstance(dim, (TileValue, SymInt)):
            return t.pointwise(pointwise, x, dim)
        return values((reduce(t, fn, x, dim, keepdim), _arg(t, "arg" + fn, x, dim, keepdim)))


_extremum("max", "max", "maximum")
_extremum("min", "min", "minimum")


@row("any")
def any_(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return reduce(t, "any", t.cast(x, "bool"), dim, keepdim)


@row("all")
def all_(t: Tracer, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return reduce(t, "all", t.cast(x, "bool"), dim, keepdim)


def _variance(t: Tracer, x: Any, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    average = mean(t, x, dim, keepdim=True)
    centred = x - average
    n = count(t, x, dim)
    variance = reduce(t, "sum", centred * centred, dim, keepdim) / (n if correction == 0 else n - correction)
    return variance, average if keepdim else mean(t, x, dim)


def _correction(unbiased: bool | None, correction: Any) -> Any:
    return correction if unbiased is None else int(unbiased)


@row("var")
def var(t: Tracer, x: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: Any = 1) -> Any:  # fmt: skip
    return _variance(t, x, dim, _correction(unbiased, correction), keepdim)[0]


@row("var_mean")
def var_mean(t: Tracer, x: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: Any = 1) -> Any:  # fmt: skip
    return _variance(t, x, dim, _correction(unbiased, correction), keepdim)


@row("std")
def std(t: Tracer, x: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: Any = 1) -> Any:  # fmt: skip
    return t.pointwise("sqrt", _variance(t, x, dim, _correction(unbiased, correction), keepdim)[0])


@row("norm")
def norm(t: Tracer, x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if dtype is not None:
        x = t.cast(x, dtype_name(dtype))
    if p in (2, "fro"):
        return t.pointwise("sqrt", reduce(t, "sum", x * x, dim, keepdim))
    if p == 1:
        return reduce(t, "sum", t.pointwise("abs", x), dim, keepdim)
    if p == math.inf:
        return reduce(t, "max", t.pointwise("abs", x), dim, keepdim)
    raise TraceError("norm's p is 1, 2 or inf", got=p, where=t.location())


@row("logsumexp")
def logsumexp(t: Tracer, x: Any, dim: Any, keepdim: bool = False) -> Any:
    if not x.is_floating_point():
        x = t.cast(x, dtype_name(torch.get_default_dtype()))
    peak = reduce(t, "max", x, dim, True)
    total = reduce(t, "sum", t.pointwise("exp", x - peak), dim, True)
    result = t.pointwise("log", total) + peak
    return result if keepdim else VIEWS["squeeze"](t, result, dim)


@row("softmax")
def softmax(t: Tracer, x: Any, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Any:
    if dtype is not None:
        x = t.cast(x, dtype_name(dtype))
    exponent = t.pointwise("exp", x - reduce(t, "max", x, dim, True))
    return exponent / reduce(t, "sum", exponent, dim, True)


@row("log_softmax")
def log_softmax(t: Tracer, x: Any, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Any:
    if dtype is not None:
        x = t.cast(x, dtype_name(dtype))
    shifted = x - reduce(t, "max", x, dim, True)
    return shifted - t.pointwise("log", reduce(t, "sum", t.pointwise("exp", shifted), dim, True))


# ---- normalisations -----------------------------------------------------------------------------


def _last(t: Tracer, x: TileValue, normalized_shape: Any) -> tuple[int, ...]:
    """The axes that ``normalized_shape`` names, checked against the tile's own sizes."""
    shape = [normalized_shape] if isinstance(normalized_shape, (int, SymInt)) else list(normalized_shape)
    own = [d.extent for d in x.value.dims[-len(shape) :]]
    for wanted, extent in zip(shape, own, strict=True):
        if not t.same_size(t.as_expr(wanted, "normalized_shape"), extent):
            raise ShapeError("normalized_shape must be the tile's last sizes", got=shape, where=t.location())
    return tuple(range(-len(shape), 0))


@row("layer_norm")
def layer_norm(t: Tracer, x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    axes = _last(t, x, normalized_shape)
    variance, average = _variance(t, x, axes, 0, True)
    result = (x - average) * t.pointwise("rsqrt", variance + eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@row("rms_norm")
def rms_norm(t: Tracer, x: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    axes = _last(t, x, normalized_shape)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    result = x * t.pointwise("rsqrt", mean(t, x * x, axes, True) + eps)
    return result if weight is None else result * weight


@row("normalize")
def normalize(t: Tracer, x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    return x / t.pointwise("maximum", norm(t, x, p, dim, True), eps)


# ---- products, views, factories -----------------------------------------------------------------

for _name in PRODUCTS:
    row(_name)(lambda t, a, b: dot(t, a, b))
for _name in ADD_PRODUCTS:
    row(_name)(add_product)
for _name, _handler in VIEWS.items():
    row(_name)(_handler)


@row("linear")
def linear(t: Tracer, x: Any, weight: Any, bias: Any = None) -> Any:
    product = dot(t, x, VIEWS["transpose"](t, weight, -2, -1))
    return product if bias is None else product + bias


def _like(value: Any) -> Handler:
    def handler(t: Tracer, x: Any, *args: Any, dtype: Any = None, **unused: Any) -> Any:
        fill = args[0] if value is None else value
        name = x.value.type.dtype if dtype is None else dtype_name(dtype)
        return t.full(x.value.dims, fill, name)

    return handler


row("zeros_like", "empty_like")(_like(0))
row("ones_like")(_like(1))
row("full_like")(_like(None))


def _new(value: Any) -> Handler:
    def handler(t: Tracer, x: Any, size: Any, *args: Any, dtype: Any = None, **unused: Any) -> Any:
        fill = args[0] if value is None else value
        return t.full(t.dims_of(size), fill, x.value.type.dtype if dtype is None else dtype_name(dtype))

    return handler


row("new_zeros", "new_empty")(_new(0))
row("new_ones")(_new(1))
row("new_full")(_new(None))


def _factory(value: Any) -> Handler:
    def handler(t: Tracer, *size: Any, dtype: Any = None, device: Any = None, **unused: Any) -> Any:
        fill = value
        if value is None:
            size, fill = (size[0],), size[1] if len(size) > 1 else unused["fill_value"]
        shape = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
        name = dtype_name(dtype if dtype is not None else torch.get_default_dtype())
        return t.full(t.dims_of(shape), fill, name)

    return handler


FACTORIES[torch.zeros] = FACTORIES[torch.empty] = _factory(0)
FACTORIES[torch.ones] = _factory(1)
FACTORIES[torch.full] = _factory(None)


def arange(t: Tracer, start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
           **unused: Any) -> Any:  # fmt: skip
    """``start + [0, n)`` in steps; n is a block size or a constant."""
    from ..ir.types import Dim

    start, end = (0, start) if end is None else (start, end)
    first = t.as_expr(start, "arange's start")
    length = t.extent(t.as_expr(end, "arange's end") - first)
    if step != 1:
        length = length.cdiv(step)
    tile = t.emit("arange", (), TileType("int32", (Dim(length),)), start=first if step == 1 else Expr.of(0))
    if step != 1:
        tile = tile * step + start
    return tile if dtype is None else t.cast(tile, dtype_name(dtype))


FACTORIES[torch.arange] = arange
