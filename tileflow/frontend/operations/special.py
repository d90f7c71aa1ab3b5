"""Special functions, out of the table's elementary ones: inverse and hyperbolic functions, erfc, and their kin.

Each is as exact as float32 or float64 allows, but for a few units in the last place; half types go by way of float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ...ir.types import is_float, itemsize
from ..promotion import dtype_name
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .pointwise import clamp, promoted
from .views import view

_LN2 = math.log(2)
# erfcx(x) / s as a polynomial in u = 2 s - 1 for s = 1 / (1 + x / 2), x >= 0: a fit at 400 Chebyshev nodes, whose
# relative error is below 4e-14
_ERFCX = (
    0.5107913526210097, 0.34358034220720773, 0.1397360462785188, 0.018221115730496194, -0.010755330963555914,
    -0.0032395920212147603, 0.0015453063093305015, 0.00041864275213981516, -0.00033153884797513665,
    -1.7155587356598167e-05, 7.224423409559642e-05, -1.7179115092808777e-05, -1.0870025689384974e-05,
    8.292658944823517e-06, -5.329000040363034e-07, -2.156905254629284e-06, 9.873320705881955e-07,
    3.104837683712632e-07, -3.070509697437664e-07, -1.6090565512918027e-08, 3.8900111164578584e-08,
)  # fmt: skip
# erfinv(x) / x as polynomials in w = -log(1 - x * x), less 2.5, and from 5 on in sqrt(w) - 3: Giles, Approximating the
# erfinv function, 2012
_ERFINV = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
    3.43273939e-07, 2.81022636e-08,
)  # fmt: skip
_ERFINV_FAR = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
    0.000100950558, -0.000200214257,
)  # fmt: skip
# ndtri(1/2 + q) / q as a polynomial in q * q, and -ndtri(p) / w for w = sqrt(-2 log(p)) as one in 1 / (1 + w / 4), both
# mapped to -1 ... 1: fits at 120 Chebyshev nodes, whose relative errors are below 2e-15
_CENTRAL = 0.18  # of q * q, the largest that the first is fitted to
_NDTRI = (
    2.8054041119097164, 0.38325511733384154, 0.11522935657998966, 0.04336306362673891, 0.018155795900151,
    0.00808978752791561, 0.0037543806575761896, 0.0017930576593004504, 0.0008747782367980645, 0.0004338410943505452,
    0.00021790981278773403, 0.00011062302029068711, 5.69833904513369e-05, 2.9512894097710204e-05,
    1.4414674002311638e-05, 7.302019317344289e-06, 5.658555592674151e-06, 3.3134366267301615e-06,
    -7.552913315398365e-07, -7.268177341500119e-07, 1.936091713815299e-06, 1.2381721071111712e-06,
    -7.253259769577064e-07, -4.6342480431397226e-07, 2.3370095641911993e-07, 1.3771938012730354e-07,
)  # fmt: skip
_NDTRI_FAR = (
    0.9398087211367221, -0.11846559580625098, -0.09433936256704327, -0.049897457385485955, -0.024681950662590636,
    -0.011491544031511735, -0.005284514932205477, -0.0023682235765374255, -0.0010638100639341597,
    -0.00046870610048617705, -0.00020862987095692038, -9.085549695318007e-05, -4.0448195010321486e-05,
    -1.7264722615603547e-05, -7.531333316027259e-06, -3.4945111339617536e-06, -1.9139210960687345e-06,
    -2.3092393129058913e-07, 2.352035515046947e-07, -5.442064558746451e-07, -4.796159979145873e-07,
    3.073869214902626e-07, 1.8941519561672413e-07, -1.4756364645965505e-07, -4.837937966303464e-08,
    2.973511826258352e-08,
)  # fmt: skip
_FAR_CENTRE, _FAR_HALF = 0.36540013182644915, 0.2723768760124956
_ATAN_TERMS = 10
_LARGE = 1e9  # from where on 1 is nothing beside the square


def floating(t: Tracer, x: Any) -> Any:
    """Ints in the default dtype, as torch's float functions take them."""
    return x if x.is_floating_point() else t.cast(x, dtype_name(torch.get_default_dtype()))


