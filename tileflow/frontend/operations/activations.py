"""Activations: torch.nn.functional's pointwise functions, as its documentation defines them."""

from __future__ import annotations

import math
from typing import Any

from ...errors import TraceError
from ...expr import Expr
from ..held_numbers import check_number
from ..torch_registry import register_torch
from ..trace import Tracer
from .packing import chunk
from .pointwise import clamp
from .reductions import implicit_dim, softmax


@register_torch("relu")
def relu(t: Tracer, x: Any, inplace: bool = False) -> Any:
    """``max(x, 0)``."""
    return t.pointwise("relu", x)


@register_torch("silu")
def silu(t: Tracer, x: Any, inplace: bool = False) -> Any:
    """``x * sigmoid(x)``."""
    return x * t.pointwise("sigmoid", x)


@register_torch("gelu")
def gelu(t: Tracer, x: Any, approximate: str = "none") -> Any:
    """``x`` times the normal distribution's cumulative function, by ``erf`` or, as ``approximate`` says, by ``tanh``.
    Raises TraceError for any other approximation."""
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + t.pointwise("tanh", inner))
    if approximate != "none":
        raise TraceError(
            "gelu is exact or by tanh",
            got=repr(approximate),
            where=t.location(),
            hint='F.gelu(x), F.gelu(x, approximate="tanh")',
        )
    return 0.5 * x * (1 + t.pointwise("erf", x * math.sqrt(0.5)))


@register_torch("leaky_relu")
def leaky_relu(t: Tracer, x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """``x`` where it is positive, else ``x * negative_slope``."""
    return t.pointwise("where", x > 0, x, x * negative_slope)


@register_torch("rrelu")
def rrelu(
    t: Tracer, x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Any:
    """``leaky_relu`` with the mean of the slopes. Raises TraceError in training, where each element draws one."""
    if training:
        raise TraceError(
            "rrelu in device code is that of a module that is evaluated",
            got="training=True",
            where=t.location(),
            hint="torch.where(x >= 0, x, x * (lower + (upper - lower) * tfl.rand(x.shape, seed)))",
        )
    return leaky_relu(t, x, (lower + upper) / 2)


@register_torch("elu")
def elu(t: Tracer, x: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``."""
    return t.pointwise("where", x > 0, x, alpha * t.pointwise("expm1", x))


@register_torch("softplus")
def softplus(t: Tracer, x: Any, beta: float = 1, threshold: float = 20) -> Any:
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x`` is above ``threshold``."""
    return t.pointwise("where", x * beta > threshold, x, t.pointwise("log1p", t.pointwise("exp", x * beta)) / beta)


@register_torch("hardtanh")
def hardtanh(t: Tracer, x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """``x`` between ``min_val`` and ``max_val``, in the dtype of ``x``."""
    return t.cast(clamp(t, x, min_val, max_val), x.value.type.dtype)


@register_torch("logsigmoid")
def logsigmoid(t: Tracer, x: Any) -> Any:
    """``log(sigmoid(x))``, written so that ``exp`` never overflows."""
    return t.pointwise("minimum", x, 0) - t.pointwise("log1p", t.pointwise("exp", -t.pointwise("abs", x)))


@register_torch("relu6")
def relu6(t: Tracer, x: Any, inplace: bool = False) -> Any:
    """``x`` between 0 and 6."""
    return hardtanh(t, x, 0, 6)


@register_torch("hardsigmoid")
def hardsigmoid(t: Tracer, x: Any, inplace: bool = False) -> Any:
    """``x + 3`` between 0 and 6, divided by 6."""
    return clamp(t, x + 3.0, 0, 6) / 6.0


@register_torch("hardswish")
def hardswish(t: Tracer, x: Any, inplace: bool = False) -> Any:
    """``x * hardsigmoid(x)``."""
    return x * hardsigmoid(t, x)


@register_torch("mish")
def mish(t: Tracer, x: Any, inplace: bool = False) -> Any:
    """``x * tanh(softplus(x))``."""
    return x * t.pointwise("tanh", softplus(t, x))


@register_torch("selu")
def selu(t: Tracer, x: Any, inplace: bool = False) -> Any:
    """Its two constants make a normal input's mean 0 and variance 1 a fixed point (Klambauer et al., 2017)."""
    return 1.0507009873554805 * elu(t, x, 1.6732632423543772)


@register_torch("celu")
def celu(t: Tracer, x: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``."""
    return t.pointwise("where", x > 0, x, alpha * t.pointwise("expm1", x / alpha))


@register_torch("softsign")
def softsign(t: Tracer, x: Any) -> Any:
    """``x / (1 + |x|)``."""
    return x / (1 + t.pointwise("abs", x))


@register_torch("tanhshrink")
def tanhshrink(t: Tracer, x: Any) -> Any:
    """``x - tanh(x)``."""
    return x - t.pointwise("tanh", x)


@register_torch("hardshrink")
def hardshrink(t: Tracer, x: Any, lambd: float = 0.5) -> Any:
    """0 where ``x`` lies within ``lambd`` of 0, else ``x``."""
    inside = t.pointwise("logical_and", x >= -lambd, x <= lambd)
    return t.pointwise("where", inside, 0, x)


@register_torch("softshrink")
def softshrink(t: Tracer, x: Any, lambd: float = 0.5) -> Any:
    """``x`` moved by ``lambd`` towards 0; 0 where it lies within ``lambd`` of 0. NaN stays NaN."""
    return t.pointwise("where", x > lambd, x - lambd, t.pointwise("where", x < -lambd, x + lambd, 0 * x))


@register_torch("threshold")
def threshold(t: Tracer, x: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """``x`` where it is above ``threshold``, else ``value``, in the dtype of ``x``."""
    check_number(t, value, x.value.type.dtype)
    return t.cast(t.pointwise("where", x <= threshold, value, x), x.value.type.dtype)


@register_torch("prelu")
def prelu(t: Tracer, x: Any, weight: Any) -> Any:
    """``x`` where it is positive, else ``weight * x``. ``weight``: one number, or one for each element of the second
    dimension. Raises TraceError for a weight of more dimensions."""
    if weight.ndim > 1:
        raise TraceError(
            "prelu's weight is a number, or one for each element of the second dimension",
            got=weight.shape,
            where=t.location(),
            hint="torch.where(x > 0, x, weight * x)",
        )
    if weight.ndim:
        single = weight.value.dims[0].extent == Expr.of(1) or x.ndim < 2
        weight = weight[0] if single else weight[(None, slice(None), *[None] * (x.ndim - 2))]
    return t.pointwise("where", x > 0, x, weight * x)


@register_torch("glu")
def glu(t: Tracer, x: Any, dim: int = -1) -> Any:
    """The first half of ``x`` along ``dim`` times the sigmoid of the second half."""
    a, b = chunk(t, x, 2, dim)
    return a * t.pointwise("sigmoid", b)


@register_torch("softmin")
def softmin(t: Tracer, x: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """``softmax`` of ``-x`` along ``dim``."""
    return softmax(t, -x, implicit_dim(t, x, dim, "softmin"), dtype=dtype)


@register_torch("dropout")
def dropout(t: Tracer, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """The identity where nothing is dropped. Raises TraceError elsewhere: a kernel's random numbers have a seed."""
    if training and not (isinstance(p, (int, float)) and p == 0):
        raise TraceError(
            "dropout in a kernel draws from a seed",
            got=f"dropout with p={p}",
            where=t.location(),
            hint="torch.where(tfl.rand([tile_m, tile_n], seed) >= p, x / (1 - p), 0.0)",
        )
    return x
