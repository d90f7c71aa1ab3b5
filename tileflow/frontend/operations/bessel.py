"""Modified Bessel functions of the first kind, as exact as their dtype allows but for a few units in the last place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..torch_registry import register_torch
from ..trace import Tracer
from .special import floating, polynomial

# Up to 8 exp(-x) I0(x), and exp(-x) I1(x) / x, as polynomials in x; beyond sqrt(x) exp(-x) times I0 and I1, as ones in
# 8 / x, both mapped to -1 ... 1: fits at 120 Chebyshev nodes, whose relative errors are below 2e-13
_BETWEEN = 8.0
_I0_NEAR = (
    0.2070019212239867, -0.11300432688620549, 0.09451562853995103, -0.08904344136075962, 0.08734341617552313,
    -0.08496338091616305, 0.07927522590716347, -0.06954119561719381, 0.05677703201991695, -0.04298594945479612,
    0.030177912022978357, -0.01968265469059234, 0.011960077907026221, -0.0067923998730731695, 0.003617126448897043,
    -0.001811886793937724, 0.0008563152748272306, -0.00038290209550065975, 0.00016240542162878106,
    -6.550861389620851e-05, 2.520232727107692e-05, -9.251680584432654e-06, 3.2293390826404927e-06,
    -1.0883393970072518e-06, 3.675842926555429e-07, -1.1384114641747256e-07, 2.6265363151970112e-08,
    -7.723094556846333e-09, 4.470516727511741e-09, -1.1852342482684723e-09,
)  # fmt: skip
_I0_FAR = (
    0.40217650944503514, 0.003360551982973131, 0.00013621607130302846, 1.1143060598036942e-05,
    1.4839074530685992e-06, 2.9705700934665855e-07, 8.826073729838234e-08, 4.086435380365516e-08,
    2.3400952006373807e-08, 3.3996436620201937e-09, -1.1177964125239354e-08, -6.96605739936931e-09,
    1.4704894876433748e-09, 1.5780980255711816e-09,
)  # fmt: skip
_I1_NEAR = (
    0.044687709875608835, -0.06112433802966629, 0.0680575999095116, -0.06848260620582547, 0.06376740371340721,
    -0.055280039227051464, 0.04467457262125467, -0.03367135551992323, 0.023686016957729535, -0.015571309256763564,
    0.009583962150731578, -0.00553456775924123, 0.0030057624197775295, -0.0015388749696724586,
    0.0007445123445061157, -0.00034117472445271377, 0.0001484212433475852, -6.142655719704761e-05,
    2.4233753149624307e-05, -9.131775730568571e-06, 3.293899139003749e-06, -1.1381566323785447e-06,
    3.759367306404118e-07, -1.1993980285486188e-07, 3.802984785138283e-08, -1.1224475126135595e-08,
    2.603206542331157e-09, -7.277033556073836e-10, 3.7284532079392345e-10, -9.506861180736366e-11,
)  # fmt: skip
_I1_FAR = (
    0.38939845902583864, -0.009749577192522963, -0.00021923576006329404, -1.5038574674280621e-05,
    -1.8349817263934949e-06, -3.480756656970337e-07, -9.947371778562424e-08, -4.4700007386594693e-08,
    -2.5485467146415504e-08, -4.200693856655971e-09, 1.1655203618871743e-08, 7.520506868292552e-09,
    -1.474263403775162e-09, -1.672622535103364e-09,
)  # fmt: skip


@register_torch("i0", "modified_bessel_i0")
def i0(t: Tracer, x: Any) -> Any:
    """Of order 0."""
    x = floating(t, x)
    return t.pointwise("exp", t.pointwise("abs", x)) * i0e(t, x)


@register_torch("i0e")
def i0e(t: Tracer, x: Any) -> Any:
    """Of order 0, times ``exp(-|x|)``."""
    size: Any = t.pointwise("abs", floating(t, x))
    near = polynomial(_near(t, size), _I0_NEAR)
    return t.pointwise("where", size <= _BETWEEN, near, _far(t, size, _I0_FAR))


@register_torch("i1", "modified_bessel_i1")
def i1(t: Tracer, x: Any) -> Any:
    """Of order 1."""
    x = floating(t, x)
    return t.pointwise("exp", t.pointwise("abs", x)) * i1e(t, x)


@register_torch("i1e")
def i1e(t: Tracer, x: Any) -> Any:
    """Of order 1, times ``exp(-|x|)``."""
    x = floating(t, x)
    size: Any = t.pointwise("abs", x)
    near = x * polynomial(_near(t, size), _I1_NEAR)
    far = _far(t, size, _I1_FAR)
    return t.pointwise("where", size <= _BETWEEN, near, t.pointwise("where", x < 0, -far, far))


# Each is bounded a bit beyond where it is chosen: then the other one has no infinite gradient, and the chosen one never
# meets its bound, where minimum and maximum halve gradients.


def _near(t: Tracer, size: Any) -> Any:
    small: Any = t.pointwise("minimum", size, _BETWEEN + 1)
    return small * (2 / _BETWEEN) - 1


def _far(t: Tracer, size: Any, coefficients: Sequence[float]) -> Any:
    large: Any = t.pointwise("maximum", size, _BETWEEN - 1)
    return polynomial(2 * _BETWEEN / large - 1, coefficients) * t.pointwise("rsqrt", large)