def meeting(t: Tracer, a: Any, b: Any) -> tuple[Any, Any]:
    """Both in the floating dtype that they promote to."""
    dtype = t.common_type(a, b).dtype
    return floating(t, t.cast(a, dtype)), floating(t, t.cast(b, dtype))


def _where(t: Tracer, condition: Any, a: Any, b: Any) -> Any:
    return t.pointwise("where", condition, a, b)


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's scheme; the constant first."""
    total: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


# ---- signs and parts ------------------------------------------------------------------------------------------------


@register_torch("signbit")
def signbit(t: Tracer, x: Any) -> Any:
    """Whether the sign bit is set, also of -0.0 and NaN."""
    dtype = x.value.type.dtype
    if dtype == "bool" or not x.dtype.is_signed:
        return t.pointwise("lt", t.cast(x, "int32"), 0)
    if not is_float(dtype):
        return x < 0
    return view(t, x, getattr(torch, f"int{8 * itemsize(dtype)}")) < 0


@register_torch("copysign")
def copysign(t: Tracer, x: Any, sign: Any) -> Any:
    """The size of ``x`` with the sign of ``sign``, also that of -0.0."""
    size = t.pointwise("abs", meeting(t, x, sign)[0])
    if isinstance(sign, TileValue):
        return _where(t, signbit(t, sign), -size, size)
    return -size if math.copysign(1, sign) < 0 else size


@register_torch("frac")
def frac(t: Tracer, x: Any) -> Any:
    """``x - trunc(x)``, with the sign of ``x``."""
    return x - t.pointwise("trunc", x)


