"""The gamma function's logarithm and its derivative, as exact as their dtype allows but for a few units in the last
place, or of 1 where they cross 0."""

from __future__ import annotations

import math
from typing import Any

from ...errors import TraceError
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .special import floating

# Lanczos's approximation for g = 7 with 9 terms (Godfrey, 2001), whose relative error is below 1e-15
_LANCZOS_G = 7.0
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
)  # fmt: skip
_OFFSET = 0.5 * math.log(2 * math.pi) - _LANCZOS_G
# of the asymptotic series of digamma: the Bernoulli number of 2 n divided by 2 n
_STIRLING = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # of trigamma's
_FAR = 8  # from where on the series are exact, of derivatives twice their order further
_LARGEST_ORDER = 30  # whose factorial float32 holds


@register_torch("lgamma", "gammaln")
def lgamma(t: Tracer, x: Any) -> Any:
    """``log(|gamma(x)|)``; below 1/2 by what it is of ``1 - x``, infinite at 0 and the negative ints."""
    x = floating(t, x)
    reflected = x < 0.5
    z: Any = t.pointwise("where", reflected, -x, x - 1)
    series: Any = _LANCZOS[0]
    for n, coefficient in enumerate(_LANCZOS[1:], start=1):
        series = series + coefficient / (z + n)
    base = z + (_LANCZOS_G + 0.5)
    found = (z + 0.5) * (t.pointwise("log", base) - 1) + t.pointwise("log", series) + _OFFSET
    found = t.pointwise("where", t.pointwise("isinf", x), math.inf, found)
    gap: Any = t.pointwise("abs", _to_the_next_int(t, x))
    sinc = t.pointwise("sin", gap * math.pi) / (gap * math.pi)
    mirrored = -t.pointwise("log", gap) - t.pointwise("log", sinc) - found
    pole = t.pointwise("logical_or", gap == 0, t.pointwise("isinf", x))
    return t.pointwise("where", reflected, t.pointwise("where", pole, math.inf, mirrored), found)


@register_torch("digamma", "psi")
def digamma(t: Tracer, x: Any) -> Any:
    """The derivative of ``lgamma``: by its asymptotic series where ``x`` is large, which recurrences reach from small
    ones; NaN at the negative ints."""
    x = floating(t, x)
    reflected = x < 0
    z: Any = t.pointwise("where", reflected, 1 - x, x)
    shifts: Any = 0.0
    for _ in range(_FAR):
        near = z < _FAR
        shifts = t.pointwise("where", near, shifts + 1 / z, shifts)
        z = t.pointwise("where", near, z + 1, z)
    square = 1 / (z * z)
    series: Any = _STIRLING[-1]
    for coefficient in reversed(_STIRLING[:-1]):
        series = series * square + coefficient
    found = t.pointwise("log", z) - 0.5 / z - series * square - shifts
    gap = _to_the_next_int(t, x)
    cotangent = t.pointwise("cos", gap * math.pi) / t.pointwise("sin", gap * math.pi)
    mirrored = found - math.pi * cotangent
    undefined = t.pointwise("logical_or", gap == 0, x == -math.inf)
    mirrored = t.pointwise("where", undefined, math.nan, mirrored)
    return t.pointwise("where", x == 0, -1 / x, t.pointwise("where", reflected, mirrored, found))


@register_torch("polygamma")
def polygamma(t: Tracer, n: Any, x: Any) -> Any:
    """The derivative of order ``n`` of ``digamma``; as a method ``x.polygamma(n)``. Raises TraceError for an ``n`` that
    is no constant from 0, or so large that its factorial is no number."""
    if isinstance(n, TileValue):
        n, x = x, n
    if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= _LARGEST_ORDER:
        raise TraceError(
            f"polygamma in device code is of a constant order between 0 and {_LARGEST_ORDER}",
            got=f"{n!r}",
            where=t.location(),
            hint="torch.polygamma(1, x); or call it in host code, before or after the tile loop",
        )
    return digamma(t, x) if n == 0 else _derivative(t, n, floating(t, x))


def _derivative(t: Tracer, n: int, x: Any) -> Any:
    """Of order ``n`` from 1, by its asymptotic series, as ``digamma``; below 1/2 by what it is of ``1 - x``."""
    reflected = x < 0.5
    z: Any = t.pointwise("where", reflected, 1 - x, x)
    shifts: Any = 0.0
    far = _FAR + 2 * (n - 1)
    for _ in range(far):
        near = z < far
        shifts = t.pointwise("where", near, shifts + 1 / z ** (n + 1), shifts)
        z = t.pointwise("where", near, z + 1, z)
    square = 1 / (z * z)
    series: Any = 0.0
    for k, number in reversed([*enumerate(_BERNOULLI, start=1)]):
        rising = math.prod(range(n, n + 2 * k)) / math.factorial(2 * k)  # (2 k + n - 1)! / (n - 1)! / (2 k)!
        series = series * square + number * rising
    sign = -1 if n % 2 == 0 else 1
    found = sign * math.factorial(n) * (shifts + (1 + 0.5 * n / z + series * square) / (n * z**n))
    gap: Any = _to_the_next_int(t, x) * math.pi
    cotangent = t.pointwise("cos", gap) / t.pointwise("sin", gap)
    turned: Any = 0.0
    for coefficient in reversed(_cotangents(n)):
        turned = turned * cotangent + coefficient
    pole = t.pointwise("logical_or", gap == 0, x == -math.inf)
    mirrored = t.pointwise("where", pole, sign * math.inf, -sign * found - turned)
    return t.pointwise("where", reflected, mirrored, found)


def _cotangents(n: int) -> list[float]:
    """The derivative of order ``n`` of ``pi * cot(pi * x)`` as a polynomial in the cotangent, the constant first: each
    order follows from the one before, since that of a cotangent is ``-pi * (1 + cot ** 2)``."""
    found = [0.0, math.pi]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(found)][1:]
        found = [-math.pi * (a + b) for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    return found


@register_torch("mvlgamma", "multigammaln")
def mvlgamma(t: Tracer, x: Any, p: int) -> Any:
    """The logarithm of the gamma function of ``p`` dimensions. Raises TraceError for a ``p`` that is no int from 1."""
    if not isinstance(p, int) or isinstance(p, bool) or p < 1:
        raise TraceError(
            "mvlgamma is of a constant number of dimensions, at least 1",
            got=f"{p!r}",
            where=t.location(),
            hint="torch.mvlgamma(x, 2)",
        )
    x = floating(t, x)
    return sum((lgamma(t, x - i / 2) for i in range(1, p)), lgamma(t, x)) + p * (p - 1) / 4 * math.log(math.pi)


def _to_the_next_int(t: Tracer, x: Any) -> Any:
    """``x`` less the int nearest to it, of which sines and tangents of ``pi * x`` are exact."""
    return x - t.pointwise("round", x)