@register_torch("nan_to_num")
def nan_to_num(
    t: Tracer, x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """``x`` with numbers in place of NaN and the infinities: 0 and the dtype's limits where none are given."""
    if not x.is_floating_point():
        return x
    limits = torch.finfo(x.dtype)
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    x = _where(t, x == math.inf, high, _where(t, x == -math.inf, low, x))
    return _where(t, t.pointwise("isnan", x), 0.0 if nan is None else nan, x)


@register_torch("isposinf")
def isposinf(t: Tracer, x: Any) -> Any:
    """Whether ``x`` is positive infinity."""
    return floating(t, x) == math.inf


@register_torch("isneginf")
def isneginf(t: Tracer, x: Any) -> Any:
    """Whether ``x`` is negative infinity."""
    return floating(t, x) == -math.inf


@register_torch("heaviside")
def heaviside(t: Tracer, x: Any, values: Any) -> Any:
    """0 where ``x`` is negative, 1 where it is positive, ``values`` where it is 0."""
    return _where(t, x == 0, values, t.cast(x > 0, x.value.type.dtype))


@register_torch("isclose")
def isclose(t: Tracer, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether ``|a - b| <= atol + rtol * |b|``, or both are the same infinity, or both NaN if ``equal_nan``."""
    distance = t.pointwise("abs", floating(t, a) - floating(t, b))
    near = distance <= atol + t.pointwise("abs", rtol * b)
    close = t.pointwise("logical_or", a == b, t.pointwise("logical_and", near, t.pointwise("isfinite", distance)))
    if not equal_nan:
        return close
    both = t.pointwise("logical_and", t.pointwise("isnan", a), t.pointwise("isnan", b))
    return t.pointwise("logical_or", close, both)


@register_torch("float_power")
def float_power(t: Tracer, a: Any, b: Any) -> Any:
    """``a ** b`` in float64."""
    a, b = (t.cast(x, "float64") if isinstance(x, TileValue) else float(x) for x in (a, b))
    return a**b


@register_torch("ldexp")
def ldexp(t: Tracer, x: Any, exponent: Any) -> Any:
    """``x * 2 ** exponent``; of an exponent of ints in the dtype of an ``x`` of floats."""
    found = x * t.pointwise("exp2", exponent)
    is_of_ints = isinstance(exponent, TileValue) and not exponent.is_floating_point()
    if isinstance(x, TileValue) and x.is_floating_point() and is_of_ints:
        return t.cast(found, x.value.type.dtype)
    return found


@register_torch("deg2rad")
def deg2rad(t: Tracer, x: Any) -> Any:
    """Degrees as radians."""
    return x * (math.pi / 180)


@register_torch("rad2deg")
def rad2deg(t: Tracer, x: Any) -> Any:
    """Radians as degrees."""
    return x * (180 / math.pi)


@register_torch("fmax")
def fmax(t: Tracer, a: Any, b: Any) -> Any:
    """The larger one; of NaN and a number the number."""
    return _of_numbers(t, "maximum", a, b)


@register_torch("fmin")
def fmin(t: Tracer, a: Any, b: Any) -> Any:
    """The smaller one; of NaN and a number the number."""
    return _of_numbers(t, "minimum", a, b)


def _of_numbers(t: Tracer, fn: str, a: Any, b: Any) -> Any:
    both = t.pointwise(fn, a, b)
    if not both.is_floating_point():
        return both
    return _where(t, a != a, b, _where(t, b != b, a, both))


# ---- logarithms -----------------------------------------------------------------------------------------------------


@register_torch("log10")
def log10(t: Tracer, x: Any) -> Any:
    """The logarithm to base 10, out of the natural one."""
    return t.pointwise("log", x) * (1 / math.log(10))


@register_torch("logaddexp")
def logaddexp(t: Tracer, a: Any, b: Any) -> Any:
    """``log(exp(a) + exp(b))``, without overflow."""
    return _log_of_sum(t, "exp", 1.0, a, b)


@register_torch("logaddexp2")
def logaddexp2(t: Tracer, a: Any, b: Any) -> Any:
    """``log2(2 ** a + 2 ** b)``, without overflow."""
    return _log_of_sum(t, "exp2", 1 / _LN2, a, b)


def _log_of_sum(t: Tracer, power: str, scale: float, a: Any, b: Any) -> Any:
    """The larger one, and what the other adds."""
    _, (a, b) = promoted(t, a, b)
    rest = t.pointwise("log1p", t.pointwise(power, -t.pointwise("abs", a - b))) * scale
    endless = t.pointwise("logical_and", a == b, t.pointwise("isinf", a))
    return _where(t, endless, a, t.pointwise("maximum", a, b) + rest)


@register_torch("xlogy")
def xlogy(t: Tracer, x: Any, y: Any) -> Any:
    """``x * log(y)``; 0 where ``x`` is, unless ``y`` is NaN."""
    return _times_or_zero(t, "log", x, y)


@register_torch("xlog1py")
def xlog1py(t: Tracer, x: Any, y: Any) -> Any:
    """``x * log(1 + y)``; 0 where ``x`` is, unless ``y`` is NaN."""
    return _times_or_zero(t, "log1p", x, y)


def _times_or_zero(t: Tracer, fn: str, x: Any, y: Any) -> Any:
    """``x * fn(y)``; 0 where ``x`` is, unless ``y`` is NaN."""
    x, y = meeting(t, x, y)
    is_zero = t.pointwise("logical_and", x == 0, y == y)
    return _where(t, is_zero, 0.0, x * t.pointwise(fn, y))


@register_torch("entr")
def entr(t: Tracer, x: Any) -> Any:
    """``-x * log(x)``: 0 at 0, negative infinity below."""
    x = floating(t, x)
    inside = _where(t, x == 0, 0.0, -x * t.pointwise("log", x))
    return _where(t, x < 0, -math.inf, inside)


@register_torch("logit")
def logit(t: Tracer, x: Any, eps: float | None = None) -> Any:
    """``log(x / (1 - x))``, of ``x`` kept ``eps`` away from 0 and 1 where ``eps`` is given."""
    x = floating(t, x)
    x = x if eps is None else clamp(t, x, eps, 1 - eps)
    return t.pointwise("log", x / (1 - x))


# ---- hyperbolic functions -------------------------------------------------------------------------------------------


@register_torch("sinh")
def sinh(t: Tracer, x: Any) -> Any:
    """The hyperbolic sine: by ``expm1`` below 1, where two exponentials would cancel."""
    x = floating(t, x)
    size = t.pointwise("abs", x)
    small = t.pointwise("expm1", size)
    small = 0.5 * (small + small / (small + 1))
    large = t.pointwise("exp", size - _LN2) - t.pointwise("exp", -size - _LN2)
    return copysign(t, _where(t, size < 1, small, large), x)


@register_torch("cosh")
def cosh(t: Tracer, x: Any) -> Any:
    """The hyperbolic cosine; each exponential is halved before it can overflow."""
    size = t.pointwise("abs", floating(t, x))
    return t.pointwise("exp", size - _LN2) + t.pointwise("exp", -size - _LN2)


@register_torch("asinh", "arcsinh")
def asinh(t: Tracer, x: Any) -> Any:
    """The inverse hyperbolic sine: by ``log1p``, and by ``log`` where the square would overflow."""
    x = floating(t, x)
    size = t.pointwise("abs", x)
    square = size * size
    small = t.pointwise("log1p", size + square / (1 + t.pointwise("sqrt", square + 1)))
    return copysign(t, _where(t, size < _LARGE, small, t.pointwise("log", size) + _LN2), x)


@register_torch("acosh", "arccosh")
def acosh(t: Tracer, x: Any) -> Any:
    """The inverse hyperbolic cosine: by ``log1p`` of what exceeds 1, by ``log`` where the square would overflow. NaN
    below 1."""
    beyond = floating(t, x) - 1
    small = t.pointwise("log1p", beyond + t.pointwise("sqrt", beyond * 2 + beyond * beyond))
    found = _where(t, x < _LARGE, small, t.pointwise("log", x) + _LN2)
    return _where(t, x < 1, math.nan, found)  # less than -1 it would be a square's root


@register_torch("atanh", "arctanh")
def atanh(t: Tracer, x: Any) -> Any:
    """The inverse hyperbolic tangent, by ``log1p``."""
    x = floating(t, x)
    size = t.pointwise("abs", x)
    return copysign(t, 0.5 * t.pointwise("log1p", 2 * size / (1 - size)), x)


# ---- circular functions ---------------------------------------------------------------------------------------------


def _atan_of_unit(t: Tracer, x: Any) -> Any:
    """The arc tangent on [0, 1]: of the angle's quarter, by its series."""
    for _ in range(2):
        x = x / (1 + t.pointwise("sqrt", 1 + x * x))
    square = x * x
    return 4 * x * polynomial(square, [(-1) ** n / (2 * n + 1) for n in range(_ATAN_TERMS)])


@register_torch("atan", "arctan")
def atan(t: Tracer, x: Any) -> Any:
    """The inverse tangent: of ``1 / x`` beyond 1, where the series does not reach."""
    x = floating(t, x)
    size = t.pointwise("abs", x)
    angle = _atan_of_unit(t, _where(t, size > 1, 1 / size, size))
    return copysign(t, _where(t, size > 1, math.pi / 2 - angle, angle), x)


@register_torch("atan2", "arctan2")
def atan2(t: Tracer, y: Any, x: Any) -> Any:
    """The angle of the point ``(x, y)``, in all four quadrants and with torch's signs of 0."""
    y, x = meeting(t, y, x)
    a, b = t.pointwise("abs", y), t.pointwise("abs", x)
    low: Any = t.pointwise("minimum", a, b)
    high: Any = t.pointwise("maximum", a, b)
    ratio = _where(t, low == high, _where(t, high == 0, high, 1.0), low / high)
    angle = _atan_of_unit(t, ratio)
    angle = _where(t, a > b, math.pi / 2 - angle, angle)
    return copysign(t, _where(t, signbit(t, x), math.pi - angle, angle), y)


@register_torch("asin", "arcsin")
def asin(t: Tracer, x: Any) -> Any:
    """The inverse sine, as ``atan2(x, sqrt((1 - x) * (1 + x)))``."""
    x = floating(t, x)
    return atan2(t, x, t.pointwise("sqrt", (1 - x) * (1 + x)))


@register_torch("acos", "arccos")
def acos(t: Tracer, x: Any) -> Any:
    """The inverse cosine, as ``2 * atan2(sqrt(1 - x), sqrt(1 + x))``."""
    x = floating(t, x)
    return 2 * atan2(t, t.pointwise("sqrt", 1 - x), t.pointwise("sqrt", 1 + x))


@register_torch("hypot")
def hypot(t: Tracer, x: Any, y: Any) -> Any:
    """``sqrt(x * x + y * y)``, scaled by the larger so that no square overflows. An infinite side makes it infinite."""
    a, b = (t.pointwise("abs", v) for v in meeting(t, x, y))
    low: Any = t.pointwise("minimum", a, b)
    high: Any = t.pointwise("maximum", a, b)
    ratio = low / high
    length = _where(t, high == 0, high, high * t.pointwise("sqrt", ratio * ratio + 1))
    endless = t.pointwise("logical_or", t.pointwise("isinf", a), t.pointwise("isinf", b))
    return _where(t, endless, math.inf, length)


@register_torch("sinc")
def sinc(t: Tracer, x: Any) -> Any:
    """``sin(pi * x) / (pi * x)``; 1 at 0."""
    angle = floating(t, x) * math.pi
    return _where(t, x == 0, 1.0, t.pointwise("sin", angle) / angle)


# ---- the normal distribution ----------------------------------------------------------------------------------------


@register_torch("erfc")
def erfc(t: Tracer, x: Any) -> Any:
    """``1 - erf(x)``, without the loss of digits where ``erf`` is near 1."""
    x = floating(t, x)
    size = t.pointwise("abs", x)
    tail = _erfcx_of_positive(t, size) * t.pointwise("exp", -size * size)
    return _where(t, x < 0, 2 - tail, tail)


@register_torch("erfcx")
def erfcx(t: Tracer, x: Any) -> Any:
    """``exp(x**2) * erfc(x)``."""
    x = floating(t, x)
    size = t.pointwise("abs", x)
    found = _erfcx_of_positive(t, size)
    return _where(t, x < 0, 2 * t.pointwise("exp", x * x) - found, found)


def _erfcx_of_positive(t: Tracer, x: Any) -> Any:
    s = 1 / (1 + 0.5 * x)
    return s * polynomial(2 * s - 1, _ERFCX)


@register_torch("ndtr")
def ndtr(t: Tracer, x: Any) -> Any:
    """The normal distribution's share below ``x``."""
    return 0.5 * erfc(t, floating(t, x) * -math.sqrt(0.5))


@register_torch("log_ndtr")
def log_ndtr(t: Tracer, x: Any) -> Any:
    """The logarithm of ``ndtr``, also where that is too small for its dtype."""
    x = floating(t, x)
    scaled = x * math.sqrt(0.5)
    low = t.pointwise("log", 0.5 * erfcx(t, -scaled)) - scaled * scaled
    return _where(t, x < -1, low, t.pointwise("log1p", -0.5 * erfc(t, scaled)))


@register_torch("erfinv")
def erfinv(t: Tracer, x: Any) -> Any:
    """The inverse of ``erf``: by polynomials, and in float64 two of Newton's steps after them."""
    x = floating(t, x)
    w: Any = -t.pointwise("log", (1 - x) * (1 + x))
    far = t.pointwise("sqrt", t.pointwise("maximum", w, 5)) - 3  # the maximum, so that no gradient is infinite at 0
    found: Any = x * _where(t, w < 5, polynomial(w - 2.5, _ERFINV), polynomial(far, _ERFINV_FAR))
    if x.value.type.dtype == "float64":
        for _ in range(2):
            slope = t.pointwise("exp", -found * found) * (2 / math.sqrt(math.pi))
            found = found - (t.pointwise("erf", found) - x) / slope
    size: Any = t.pointwise("abs", x)
    endless = t.cast(_where(t, x > 0, math.inf, -math.inf), x.value.type.dtype)
    return _where(t, size == 1, endless, found)


@register_torch("ndtri")
def ndtri(t: Tracer, p: Any) -> Any:
    """The inverse of ``ndtr``: where it is ``p``; infinite at 0 and 1, NaN beyond them."""
    p = floating(t, p)
    q: Any = p - 0.5
    central = q * polynomial(q * q * (2 / _CENTRAL) - 1, _NDTRI)
    w: Any = t.pointwise("sqrt", -2 * t.pointwise("log", t.pointwise("minimum", p, 1 - p)))
    far = w * polynomial((1 / (1 + w * 0.25) - _FAR_CENTRE) / _FAR_HALF, _NDTRI_FAR)
    found = _where(t, q * q <= _CENTRAL, central, _where(t, q < 0, -far, far))
    return t.cast(found, p.value.type.dtype)
